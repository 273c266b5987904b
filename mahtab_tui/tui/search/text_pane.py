"""The text that a call has searched, beside the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Span
from mahtab_tui.tui.rows.text_source import LocalText, TextSource
from mahtab_tui.tui.rows.text_view import LongTextView, StyledPart
from mahtab_tui.tui.rows.text_window import TextRow
from mahtab_tui.tui.theme import get_palette

_MAX_ROWS_ABOVE = 3
"""Rows above a place to which the view jumps, at most a quarter of them."""
_CHARS_PER_LINE = 40
"""A guess that decides how wide the line numbers are."""
_GUTTER_MARGIN = 4
"""Columns beside a line number: for a bar, and blanks."""
_MIN_TEXT_WIDTH = 10


class TextRows(LongTextView, can_focus=True):
    """The searched text, with the spans of a call and those that its answer rests on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("n", "next(False)"),
        ("N,shift+n", "next(True)"),
    ]

    def __init__(self, source: TextSource, spans: Sequence[TextSpan]) -> None:
        super().__init__(source)
        self.span: TextSpan | None = None
        """The span that the user opened."""
        if spans:
            first_start, _ = spans[0]
            self.top = first_start
        self._spans = spans
        """The parts of the text that the call has got."""
        self._evidence: Sequence[TextSpan] = ()
        """The parts that its answer rests on."""

    def show_evidence(self, evidence: Sequence[TextSpan]) -> None:
        """Highlight the spans that the answer rests on."""
        self._evidence = evidence
        self.refresh_view()

    @property
    def rows_above(self) -> int:
        """How many rows stay visible above a place to which the view jumps."""
        return min(_MAX_ROWS_ABOVE, self.size.height // 4)

    @property
    def _gutter(self) -> int:
        """The columns of line numbers and bars."""
        # Nobody has counted the lines, because that would read the whole text.
        line_count = max(1, self.source.size // _CHARS_PER_LINE)
        return len(f"{line_count:,}") + _GUTTER_MARGIN

    @property
    def text_width(self) -> int:
        return max(_MIN_TEXT_WIDTH, self.size.width - self._gutter - 2)

    def row_prefix(self, row: TextRow) -> list[Span]:
        palette = get_palette(self.app)
        number = f"{row.number:,}" if row.number is not None else ""
        if _overlaps(row, self._evidence):
            bar = ("█", palette.highlight)
        elif _overlaps(row, self._spans):
            bar = ("▌", palette.person)
        else:
            bar = (" ", palette.person)
        return [(number.rjust(self._gutter - 3) + " ", palette.muted), bar, (" ", Style.null())]

    def edge(self, y: int) -> Span:
        """Return the right edge of a row, which shows where in the text the view is."""
        palette = get_palette(self.app)
        if y == self.top * max(1, self.size.height) // max(1, self.source.size):
            return "◀", palette.text
        return "▕", palette.hairline

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        palette = get_palette(self.app)
        # Later styles are drawn over earlier ones.
        styles = [(row.start, row.end, palette.muted)]
        for start, end in self._spans:
            styles.append((start, end, palette.text))
        for start, end in self._evidence:
            styles.append((start, end, palette.highlight))
        if self.span is not None:
            styles.append((*self.span, palette.panel))
        return [*styles, *super().part_styles(row)]


def _overlaps(row: TextRow, spans: Sequence[TextSpan]) -> bool:
    """Return whether a row and one of the spans have text in common, be it a blank line."""
    row_end = max(row.end, row.start + 1)
    return any(start < row_end and row.start < end for start, end in spans)


class TextPane(Vertical):
    """The searched text with a search line, or a sentence saying why there is none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Search", key_display="/")]

    def __init__(self, source: TextSource | None, spans: Sequence[TextSpan]) -> None:
        """
        Args:
            source: The searched text; None if it is no longer in memory.
            spans: The parts of it that the call has got; empty if its code has made its text.
        """
        super().__init__(id="node-side")
        self.has_text = source is not None and bool(spans)
        self.rows = TextRows(source or LocalText(""), spans)
        self._search_line = LineInput(placeholder="search the text", compact=True, id="find")
        self._search_line.display = False
        self._spans = spans

    def compose(self) -> ComposeResult:
        if self.has_text:
            yield self.rows
            yield self._search_line
        else:
            if self._spans:
                reason = "The text is no longer kept."
            else:
                reason = "Code made this call's text: it is not part of the searched text."
            yield Static(reason, classes="quiet-words", markup=False)

    def show_span(self, span: TextSpan) -> None:
        """Go to a span, and show it as the one that the user opened."""
        if self.has_text:
            start, _ = span
            self.rows.span = span
            self.rows.hit = None
            self.rows.go_to(start)

    def action_search(self) -> None:
        if self.has_text:
            self._search_line.display = True
            self._search_line.focus()

    @on(Input.Submitted)
    def _search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
        self.rows.search(event.value)

    def leave_search(self) -> bool:
        """Close the search line; return whether it was in use."""
        if not self._search_line.has_focus:
            return False
        self._search_line.display = False
        self.rows.focus()
        return True
