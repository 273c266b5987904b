"""Where a letter leads after Ctrl+O."""

from __future__ import annotations

from typing import NamedTuple

from textual.widget import Widget


class JumpTarget(NamedTuple):
    """A pane that a letter leads to."""

    letter: str
    widget: Widget
    hidden: bool = False
