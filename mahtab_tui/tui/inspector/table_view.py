"""A view of a table of any size: sorted, filtered, and with statistics of its columns.

`table_model.TableModel` has the cells that were fetched, and knows what is missing. This view draws
them, asks the kernel for the rest, and moves the cursor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from keyword import iskeyword

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import (
    ColumnStatistics,
    InspectedObject,
    ObjectPath,
    TableArrangement,
)
from mahtab_tui.tui.commands.declarations import TABLE_COMMANDS, bindings
from mahtab_tui.tui.inspector import Excerpt, Subject, View
from mahtab_tui.tui.inspector.export import base_name
from mahtab_tui.tui.inspector.table_model import (
    COLUMN_GAP,
    ROWS_PER_BLOCK,
    TableAnswer,
    TableModel,
    ranked_values,
    rows_code,
)
from mahtab_tui.tui.rows.row import CURSOR_KEYS, fit_text
from mahtab_tui.tui.theme import BOLD, REVERSE

BAR_GLYPHS = " ▁▂▃▄▅▆▇█"
"""How `bars` draws a count, from none to the highest."""
TALL_HEADER_MIN_HEIGHT = 22
"""In a view of at least this many rows, the header shows all statistics."""
MIN_LABEL_WIDTH = 3
MAX_LABEL_WIDTH = 24
"""Columns of the screen for the labels of rows."""


class HeaderLine(IntEnum):
    """The lines of the header. A low one ends with the histogram."""

    NAME = 0
    TYPE = 1
    HISTOGRAM = 2
    MISSING = 3
    MIN = 4
    MAX = 5
    MEAN = 6


STATISTICS_LABELS = {
    HeaderLine.MISSING: "missing",
    HeaderLine.MIN: "min",
    HeaderLine.MAX: "max",
    HeaderLine.MEAN: "mean",
}
"""What stands before the statistics, in the column of the rows' labels."""


def bars(counts: Sequence[int]) -> str:
    """Draw a histogram in one row, one character for each count."""
    highest = max(counts, default=0)
    if not highest:
        return ""
    # Rounding up keeps a small count visible.
    levels = [math.ceil(count * 8 / highest) for count in counts]
    return "".join(BAR_GLYPHS[level] for level in levels)


class TableView(View, ScrollView, can_focus=True):
    """Shows a table; rows scroll by the screen's rows, columns one by one."""

    BINDINGS = bindings(
        TABLE_COMMANDS,
        *CURSOR_KEYS[:4],
        ("left", "move(0, -1)"),
        ("right", "move(0, 1)"),
        ("home", "go(0)"),
        ("end", "go(-1)"),
        ("ctrl+home", "go_row(0)"),
        ("ctrl+end", "go_row(-1)"),
    )

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._row = 0
        """The row of the cursor."""
        self._column = 0
        """The column of the cursor."""
        self._first_column = 0
        """The first visible column."""
        self._reset()

    def _reset(self) -> None:
        """Forget what was fetched; the cursor stays, as far as the table still reaches."""
        opened = self.subject.opened
        self._table = TableModel(opened)
        self._row = max(0, min(self._row, opened.rows - 1))
        self._column = max(0, min(self._column, opened.columns - 1))
        self._first_column = min(self._first_column, self._column)

    def show_path(self, path: ObjectPath) -> None:
        """Show another table, such as another slice of an array."""
        client = self.subject.client

        def show(opened: InspectedObject) -> None:
            self.subject = Subject(client, path, opened)
            self._reset()
            self._measure()

        self.fetcher.run("slice", partial(client.open, path), show, self.fail)

    def on_mount(self) -> None:
        self._measure()

    def reload(self) -> None:
        """Fetch the table again. Sorting and filters stay, unless the columns have changed."""
        old_table = self._table
        self._reset()
        if self._table.column_count == old_table.column_count:
            self._table.arrangement = old_table.arrangement
        self._measure()

    # Sizes

    @property
    def _header_height(self) -> int:
        if self.size.height >= TALL_HEADER_MIN_HEIGHT:
            return len(HeaderLine)
        return HeaderLine.HISTOGRAM + 1

    @property
    def _page_height(self) -> int:
        return max(1, self.size.height - self._header_height)

    @property
    def _visible_rows(self) -> range:
        first = self.scroll_offset.y
        height = max(0, self.size.height - self._header_height)
        return range(first, min(self._table.row_count, first + height))

    @property
    def _visible_columns(self) -> list[int]:
        return self._table.visible_columns(self._first_column, self._columns_width)

    @property
    def _label_width(self) -> int:
        """The width of the labels of rows, in columns of the screen."""
        rows = self._visible_rows
        block = self._table.use_block(rows.start) if rows else None
        if block is not None and block.labels:
            widest = max((cell_len(one_line(label)) for label in block.labels), default=1)
        else:
            last_row = max(self._table.total_row_count - 1, 0)
            widest = len(str(last_row))
        # A tall header has the labels of the statistics in this column.
        min_width = MIN_LABEL_WIDTH
        if self._header_height == len(HeaderLine):
            min_width = max(map(len, STATISTICS_LABELS.values()))
        return max(min_width, min(MAX_LABEL_WIDTH, widest))

    @property
    def _columns_width(self) -> int:
        """The width that the table's columns have, in columns of the screen."""
        return max(1, self.scrollable_content_region.width - self._label_width - COLUMN_GAP - 1)

    def _measure(self) -> None:
        """Scroll over as many rows as there are now."""
        height = self._header_height + self._table.row_count
        self.virtual_size = Size(self.scrollable_content_region.width, height)
        self._fetch()

    def on_resize(self, event: Resize) -> None:
        self._show_column()
        self._measure()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    # Fetching

    def _fetch(self) -> None:
        """Fetch what the visible part lacks, and draw what is there."""
        if not self.size:
            self.refresh()
            return
        if self._table.column_count:
            client = self.subject.client
            path = self.subject.path
            request = self._table.take_table_request(self._visible_rows, self._visible_columns)
            if request is not None:
                fetch = partial(request.fetch, client, path)
                self.fetcher.run("table", fetch, self._apply, self._revert)
            self._fetch_statistics()
        self._show_status()
        self.refresh()

    def _apply(self, answer: TableAnswer) -> None:
        if not self._table.apply(answer):
            self._revert("The table's columns have changed; r reloads it.")
            return
        self._row = max(0, min(self._row, self._table.row_count - 1))
        self._show_column()
        self._measure()

    def _revert(self, sentence: str) -> None:
        """Say why a request failed, and show the rows as they were arranged before."""
        if self._table.revert():
            self.app.notify(sentence, severity="warning")
            self._fetch()
        else:
            self.fail(sentence)

    def _fetch_statistics(self) -> None:
        """Fetch the statistics of the next visible column, one after the other."""
        table = self._table
        client = self.subject.client
        path = self.subject.path
        request = table.take_statistics_request(self._visible_columns, self._column)
        if request is None:
            return

        def show(statistics: ColumnStatistics | None) -> None:
            table.set_statistics(request, statistics)
            self._fetch_statistics()
            self._show_status()
            self.refresh()

        # After a failure the column has no statistics, and the other columns still get theirs.
        fetch = partial(client.figures, path, request.column)
        self.fetcher.run("figures", fetch, show, lambda _: show(None))

    # Drawing

    def render_line(self, y: int) -> Strip:
        table = self._table
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if y < self._header_height:
            base += self.palette.surface
            return Strip(self._header(HeaderLine(y), base)).crop_extend(0, width, base)

        row = self.scroll_offset.y + y - self._header_height
        if row >= table.row_count or not table.column_count:
            # An empty table is explained in its first row.
            text = self._empty_text if row == 0 else ""
            return Strip([Segment(f" {text}", base + self.palette.muted)]).crop_extend(
                0, width, base
            )

        has_cursor = row == self._row and self.has_focus
        if has_cursor:
            base += self.palette.panel
        return Strip(self._cells(row, has_cursor, base)).crop_extend(0, width, base)

    def _header(self, line: HeaderLine, base: Style) -> list[Segment]:
        segments = [self._label(STATISTICS_LABELS.get(line, ""), base)]
        for column in self._visible_columns:
            text, style = self._header_text(line, column)
            segments += self._cell(column, text, base + style, base)
        return segments

    def _header_text(self, line: HeaderLine, column: int) -> tuple[str, Style]:
        """Return what a line of the header says of a column, and its style."""
        palette = self.palette
        table = self._table
        if line is HeaderLine.NAME:
            style = palette.person if column == self._column else palette.text
            name = f"{table.column_name(column)} {self._heading_mark(column)}".rstrip()
            return name, style + BOLD
        if line is HeaderLine.TYPE:
            return table.column_type(column), palette.muted
        if column not in table.statistics:
            is_pending = line is HeaderLine.HISTOGRAM and table.row_count > 0
            return "…" if is_pending else "", palette.muted
        statistics = table.statistics[column]
        if statistics is None:
            return "", palette.muted
        if statistics.top and line is not HeaderLine.MISSING:
            return self._common_value(statistics, line), palette.muted
        return self._statistic(statistics, line)

    def _common_value(self, statistics: ColumnStatistics, line: HeaderLine) -> str:
        """Return one of the most common values of a text column.

        They stand where other columns have the histogram, the minimum, the maximum and the mean.
        """
        common_values = ranked_values(statistics.top)
        rank = 0 if line is HeaderLine.HISTOGRAM else line - HeaderLine.MISSING
        return one_line(common_values[rank]) if rank < len(common_values) else ""

    def _statistic(self, statistics: ColumnStatistics, line: HeaderLine) -> tuple[str, Style]:
        palette = self.palette
        match line:
            case HeaderLine.HISTOGRAM:
                return bars(statistics.bars), palette.person
            case HeaderLine.MISSING if statistics.missing:
                return f"{statistics.missing:,}", palette.highlight
            case HeaderLine.MISSING:
                return "none", palette.muted
            case HeaderLine.MIN:
                return statistics.min, palette.muted
            case HeaderLine.MAX:
                return statistics.max, palette.muted
            case _:
                return statistics.mean, palette.muted

    def _heading_mark(self, column: int) -> str:
        """Return signs that say whether a column is sorted and filtered; empty for neither."""
        arrangement = self._table.arrangement
        mark = ""
        if arrangement.sort is not None:
            sorted_column, is_descending = arrangement.sort
            if sorted_column == column:
                mark = "▼" if is_descending else "▲"
        if column in dict(arrangement.filters):
            mark += "/"
        return mark

    def _cells(self, row: int, has_cursor: bool, base: Style) -> list[Segment]:
        """Draw a row: its label, and its cells in the visible columns."""
        block = self._table.use_block(row)
        index = row % ROWS_PER_BLOCK
        label = ""
        if block is not None and index < len(block.positions):
            label = one_line(block.label(index))

        segments = [self._label(label, base)]
        for column in self._visible_columns:
            cells = block.cells.get(column) if block is not None else None
            if cells is None or index >= len(cells):
                text = "·"
                style = self.palette.muted
            elif cells[index] is None:
                text = "—"
                style = self.palette.muted
            else:
                text = plain(cells[index] or "")
                style = Style()
            if has_cursor and column == self._column:
                style += REVERSE
            segments += self._cell(column, text, base + style, base)
        return segments

    def _label(self, text: str, base: Style) -> Segment:
        label = f" {fit_text(text, self._label_width)}" + " " * COLUMN_GAP
        return Segment(label, base + self.palette.muted)

    def _cell(self, column: int, text: str, style: Style, base: Style) -> list[Segment]:
        width = self._table.column_width(column)
        text = fit_text(text, width).rstrip()
        padding = " " * (width - cell_len(text))
        heading = self._table.headings.get(column)
        if heading is not None and heading.right:
            aligned = padding + text
        else:
            aligned = text + padding
        return [Segment(aligned, style), Segment(" " * COLUMN_GAP, base)]

    @property
    def _empty_text(self) -> str:
        if self._table.arrangement.filters:
            return "No row matches. x shows all again."
        if self._table.column_count:
            return "It has no rows."
        return "It has no columns."

    def _show_status(self) -> None:
        """Say where the cursor is, and what is known of its column."""
        table = self._table
        column = self._column
        if table.busy:
            self.show_status((table.busy, "$highlight"))
            return

        is_filtered = table.row_count != table.total_row_count
        nouns = ("match", "matches") if is_filtered else ("row", "rows")
        if table.row_count:
            position = f"{nouns[0]} {self._row + 1:,} of {table.row_count:,}"
        else:
            position = f"no {nouns[1]}"
        if is_filtered:
            position += f" (of {table.total_row_count:,} rows)"
        parts: list[tuple[str, str] | str] = [(position, "$muted")]

        if column in table.headings:
            parts += [("  ·  ", "$muted"), (table.column_name(column), "bold")]
            parts.append((f" {table.column_type(column)}", "$muted"))
        condition = dict(table.arrangement.filters).get(column, "")
        if condition:
            parts.append((f"  / {plain(condition)}", "$person"))
        statistics = table.statistics.get(column)
        if statistics is not None and statistics.missing:
            parts.append((f"  {statistics.missing:,} missing", "$highlight"))
        if statistics is not None and statistics.min:
            scope = "  of all rows:" if is_filtered else ""
            interval = f"{statistics.min} … {statistics.max}, mean {statistics.mean}"
            parts.append((f"{scope}  {interval}", "$muted"))
        self.show_status(*parts)

    @property
    def excerpt(self) -> Excerpt:
        table = self._table
        opened = self.subject.opened
        if table.arrangement == TableArrangement() or not opened.expression:
            return Excerpt(opened)
        code = rows_code(opened.expression, table)
        description = f"{table.row_count:,} of {table.total_row_count:,} rows"
        if table.arrangement.sort is not None:
            description += f", sorted by {table.column_name(table.arrangement.sort[0])}"
        return Excerpt(replace(opened, expression=code), description)

    # Moving the cursor

    @property
    def _column_name(self) -> str:
        """The name of the column at the cursor; empty if it has not been fetched."""
        return self._table.column_name(self._column)

    def action_move(self, rows: int, columns: int = 0) -> None:
        self._go_to(self._row + rows, self._column + columns)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self._page_height - 1))

    def action_go(self, column: int) -> None:
        """Go to the first (0) or last (-1) column."""
        self._go_to(self._row, 0 if column == 0 else self._table.column_count - 1)

    def action_go_row(self, row: int) -> None:
        """Go to the first (0) or last (-1) row."""
        self._go_to(0 if row == 0 else self._table.row_count - 1, self._column)

    def _go_to(self, row: int, column: int) -> None:
        """Move the cursor, as far as the table reaches, and scroll just enough to show it."""
        self._row = max(0, min(self._table.row_count - 1, row))
        self._column = max(0, min(self._table.column_count - 1, column))
        top = self.scroll_offset.y
        height = self._page_height
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, force=True)
        elif self._row >= top + height:
            self.scroll_to(y=self._row - height + 1, animate=False, force=True)
        self._show_column()
        self._fetch()

    def _show_column(self) -> None:
        self._first_column = self._table.scroll_to_show(
            self._column, self._first_column, self._columns_width
        )

    def on_click(self, event: Click) -> None:
        # Find the column by going through the visible ones from the left.
        x = event.x - self._label_width - COLUMN_GAP - 1
        clicked_column = self._column
        for column in self._visible_columns:
            x -= self._table.column_width(column) + COLUMN_GAP
            if x < 0:
                clicked_column = column
                break

        in_header = event.y < self._header_height
        row = self.scroll_offset.y + event.y - self._header_height
        in_rows = not in_header and row < self._table.row_count
        self._go_to(row if in_rows else self._row, clicked_column)
        if in_header:
            self.action_sort()
        elif in_rows and event.chain == 2:
            self.action_open_cell()

    # What the user does with the table

    def action_open_cell(self) -> None:
        """Open the object in the cell at the cursor."""
        block = self._table.use_block(self._row)
        index = self._row % ROWS_PER_BLOCK
        if block is not None and index < len(block.positions):
            label = f"{self._column_name} of {one_line(block.label(index))}".strip()
            self._open(["cell", block.positions[index], self._column], label)

    def action_open_column(self) -> None:
        if self._table.column_count > 1:
            self._open(["column", self._column], self._column_name)

    def _open(self, step: list[object], label: str) -> None:
        self.post_message(self.ObjectOpened((*self.subject.path, step), label, self))

    def action_sort(self) -> None:
        """Sort by the column: first ascending, then descending, then not at all."""
        old_sort = self._table.arrangement.sort
        new_sort = None
        if old_sort == (self._column, False):
            new_sort = (self._column, True)
        elif old_sort != (self._column, True):
            new_sort = (self._column, False)
        arrangement = TableArrangement(new_sort, self._table.arrangement.filters)
        self._arrange(arrangement, "sorting …")

    def action_filter(self) -> None:
        """Let the user type which values of the cursor's column to show."""
        condition = dict(self._table.arrangement.filters).get(self._column, "")
        examples = "> 5   = berlin   missing   or a text"
        prompt = f"filter {self._column_name}:"
        self.open_line(examples, condition, self._filter, prompt)

    def _filter(self, condition: str) -> None:
        """Filter by the cursor's column. An empty condition removes this column's filter."""
        arrangement = self._table.arrangement
        filters = [item for item in arrangement.filters if item[0] != self._column]
        if condition.strip():
            filters.append((self._column, condition))
        self._arrange(TableArrangement(arrangement.sort, tuple(filters)), "filtering …")

    def action_all_rows(self) -> None:
        self._arrange(TableArrangement(), "")

    def _arrange(self, arrangement: TableArrangement, busy: str) -> None:
        if self._table.column_count:
            self._table.arrange(arrangement, busy)
            self._fetch()

    def action_make_variable(self) -> None:
        """Let the user name a variable, and make it of the rows as they are shown."""
        if self.excerpt.opened.expression:
            suggested = f"{base_name(self.subject.opened)}_view"
            self.open_line("a name", suggested, self._make_variable, "new variable:")
        else:
            self.fail("No expression refers to this table: assign it to a variable in a cell.")

    def _make_variable(self, name: str) -> None:
        name = name.strip()
        if name.isidentifier() and not iskeyword(name):
            code = f"{name} = {self.excerpt.opened.expression}"
            self.post_message(self.CellRequested(code, f"A cell makes {name}."))
        else:
            self.fail(f"{name or 'Nothing'} is not a valid variable name.")
