"""A line that searches the pane above it."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from mahtab_tui.tui.patterns import PatternError
from mahtab_tui.tui.widgets.line_input import LineInput

PAUSE = 0.15
"""Seconds without a key after which a regular expression is searched for, because the search may
block keys for a moment."""


class Findable(Protocol):
    """A pane that can be searched."""

    def begin_find(self) -> str:
        """Begin a search at the current position; returns the words to begin with, often none."""

    def find(self, words: str, step: int, *, regex: bool) -> str:
        """Show the next match (1), the previous one (-1), or the first one from where the search
        began (0).

        Returns which match it is ("2 of 7"), that there is none, or an empty text for no words.
        Raises `PatternError` for an invalid pattern.
        """

    def end_find(self) -> None:
        """End the search, and focus what was found."""


class FindRow(Horizontal):
    """Typing searches, Enter goes to the next match, Escape closes the row and stays at the
    match."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False),
        Binding("down", "step(1)", "Next", show=False),
        Binding("up", "step(-1)", "Previous", show=False),
        Binding("alt+r", "toggle_regex", "Regular expression", show=False, priority=True),
    ]

    def __init__(self, found: Findable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._found = found
        self._regex = False
        self._waiting: Timer | None = None
        """Runs until the typed pattern is searched for."""

    def compose(self) -> ComposeResult:
        yield Static("Find", id="find-title", markup=False)
        yield LineInput(compact=True, id="find-line")
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        line = self.query_one(LineInput)
        line.value = self._found.begin_find() or line.value
        self.display = True
        line.focus()
        line.select_all()
        self.action_step(0)

    def action_close(self) -> None:
        if self._waiting is not None:
            self.action_step(0)
        self.display = False
        self._found.end_find()

    def action_toggle_regex(self) -> None:
        self._regex = not self._regex
        self.query_one("#find-title", Static).update("Regex" if self._regex else "Find")
        self.action_step(0)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._regex:
            self.action_step(0)
            return
        if self._waiting is not None:
            self._waiting.stop()
        self._waiting = self.set_timer(PAUSE, lambda: self.action_step(0))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_step(1)

    def action_step(self, step: int) -> None:
        """Search; see `Findable.find`."""
        if self._waiting is not None:  # the first match was not searched for yet
            self._waiting.stop()
            self._waiting, step = None, 0
        try:
            count = Content(
                self._found.find(self.query_one(LineInput).value, step, regex=self._regex)
            )
        except PatternError as error:
            count = Content.styled(str(error), "$bad")
        self.query_one("#find-count", Static).update(count)
