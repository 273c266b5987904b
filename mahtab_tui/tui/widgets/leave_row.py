"""The question before leaving, in place of the footer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

LOOK = 0.2
"""Seconds between two checks of what would be lost."""


class LeaveRow(Widget):
    """Says what leaving would lose. It never takes the focus, so that keys go where they went before."""

    def __init__(self, lost: Callable[[], Sequence[str]], key: str) -> None:
        """lost: lists what leaving would lose now. key: the key that leaves, as on the keyboard."""
        super().__init__()
        self._lost = lost
        self._key = key
        self._shown: Sequence[str] = ()

    def on_mount(self) -> None:
        self._look()
        self.set_interval(LOOK, self._look)

    def _look(self) -> None:
        lost = self._lost()
        if lost != self._shown:
            self._shown = lost
            self.refresh(layout=True)

    def render(self) -> Content:
        lost = ", ".join(self._shown)
        return Content.assemble(
            ("Leave? ", "bold $moon"),
            f"This is lost: {lost}" if lost else "Nothing is lost any more",
            (f" · {self._key} again leaves · Esc stays", "$muted"),
        )
