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


class JumpTarget(NamedTuple):
    """A widget to jump to."""

    letter: str
    widget: Widget
    hidden: bool = False
    """Whether it is off the screen; then its name is shown at the right edge."""


class JumpScreen(Dialog[Widget | None]):
    """Draws a letter over each target, and lists the hidden ones; any other key closes."""

    def __init__(self, targets: Sequence[JumpTarget]) -> None:
        super().__init__()
        self._targets = targets

    def compose(self) -> ComposeResult:
        for target in self._targets:
            if not target.hidden:
                yield self._label(f" {target.letter} ", target.widget.region.x + 1, target.widget.region.y)
        for line, target in enumerate((target for target in self._targets if target.hidden), 2):
            text = f" {target.letter} {target.widget.id} "
            yield self._label(text, self.app.size.width - len(text) - 1, line)

    def _label(self, text: str, x: int, y: int) -> Label:
        label = Label(text, classes="jump-letter", markup=False)
        label.absolute_offset = Offset(x, y)
        return label

    def on_key(self, event: Key) -> None:
        event.stop()
        chosen = next((target.widget for target in self._targets if target.letter == event.key), None)
        if chosen is not None and self.is_active:
            # At once, because the next key of the same burst is for the pane.
            chosen.screen.set_focus(next((widget for widget in (chosen, *chosen.query("*")) if widget.focusable), None))
        self.dismiss(chosen)

    def on_click(self, event: Click) -> None:
        at = (event.screen_x, event.screen_y)
        self.dismiss(next((target.widget for target in self._targets if not target.hidden and target.widget.region.contains(*at)), None))
