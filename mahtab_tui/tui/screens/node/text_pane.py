"""The text of a call, shown at its place in the text of the whole search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from mahtab_tui.sandbox.text import Span
from mahtab_tui.search.coverage import Coverage
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.rows.text_window import TextWindow
from mahtab_tui.tui.screens.node.text_rows import TextRows
from mahtab_tui.tui.widgets.line_input import LineInput


class TextPane(Vertical):
    """Shows the text, and a line to search it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("n", "next(False)", "Next", show=False),
        Binding("N,shift+n", "next(True)", "Previous", show=False),
        Binding("right_square_bracket", "place(1)", "Next place that was found", show=False),
        Binding("left_square_bracket", "place(-1)", "Place found before", show=False),
    ]

    def __init__(self, window: TextWindow, spans: Sequence[Span], coverage: Coverage, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._window = window
        self.rows = TextRows(window, spans, coverage)
        self._coverage = coverage
        self._spans = spans
        self._fetcher = Fetcher(self)

    def compose(self) -> ComposeResult:
        if not self._spans:
            yield Static("Code made this call's text: it is no part of the searched text.", classes="quiet-words", markup=False)
        elif not self._window.held:
            yield Static("The text is no longer kept.", classes="quiet-words", markup=False)
        else:
            yield self.rows
            yield LineInput(placeholder="search the text", compact=True, id="find")

    def on_mount(self) -> None:
        for line in self.query("#find"):
            line.display = False

    @property
    def shown(self) -> bool:
        """Whether there is a text to show."""
        return self.rows.is_attached

    def show(self, span: Span) -> None:
        """Go to a span."""
        if self.shown:
            self.rows.place, self.rows.found = span, None
            self.rows.go_to(span[0])

    def action_place(self, step: int) -> None:
        """Go to the next place (1), or the previous one (-1), that a pattern matched or an answer rests on."""
        if not self.shown:
            return
        found = sorted([*self._coverage.spans("grep"), *self._coverage.spans("answer")])
        at = self.rows.top if self.rows.place is None else self.rows.place[0] + (step > 0)
        beyond = [span for span in found if (span[0] >= at if step > 0 else span[0] < at)]
        if beyond:
            self.show(beyond[0 if step > 0 else -1])

    def action_search(self) -> None:
        if self.shown:
            line = self.query_one("#find", LineInput)
            line.display = True
            line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
        self._find(event.value, backwards=False)

    def action_next(self, backwards: bool) -> None:
        if self.shown:
            self._find(self.query_one("#find", LineInput).value, backwards=backwards)

    def _find(self, words: str, *, backwards: bool) -> None:
        """Search on a thread, because the text may be long, and go to the place."""
        rows, window = self.rows, self._window
        at = rows.top if rows.found is None else rows.found[0] if backwards else rows.found[1]

        def show(span: Span | None) -> None:
            if span is not None:
                rows.found = span
                rows.go_to(span[0])
            elif words:
                self.app.notify("Not found in the text.", markup=False, timeout=3)

        self._fetcher.ask("find", lambda: window.find(words, at, backwards=backwards), show, lambda _: None)

    def leave_search(self) -> bool:
        """Close the search line; returns False if it is not open."""
        for line in self.query("#find"):
            if line.display and line.has_focus:
                line.display = False
                self.rows.focus()
                return True
        return False
