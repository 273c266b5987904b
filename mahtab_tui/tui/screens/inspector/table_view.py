"""A table of any length: a header that stays, and a window over rows that are fetched when they are seen."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.strip import Strip

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import Arranged, Figures, Heading, TablePage
from mahtab_tui.tui.commands import TABLE_COMMANDS, bindings
from mahtab_tui.tui.panes.namespace.columns import fitted
from mahtab_tui.tui.panes.transcript.palette import BOLD
from mahtab_tui.tui.screens.inspector.table_cache import ROWS, TableCache, Wanted
from mahtab_tui.tui.screens.inspector.table_columns import BETWEEN, TableColumns, bars
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, ScrolledView, Walked

_TALL = 22
"""Rows of the view from which the header has all figures."""
_AROUND = 2
"""Columns that are fetched beside those that are seen."""
_FIGURES = ("missing", "min", "max", "mean")


class TableView(ScrolledView):
    """The cell at the cursor can be opened; the column at the cursor can be sorted, filtered and opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TABLE_COMMANDS),
        Binding("up", "move(-1, 0)", "Up", show=False),
        Binding("down", "move(1, 0)", "Down", show=False),
        Binding("left", "move(0, -1)", "Left", show=False),
        Binding("right", "move(0, 1)", "Right", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First column", show=False),
        Binding("end", "go(-1)", "Last column", show=False),
        Binding("ctrl+home", "go_row(0)", "First row", show=False),
        Binding("ctrl+end", "go_row(-1)", "Last row", show=False),
    ]

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
        self._arranged = Arranged()
        self._before: Arranged | None = None
        """How it was arranged before what is being done now."""
        self._busy = ""
        self._asked: object = None

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

    @property
    def column_name(self) -> str:
        """The name of the column at the cursor."""
        return self._columns.name(self._column)

    @property
    def _condition(self) -> str:
        """The filter of the column at the cursor."""
        return dict(self._arranged.filters).get(self._column, "")

    # Fetching

    @property
    def _head(self) -> int:
        """Rows of the header."""
        if not self._show_figures:
            return 2
        return 3 + len(_FIGURES) if self.size.height >= _TALL else 3

    @property
    def _seen_rows(self) -> range:
        first = self.scroll_offset.y
        return range(first, min(self._rows, first + max(0, self.size.height - self._head)))

    @property
    def _label_width(self) -> int:
        rows = self._seen_rows
        widest = len(f"{max(self._of - 1, 0)}")
        block = self._cache.block(rows.start) if rows else None
        if block is not None and block.labels:
            widest = max(map(len, block.labels), default=1)
        return max(7 if self._head > 3 else 3, min(24, widest))

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

    def _fetch(self) -> None:
        """Ask for what is seen and not here."""
        if not self.size or not self._columns.count:
            return
        seen = self._columns.seen(self._left, self._room)
        columns = range(max(0, seen[0] - _AROUND), min(self._columns.count, seen[-1] + 1 + _AROUND))
        rows, place, arranged = self._seen_rows, self.place, self._arranged
        headings = [column for column in columns if column not in self._columns.headings]
        wanted = self._cache.missing(rows.start, max(rows.stop, rows.start + 1), columns)
        asked = (tuple(headings), tuple(wanted), arranged)
        if (headings or wanted) and asked != self._asked:
            self._asked = asked

            def work() -> tuple[tuple[Heading, ...], list[tuple[Wanted, TablePage]]]:
                found = place.look.headings(place.path, headings) if headings else ()
                return found, [(one, place.look.rows(place.path, one.block * ROWS, (one.block + 1) * ROWS, one.columns, arranged)) for one in wanted]

            self.fetcher.ask("table", work, lambda found: self._came(headings, *found), self._failed)
        self._fetch_figures()
        self._tell()

    def _came(self, asked: list[int], headings: tuple[Heading, ...], pages: list[tuple[Wanted, TablePage]]) -> None:
        self._busy = ""
        self._asked = self._before = None
        if headings:
            self._columns.take_headings(asked, headings)
        for wanted, page in pages:
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
        wanted = [column for column in self._columns.seen(self._left, self._room) if column not in self._columns.figures]
        if not wanted:
            return
        place, column = self.place, self._column if self._column in wanted else wanted[0]
        self.fetcher.ask("figures", lambda: place.look.figures(place.path, column), lambda found: self._figures_came(column, found), lambda _: None)

    def _figures_came(self, column: int, figures: Figures) -> None:
        self._columns.take_figures(column, figures)
        self._fetch_figures()
        self._tell()
        self.refresh()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if y < self._head:
            return self._header(y, width, base + self.palette.surface)
        row = self.scroll_offset.y + y - self._head
        if row >= self._rows:
            return self._empty(row, width, base)
        block = self._cache.block(row)
        place = row % ROWS
        here = row == self._row and self.has_focus
        ground = base + self.palette.panel if here else base
        label = ""
        if block is not None and place < len(block.positions):
            label = block.labels[place] if block.labels is not None else str(block.positions[place])
        segments = [Segment(f" {fitted(plain(label), self._label_width)}" + " " * BETWEEN, ground + self.palette.muted)]
        for column in self._columns.seen(self._left, self._room):
            cells = block.cells.get(column) if block is not None else None
            text, style = "", Style()
            if cells is None or place >= len(cells):
                text, style = "·", self.palette.hairline
            elif (found := cells[place]) is None:
                text, style = "—", self.palette.muted
            else:
                text = plain(found)
            if here and column == self._column:
                style += Style(reverse=True)
            segments += [Segment(self._aligned(column, text), ground + style), Segment(" " * BETWEEN, ground)]
        return Strip(segments).crop_extend(0, width, ground)

    def _empty(self, row: int, width: int, base: Style) -> Strip:
        text = ""
        if row == 0:
            text = "No row fits. x shows all again." if self._arranged.filters else "It has no rows."
        return Strip([Segment(f" {text}", base + self.palette.muted)]).crop_extend(0, width, base)

    def _header(self, line: int, width: int, base: Style) -> Strip:
        palette = self.palette
        names = ("", "", "", *_FIGURES)
        segments = [Segment(f" {fitted(names[line], self._label_width)}" + " " * BETWEEN, base + palette.muted)]
        for column in self._columns.seen(self._left, self._room):
            text, style = self._header_text(line, column)
            segments += [Segment(self._aligned(column, text), base + style), Segment(" " * BETWEEN, base)]
        return Strip(segments).crop_extend(0, width, base)

    def _header_text(self, line: int, column: int) -> tuple[str, Style]:
        palette = self.palette
        heading, figures = self._columns.headings.get(column), self._columns.figures.get(column)
        if line == 0:
            mark = ""
            if self._arranged.sort is not None and self._arranged.sort[0] == column:
                mark += "▼" if self._arranged.sort[1] else "▲"
            if column in dict(self._arranged.filters):
                mark += "/"
            name = self._columns.name(column)
            return f"{name} {mark}" if mark else name, (palette.person if column == self._column else palette.text) + BOLD
        if line == 1:
            return heading.type if heading is not None else "", palette.muted
        if figures is None:
            return ("…" if line == 2 and self._rows else ""), palette.hairline
        if line == 2:
            return bars(figures.bars), palette.person
        if line == 3:
            return (f"{figures.missing:,}" if figures.missing else "none"), (palette.moon if figures.missing else palette.muted)
        return (figures.min, figures.max, figures.mean)[line - 4], palette.muted

    def _aligned(self, column: int, text: str) -> str:
        width = self._columns.width(column)
        text = fitted(text, width).rstrip()
        space = " " * (width - cell_len(text))
        heading = self._columns.headings.get(column)
        return space + text if heading is not None and heading.right else text + space

    def _tell(self) -> None:
        """Say in the line below where the cursor is, and all about its column."""
        if self._busy:
            self.say((self._busy, "$moon"))
            return
        filtered = f" of {self._of:,}" if self._rows != self._of else ""
        where = f"row {self._row + 1:,} of {self._rows:,}{filtered and f' that fit{filtered}'}" if self._rows else f"no rows{filtered}"
        parts: list[tuple[str, str] | str] = [(where, "$muted")]
        name, heading, figures = self.column_name, self._columns.headings.get(self._column), self._columns.figures.get(self._column)
        if heading is not None:
            parts += [("  ·  ", "$muted"), (name, "bold"), (f" {heading.type}", "$muted")]
        if self._condition:
            parts.append((f"  / {plain(self._condition)}", "$person"))
        if figures is not None:
            parts.append((f"  {figures.missing:,} missing" if figures.missing else "", "$moon"))
            if figures.min:
                parts.append((f"  {figures.min} … {figures.max}, mean {figures.mean}", "$muted"))
        self.say(*parts)

    # What the person does

    def action_move(self, rows: int, columns: int) -> None:
        self._row = max(0, min(self._rows - 1, self._row + rows))
        self._column = max(0, min(self._columns.count - 1, self._column + columns))
        self._show_cursor()

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - self._head - 1), 0)

    def action_go(self, column: int) -> None:
        self._column = 0 if column == 0 else max(0, self._columns.count - 1)
        self._show_cursor()

    def action_go_row(self, row: int) -> None:
        self._row = 0 if row == 0 else max(0, self._rows - 1)
        self._show_cursor()

    def _show_cursor(self) -> None:
        height = max(1, self.size.height - self._head)
        top = self.scroll_offset.y
        if not top <= self._row < top + height:
            self.scroll_to(y=self._row if self._row < top else self._row - height + 1, animate=False, force=True)
        self._left = self._columns.left_for(self._column, self._left, self._room)
        self._fetch()
        self.refresh()

    def on_click(self, event: Click) -> None:
        x = event.x - self._label_width - BETWEEN - 1
        for column in self._columns.seen(self._left, self._room):
            x -= self._columns.width(column) + BETWEEN
            if x < 0:
                self._column = column
                break
        row = self.scroll_offset.y + event.y - self._head
        if event.y < self._head:
            self.action_sort()
        elif row < self._rows:
            self._row = row
            if event.chain == 2:
                self.action_open_cell()
        self._show_cursor()

    def action_open_cell(self) -> None:
        block = self._cache.block(self._row)
        place = self._row % ROWS
        if block is not None and place < len(block.positions):
            label = block.labels[place] if block.labels is not None else str(block.positions[place])
            step = ["cell", block.positions[place], self._column]
            self.post_message(Walked((*self.place.path, step), f"{self.column_name} of {plain(label)}".strip()))

    def action_open_column(self) -> None:
        if self._columns.count > 1:
            self.post_message(Walked((*self.place.path, ["column", self._column]), self.column_name))

    def action_sort(self) -> None:
        """By the column at the cursor: upwards, downwards, not."""
        now = self._arranged.sort
        following = None if now == (self._column, True) else (self._column, now == (self._column, False))
        self._arrange(Arranged(following, self._arranged.filters), "sorting …")

    def action_filter(self) -> None:
        hint = f"{self.column_name}:  > 5   = berlin   missing   or a text"
        self.post_message(LineWanted(hint, self._condition, self._filter))

    def _filter(self, condition: str) -> None:
        """Show only rows whose value at the cursor's column fits; an empty condition shows all again."""
        others = tuple(one for one in self._arranged.filters if one[0] != self._column)
        mine = ((self._column, condition),) if condition.strip() else ()
        self._arrange(Arranged(self._arranged.sort, (*others, *mine)), "filtering …")

    def action_all_rows(self) -> None:
        self._arrange(Arranged(), "")

    def _arrange(self, arranged: Arranged, busy: str) -> None:
        self._before = self._before or self._arranged
        self._arranged = arranged
        self._busy = busy
        self._cache.clear()
        self._rows = self._rows if arranged.filters else self._of
        self._asked = None
        self._fetch()
        self.refresh()

    def action_figures(self) -> None:
        self._show_figures = not self._show_figures
        self._measure()
