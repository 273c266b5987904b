"""The part of a table that is seen: fetched when it is seen, for as long as it is."""

from __future__ import annotations

from rich.cells import cell_len
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.looking import Figures, Heading, TableArrangement, TablePage
from mahtab_tui.tui.screens.inspector.table_cache import ROWS, TableCache, Wanted
from mahtab_tui.tui.screens.inspector.table_columns import BETWEEN, TableColumns
from mahtab_tui.tui.screens.inspector.view import Place, View

TALL = 22
"""Rows of the view from which the header has all figures."""
FIGURES = ("missing", "min", "max", "mean")
_AROUND = 2
"""Columns that are fetched beside those that are seen."""


class TableWindow(View, ScrollView, can_focus=True):
    """Rows from where it is scrolled to, columns from `_left` on; a cursor in one of the cells."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._cache = TableCache()
        self._row = self._column = self._left = 0
        self._show_figures = True
        self._begin()

    def _begin(self) -> None:
        """Nothing has come yet."""
        opened = self.place.opened
        self._rows = self._of = opened.rows
        self._columns = TableColumns(opened.columns)
        self._row = max(0, min(self._row, self._rows - 1))
        self._column = max(0, min(self._column, opened.columns - 1))
        self._left = min(self._left, self._column)
        self._cache.clear()
        self._arranged = TableArrangement()
        self._before: TableArrangement | None = None
        """How it was arranged before what is being done now."""
        self._busy = ""
        self._asked: object = None
        self._figures_of: int | None = None
        """The column whose figures are on their way."""

    def show(self, place: Place) -> None:
        """Show another table, at the same place as far as it has it."""
        self.place = place
        self._begin()
        self._measure()

    def on_mount(self) -> None:
        self._measure()

    def look_again(self) -> None:
        """What it is sorted and filtered by stays, as long as it has those columns."""
        arranged, columns = self._arranged, self._columns.count
        self._begin()
        if self._columns.count == columns:
            self._arranged = arranged
        self._measure()

    # What is seen

    @property
    def _head(self) -> int:
        """Rows of the header."""
        if not self._show_figures:
            return 2
        return 3 + len(FIGURES) if self.size.height >= TALL else 3

    @property
    def _seen_rows(self) -> range:
        first = self.scroll_offset.y
        return range(first, min(self._rows, first + max(0, self.size.height - self._head)))

    @property
    def _seen_columns(self) -> list[int]:
        return self._columns.seen(self._left, self._room)

    @property
    def _label_width(self) -> int:
        rows = self._seen_rows
        widest = len(f"{max(self._of - 1, 0)}")
        block = self._cache.block(rows.start) if rows else None
        if block is not None and block.labels:
            widest = max((cell_len(one_line(label)) for label in block.labels), default=1)
        return max(7 if self._head > 3 else 6 if self._rows != self._of and self._show_figures else 3, min(24, widest))

    @property
    def _room(self) -> int:
        """Cells for columns."""
        return max(1, self.scrollable_content_region.width - self._label_width - BETWEEN - 1)

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, self._head + self._rows)
        self._fetch()
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._left = self._columns.left_for(self._column, self._left, self._room)
        self._measure()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    # Fetching

    def _fetch(self) -> None:
        """Ask for what is seen and not here."""
        if not self.size:
            return
        if self._columns.count:
            self._fetch_cells()
            self._fetch_figures()
        self._tell()

    def _fetch_cells(self) -> None:
        seen = self._seen_columns
        columns = range(max(0, seen[0] - _AROUND), min(self._columns.count, seen[-1] + 1 + _AROUND))
        rows, place, arranged = self._seen_rows, self.place, self._arranged
        headings = [column for column in columns if column not in self._columns.headings]
        wanted = self._cache.missing(rows.start, max(rows.stop, rows.start + 1), columns)
        asked = (tuple(headings), tuple(wanted), arranged)
        if not (headings or wanted) or asked == self._asked:
            return
        self._asked = asked

        def work() -> tuple[tuple[Heading, ...], list[tuple[Wanted, TablePage]]]:
            found = place.look.headings(place.path, headings) if headings else ()
            return found, [(one, place.look.rows(place.path, one.block * ROWS, (one.block + 1) * ROWS, one.columns, arranged)) for one in wanted]

        self.fetcher.ask("table", work, lambda found: self._came(headings, *found), self._failed)

    def _came(self, asked: list[int], headings: tuple[Heading, ...], pages: list[tuple[Wanted, TablePage]]) -> None:
        if any(page.columns != self._columns.count for _, page in pages):
            self._failed("It has other columns by now; r looks again.")
            return
        self._busy = ""
        self._asked = self._before = None
        if headings:
            self._columns.take_headings(asked, headings)
        for wanted, page in pages:
            if page.of != self._of:  # it was changed meanwhile: what is here is of what it was
                self._cache.clear()
                self._columns.figures.clear()
            self._cache.take(wanted, page)
            for column, cells in zip(wanted.columns, page.cells, strict=True):
                self._columns.take_cells(column, cells)
            self._of = page.of
            if page.rows != self._rows:
                self._rows = page.rows
                self._row = max(0, min(self._row, self._rows - 1))
        self._left = self._columns.left_for(self._column, self._left, self._room)
        self._measure()

    def _failed(self, sentence: str) -> None:
        self._busy = ""
        self._asked = None
        if self._before is None:
            self.fail(sentence)
        else:
            self.app.notify(plain(sentence), severity="warning", markup=False)
            self._arranged, self._before = self._before, None
            self._fetch()
            self.refresh()

    def _fetch_figures(self) -> None:
        if not self._show_figures or not self._rows:
            return
        wanted = [column for column in self._seen_columns if column not in self._columns.figures]
        if not wanted:
            return
        place, column = self.place, self._column if self._column in wanted else wanted[0]
        if column == self._figures_of:
            return
        self._figures_of = column
        # A column without figures must not keep the others from theirs.
        self.fetcher.ask(
            "figures",
            lambda: place.look.figures(place.path, column),
            lambda found: self._figures_came(column, found),
            lambda _: self._figures_came(column, None),
        )

    def _figures_came(self, column: int, figures: Figures | None) -> None:
        self._figures_of = None
        self._columns.take_figures(column, figures)
        self._fetch_figures()
        self._tell()
        self.refresh()

    def _tell(self) -> None:
        """Say in the line below where the cursor is."""
        raise NotImplementedError
