"""Rows of a long text, with what a search did with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.sandbox.text import Span
from mahtab_tui.search.coverage import Coverage, How
from mahtab_tui.tui.panes.search_tree.marks import COVER
from mahtab_tui.tui.rows.lines_view import CURSOR_KEYS
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.scrolled_rows import ScrolledRows, styled
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow


class TextRows(ScrolledRows, can_focus=True):
    """Rows of the text; at the right edge, what was covered of it."""

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    def __init__(self, window: TextWindow, spans: Sequence[Span], coverage: Coverage) -> None:
        """`spans`: what the call has of the text."""
        super().__init__()
        self.window = window
        self.found: Span | None = None
        """What was searched for."""
        self.place: Span | None = None
        """What somebody came here for."""
        self._spans = spans
        self._marks: Sequence[Span] = ()
        self._coverage = coverage
        self._top = spans[0][0] if spans else 0
        self._palette: Palette | None = None
        self._rows: list[TextRow] = []
        self._cells: Sequence[How | None] = ()
        """What was covered, from the top of the right edge to its bottom."""

    @property
    def chars(self) -> int:
        return self.window.chars

    @property
    def top(self) -> int:
        """Where the first row that is seen begins."""
        return self._top

    def mark(self, spans: Sequence[Span]) -> None:
        """Draw these as what an answer rests on."""
        self._marks = spans
        self.look()

    def go_to(self, place: int) -> None:
        """Show a place of the text, some rows below the top."""
        self._top = self.window.up(self.window.row_at(place, self._width), min(3, self.size.height // 4), self._width)
        self.look()

    def look(self) -> None:
        """The rows that are seen are others."""
        self._rows = self.window.rows(self._top, max(1, self.size.height), self._width) if self.size else []
        self._cells = self._coverage.cells(max(1, self.size.height))
        self.refresh()

    @property
    def _gutter(self) -> int:
        return len(f"{max(1, self.window.chars // 40):,}") + 4

    @property
    def _width(self) -> int:
        """Cells of the text."""
        return max(10, self.size.width - self._gutter - 2)

    def on_resize(self, event: Resize) -> None:
        self._top = self.window.row_at(self._top, self._width)
        self.look()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    def render_line(self, y: int) -> Strip:
        if self._palette is None:
            self._palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        palette, width, base = self._palette, self.size.width, self.visual_style.rich_style
        edge = self._edge(y, base, palette)
        if y >= len(self._rows):
            return Strip([Segment(" " * (width - 1), base), edge], width)
        row = self._rows[y]
        inside = any(start <= row.start < end for start, end in self._spans)
        number = f"{row.number:,}" if row.number is not None else ""
        segments = [Segment(number.rjust(self._gutter - 3) + " ", base + palette.muted), self._bar(row, inside, base, palette)]
        segments += [Segment(" ", base), *self._text(row, base + (palette.text if inside else palette.muted), palette)]
        return Strip([*Strip(segments).crop_extend(0, width - 1, base), edge], width)

    def _bar(self, row: TextRow, inside: bool, base: Style, palette: Palette) -> Segment:
        """Whether the row is what the call has of the text, and what its answer rests on."""
        if any(start < row.end and row.start < end for start, end in self._marks):
            return Segment("█", base + palette.moon)
        return Segment("▌" if inside else " ", base + palette.person)

    def _edge(self, y: int, base: Style, palette: Palette) -> Segment:
        """What was covered at this height of the text, and where one is in it."""
        role = COVER[self._cells[y] if y < len(self._cells) else None][1]
        if y == self._top * max(1, self.size.height) // max(1, self.window.chars):
            return Segment("◀", base + palette.text)
        return Segment("▕" if role == "hairline" else "▐", base + getattr(palette, role))

    def _text(self, row: TextRow, base: Style, palette: Palette) -> list[Segment]:
        """A row's text, with what is marked and what was found in it."""
        styles = [(start, end, palette.moon) for start, end in self._marks]
        if self.place is not None:
            styles.append((*self.place, palette.panel))
        if self.found is not None:
            styles.append((*self.found, Style(reverse=True)))
        return styled(row.text, row.start, styles, base)

    # Moving

    def action_move(self, step: int) -> None:
        if step > 0:
            last = self.window.up(self.window.row_at(self.window.chars - 1, self._width), max(0, self.size.height - 1), self._width)
            self._top = min(self.window.down(self._top, step, self._width), max(self._top, last))
        else:
            self._top = self.window.up(self._top, -step, self._width)
        self.look()

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_move_to(self, place: int) -> None:
        """To the beginning of the text (0), or to its end."""
        if place == 0:
            self._top = 0
            self.look()
        else:
            self.go_to(self.window.chars - 1)
            self.action_move_page(-1)
            self.action_move_page(1)
