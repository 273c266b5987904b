"""Searches in a pane."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import Key, Paste
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.textual_fixes import run_own_binding


class LineInput(Input):
    """An `Input` that joins the lines of a paste, and handles keys in order."""

    async def on_key(self, event: Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        lines = plain(event.text.strip("\r\n")).splitlines()
        start, end = sorted(self.selection)
        self.replace(" ".join(lines), start, end)


class Findable(Protocol):
    """A pane in which a text can be found."""

    def begin_find(self) -> None: ...

    def find(self, query: str, step: int) -> str:
        """Show the next match (1), the previous one (-1), or the first one again (0).

        Return its position, such as "2 of 7".
        """

    def end_find(self) -> None:
        """Focus the match."""


class FindRow(Horizontal):
    """The line in which the user types what to find."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close"),
        ("down", "step(1)"),
        ("up", "step(-1)"),
    ]

    def __init__(self, target: Findable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._target = target

    def compose(self) -> ComposeResult:
        yield Static("Find", id="find-title", markup=False)
        yield LineInput(compact=True, id="find-line")
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        """Show the row, and find what it already contains.

        Wait until the row is there, if it was made for this.
        """
        if not self.is_mounted:
            self.call_later(self.open)
            return
        self._target.begin_find()
        line = self.query_one(LineInput)
        self.display = True
        line.focus()
        line.select_all()
        self.action_step(0)

    def action_close(self) -> None:
        """Hide the row, and focus the match."""
        self.display = False
        self._target.end_find()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.action_step(0)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_step(1)

    def action_step(self, step: int) -> None:
        """Show another match, and which of how many it is.

        Args:
            step: As in `Findable.find`.
        """
        query = self.query_one(LineInput).value
        position = self._target.find(query, step)
        self.query_one("#find-count", Static).update(position)
