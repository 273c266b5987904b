"""The text of a call, shown at its place in the text of the whole search, with marks for what the
search did with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.search.coverage import Coverage, How
from mahtab_tui.tui.calls.glyphs import COVER
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.rows.long_text_view import LongTextView, StyledPart
from mahtab_tui.tui.rows.palette import palette_of
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow
from mahtab_tui.tui.widgets.line_input import LineInput


class TextRows(LongTextView, can_focus=True):
    """Shows the text, and at the right edge which parts of it the search has covered."""

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    def __init__(self, window: TextWindow, spans: Sequence[TextSpan], coverage: Coverage) -> None:
        """spans: the parts of the text that the call got."""
        super().__init__(window)
        self.place: TextSpan | None = None
        """The place that the user has opened."""
        self.top = spans[0][0] if spans else 0
        self._spans = spans
        self._marks: Sequence[TextSpan] = ()
        self._coverage = coverage
        self._cells: Sequence[How | None] = ()
        """Uses of the text, for each row of the right edge."""

    def mark(self, spans: Sequence[TextSpan]) -> None:
        """Mark the spans that the answer rests on."""
        self._marks = spans
        self.look()

    def look(self) -> None:
        self._cells = self._coverage.cells(max(1, self.size.height))
        super().look()

    @property
    def rows_above(self) -> int:
        return min(3, self.size.height // 4)

    @property
    def _gutter(self) -> int:
        return len(f"{max(1, self.window.chars // 40):,}") + 4

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - self._gutter - 2)

    def left_of(self, row: TextRow) -> list[Span]:
        """Draw the line's number, and a bar for the call's own text and for what its answer rests
        on."""
        palette, number = palette_of(self.app), f"{row.number:,}" if row.number is not None else ""
        rests = any(start < row.end and row.start < end for start, end in self._marks)
        bar = ("█", palette.moon) if rests else ("▌" if self._inside(row) else " ", palette.person)
        return [(number.rjust(self._gutter - 3) + " ", palette.muted), bar, (" ", Style.null())]

    def _inside(self, row: TextRow) -> bool:
        return any(start <= row.start < end for start, end in self._spans)

    def ink(self, row: TextRow) -> Style:
        palette = palette_of(self.app)
        return palette.text if self._inside(row) else palette.muted

    def edge(self, y: int) -> Span:
        """Draw what was covered at this height, and the position in the text."""
        palette, role = (
            palette_of(self.app),
            COVER[self._cells[y] if y < len(self._cells) else None][1],
        )
        if y == self.top * max(1, self.size.height) // max(1, self.window.chars):
            return "◀", palette.text
        return "▕" if role == "hairline" else "▐", getattr(palette, role)

    def colours_in(self, row: TextRow) -> list[StyledPart]:
        palette = palette_of(self.app)
        place = [] if self.place is None else [(*self.place, palette.panel)]
        return [
            *((start, end, palette.moon) for start, end in self._marks),
            *place,
            *super().colours_in(row),
        ]


class TextPane(Vertical):
    """Shows the text, and a line to search it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("n", "next(False)", "Next", show=False),
        Binding("N,shift+n", "next(True)", "Previous", show=False),
        Binding("right_square_bracket", "place(1)", "Next match", show=False),
        Binding("left_square_bracket", "place(-1)", "Previous match", show=False),
    ]

    def __init__(
        self,
        window: TextWindow,
        spans: Sequence[TextSpan],
        coverage: Coverage,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._window = window
        self.rows = TextRows(window, spans, coverage)
        self._coverage = coverage
        self._spans = spans
        self._fetcher = Fetcher(self)

    def compose(self) -> ComposeResult:
        if not self._spans:
            yield Static(
                "Code made this call's text: it is not part of the searched text.",
                classes="quiet-words",
                markup=False,
            )
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
        return self.rows.is_attached

    def show(self, span: TextSpan) -> None:
        if self.shown:
            self.rows.place, self.rows.found = span, None
            self.rows.go_to(span[0])

    def action_place(self, step: int) -> None:
        """Go to the next place (1), or the previous one (-1), that a pattern matched or an answer
        rests on."""
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

        def show(span: TextSpan | None) -> None:
            if span is not None:
                rows.found = span
                rows.go_to(span[0])
            elif words:
                self.app.notify("Not found in the text.", markup=False, timeout=3)

        self._fetcher.ask(
            "find", lambda: window.find(words, at, backwards=backwards), show, lambda _: None
        )

    def leave_search(self) -> bool:
        """Close the search line; returns False if it is not open."""
        for line in self.query("#find"):
            if line.display and line.has_focus:
                line.display = False
                self.rows.focus()
                return True
        return False
