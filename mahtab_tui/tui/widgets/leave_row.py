"""The question before leaving, in place of the footer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

LOOK = 0.2
"""Seconds between two checks of what would be lost."""


class LeaveRow(Widget):
    """Says what leaving would lose. It never takes the focus, so that keys go where they went
    before."""

    def __init__(
        self, lost: Callable[[], Sequence[str]], goes_on: Callable[[], bool], key: str
    ) -> None:
        """lost: lists what leaving would lose now. goes_on: whether a cell runs that can go on.
        key: the key that leaves, as on the keyboard."""
        super().__init__()
        self._lost = lost
        self._goes_on = goes_on
        self._runs = False
        self._key = key
        self._shown: Sequence[str] = ()

    def on_mount(self) -> None:
        self._look()
        self.set_interval(LOOK, self._look)

    def _look(self) -> None:
        lost, runs = self._lost(), self._goes_on()
        if (lost, runs) != (self._shown, self._runs):
            self._shown, self._runs = lost, runs
            self.refresh(layout=True)

    def render(self) -> Content:
        lost = ", ".join(self._shown)
        if self._runs:
            losing = f"A cell is running. You would lose {lost}." if lost else "A cell is running."
            keys = f" · {self._key} again leaves it running · ^s stops it and leaves · Esc stays"
        else:
            losing = f"You would lose {lost}" if lost else "Nothing would be lost now"
            keys = f" · {self._key} again leaves · Esc stays"
        return Content.assemble(("Leave? ", "bold $moon"), losing, (keys, "$muted"))
