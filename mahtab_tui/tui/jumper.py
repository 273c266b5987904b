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

_TITLE_LINE = 1
"""The line of the panes' titles, at whose end the hidden panes are listed."""


class JumpTarget(NamedTuple):
    """A widget to jump to."""

    letter: str
    widget: Widget
    hidden: bool = False
    """Whether it is off the screen; then its name is shown at the right edge."""


class JumpScreen(Dialog[Widget | None]):
    """Draws a letter at the edge of each target, and lists the hidden ones; any other key
    closes."""

    def __init__(self, targets: Sequence[JumpTarget]) -> None:
        super().__init__()
        self._targets = targets

    def compose(self) -> ComposeResult:
        for target in self._targets:
            if not target.hidden:  # in the margin, so that it covers no text
                yield self._label(target.letter, target.widget.region.x, target.widget.region.y)
        end = self.app.size.width
        for target in reversed([target for target in self._targets if target.hidden]):
            text = f" {target.letter} opens {target.widget.id} "
            end -= len(text) + 1
            yield self._label(text, end, _TITLE_LINE)

    def _label(self, text: str, x: int, y: int) -> Label:
        label = Label(text, classes="jump-letter", markup=False)
        label.absolute_offset = Offset(x, y)
        return label

    def on_key(self, event: Key) -> None:
        event.stop()
        chosen = next(
            (target.widget for target in self._targets if target.letter == event.key), None
        )
        if chosen is not None and self.is_active:
            # At once, because the next key of the same burst is for the pane.
            chosen.screen.set_focus(
                next((widget for widget in (chosen, *chosen.query("*")) if widget.focusable), None)
            )
        self.dismiss(chosen)

    def on_click(self, event: Click) -> None:
        at = (event.screen_x, event.screen_y)
        self.dismiss(
            next(
                (
                    target.widget
                    for target in self._targets
                    if not target.hidden and target.widget.region.contains(*at)
                ),
                None,
            )
        )
