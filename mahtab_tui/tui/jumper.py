"""Jump mode: one letter focuses a pane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.events import Click, Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Label

from mahtab_tui.tui.screens.dialog import Dialog


class Target(NamedTuple):
    """A widget that one can jump to."""

    letter: str
    widget: Widget


class JumpScreen(Dialog[Widget | None]):
    """Draws a letter over each target; any other key leaves."""

    def __init__(self, targets: Sequence[Target]) -> None:
        super().__init__()
        self._targets = targets

    def compose(self) -> ComposeResult:
        for target in self._targets:
            label = Label(f" {target.letter} ", classes="jump-letter", markup=False)
            label.absolute_offset = Offset(target.widget.region.x + 1, target.widget.region.y)
            yield label

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(next((target.widget for target in self._targets if target.letter == event.key), None))

    def on_click(self, event: Click) -> None:
        at = (event.screen_x, event.screen_y)
        self.dismiss(next((target.widget for target in self._targets if target.widget.region.contains(*at)), None))
