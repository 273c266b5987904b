"""A long text, with marks for what a search did with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType

from mahtab_tui.sandbox.text import Span as TextSpan
from mahtab_tui.search.coverage import Coverage, How
from mahtab_tui.tui.calls.marks import COVER
from mahtab_tui.tui.rows.long_text_view import LongTextView, StyledPart
from mahtab_tui.tui.rows.palette import palette_of
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow


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
        """What was covered, for each row of the right edge."""

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
        """Draw the line's number, and a bar for the call's own text and for what its answer rests on."""
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
        palette, role = palette_of(self.app), COVER[self._cells[y] if y < len(self._cells) else None][1]
        if y == self.top * max(1, self.size.height) // max(1, self.window.chars):
            return "◀", palette.text
        return "▕" if role == "hairline" else "▐", getattr(palette, role)

    def colours_in(self, row: TextRow) -> list[StyledPart]:
        palette = palette_of(self.app)
        place = [] if self.place is None else [(*self.place, palette.panel)]
        return [*((start, end, palette.moon) for start, end in self._marks), *place, *super().colours_in(row)]
