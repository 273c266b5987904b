"""A view of tables of any length, and code that exports objects to files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from keyword import iskeyword
from typing import NamedTuple

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
    Heading,
    InspectedObject,
    InspectorClient,
    ObjectPath,
    TableArrangement,
    TablePage,
)
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import TABLE_COMMANDS
from mahtab_tui.tui.inspector import Excerpt, Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, fit_text
from mahtab_tui.tui.theme import BOLD

MIN_WIDTH, MAX_WIDTH = 5, 36
COLUMN_GAP = 2
_MARKS = " ▲/"
BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[int]) -> str:
    highest = max(counts, default=0)
    return "".join(BARS[-(-count * 8 // highest)] for count in counts) if highest else ""


BLOCK_ROWS = 100
_MAX_BLOCKS = 24
_MARGIN_COLUMNS = 2


class Block:
    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}

    def label(self, row: int) -> str:
        return self.labels[row] if self.labels is not None else str(self.positions[row])


class TableRequest(NamedTuple):
    headings: tuple[int, ...]
    parts: tuple[tuple[int, tuple[int, ...]], ...]
    arranged: TableArrangement

    def fetch(self, client: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel, and wait. Raises `KernelError`."""
        headings = client.headings(path, self.headings) if self.headings else ()
        pages = []
        for block, columns in self.parts:
            start = block * BLOCK_ROWS
            pages.append(client.rows(path, start, start + BLOCK_ROWS, columns, self.arranged))
        return self, headings, pages


TableAnswer = tuple[TableRequest, Sequence[Heading], Sequence[TablePage]]


class TableModel:
    """A table with its cached rows and its arrangement. Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        self.rows = self.total_rows = opened.rows
        """Rows that pass the filters, and all rows."""
        self.column_count = opened.columns
        self.headings: dict[int, Heading] = {}
        self.statistics: dict[int, ColumnStatistics | None] = {}
        self._widths: dict[int, int] = {}
        """They only grow, so that nothing jumps while scrolling."""
        self._blocks: dict[int, Block] = {}
        self.arranged = TableArrangement()
        self.busy = ""
        self._previous: TableArrangement | None = None
        self._request: TableRequest | None = None
        self._statistics_column: int | None = None

    def name(self, column: int) -> str:
        return one_line(self.headings[column].name) if column in self.headings else ""

    def type(self, column: int) -> str:
        return one_line(self.headings[column].type) if column in self.headings else ""

    def width(self, column: int) -> int:
        return self._widths.get(column, MIN_WIDTH + 5)

    def set_statistics(self, column: int, found: ColumnStatistics | None) -> None:
        self._statistics_column = None
        self.statistics[column] = found
        if found is not None:
            bars = "▁" * len(found.bars)
            self.widen(column, [found.min, found.max, found.mean, *found.top, bars])

    def widen(self, column: int, texts: Iterable[str | None]) -> None:
        widest = max((cell_len(text or "—") for text in texts), default=0)
        self._widths[column] = min(MAX_WIDTH, max(self._widths.get(column, MIN_WIDTH), widest))

    def visible(self, left: int, room: int) -> list[int]:
        found: list[int] = []
        for column in range(left, self.column_count):
            if found and room <= 0:
                break
            found.append(column)
            room -= self.width(column) + COLUMN_GAP
        return found

    def scroll_to_show(self, column: int, left: int, room: int) -> int:
        """Return the first visible column after scrolling just enough to show all of `column`."""
        if column <= left:
            return column
        used = self.width(column)
        first = column
        while first > left and used + self.width(first - 1) + COLUMN_GAP <= room:
            first -= 1
            used += self.width(first) + COLUMN_GAP
        return first

    def arrange(self, arranged: TableArrangement, busy: str) -> None:
        self._previous = self._previous or self.arranged
        self.arranged = arranged
        self.busy = busy
        self._blocks.clear()
        self.rows = self.rows if arranged.filters else self.total_rows
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return None if the visible part is cached or requested."""
        first, last = max(0, columns[0] - _MARGIN_COLUMNS), columns[-1] + _MARGIN_COLUMNS
        around = range(first, min(self.column_count, last + 1))
        headings = tuple(column for column in around if column not in self.headings)
        parts = []
        last_block = max(rows.start, rows.stop - 1) // BLOCK_ROWS
        for number in range(rows.start // BLOCK_ROWS, last_block + 1):
            block = self._blocks.get(number)
            if missing := [each for each in around if block is None or each not in block.cells]:
                parts.append((number, tuple(missing)))
        request = TableRequest(headings, tuple(parts), self.arranged)
        if not (headings or parts) or request == self._request:
            return None
        self._request = request
        return request

    def block(self, row: int) -> Block | None:
        return self._blocks.get(row // BLOCK_ROWS)

    def apply(self, answer: TableAnswer) -> bool:
        """Return False if the table's columns have changed meanwhile."""
        request, headings, pages = answer
        if any(page.columns != self.column_count for page in pages):
            return False
        self.busy = ""
        self._request = self._previous = None
        for column, heading in zip(request.headings, headings, strict=True):
            self.headings[column] = heading
            self.widen(column, [self.name(column) + _MARKS, self.type(column)])
        for (number, columns), page in zip(request.parts, pages, strict=True):
            if page.total_rows != self.total_rows:
                self._blocks.clear()
                self.statistics.clear()
            block = self._blocks.get(number)
            if block is None or block.positions != page.positions:
                block = self._blocks[number] = Block(page)
            for column, cells in zip(columns, page.cells, strict=True):
                block.cells[column] = cells
                self.widen(column, cells)
            while len(self._blocks) > _MAX_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self.rows, self.total_rows = page.rows, page.total_rows
        return True

    def revert(self) -> bool:
        """Return whether there was an earlier arrangement."""
        self.busy = ""
        self._request = None
        if self._previous is None:
            return False
        self.arranged, self._previous = self._previous, None
        return True

    def next_statistics(self, columns: Sequence[int], first: int) -> int | None:
        """Return the next visible column whose statistics to fetch, `first` first; None during a
        request."""
        known = self.statistics
        missing = [column for column in columns if column not in known] if self.rows else []
        column = first if first in missing else next(iter(missing), None)
        if column is None or column == self._statistics_column:
            return None
        self._statistics_column = column
        return column


ENDINGS = (".csv", ".json", ".txt", ".pkl")

# {e} is the object, {f} the file.
_CSV = {
    "pandas.DataFrame": "{e}.to_csv({f})",
    "pandas.Series": "{e}.to_csv({f})",
    "polars.DataFrame": "{e}.write_csv({f})",
    "polars.Series": "{e}.to_frame().write_csv({f})",
    "pyarrow.Table": "__import__('pyarrow.csv').csv.write_csv({e}, {f})",
    "numpy.ndarray": "__import__('numpy').savetxt({f}, {e}, delimiter=',', fmt='%s', encoding='utf-8')",
}
_WRITTEN = "__import__('pathlib').Path({{f}}).write_text({}, encoding='utf-8')"
_JSON = {
    "pandas.DataFrame": "{e}.to_json({f}, orient='records', date_format='iso')",
    "pandas.Series": "{e}.to_json({f}, date_format='iso')",
    "polars.DataFrame": "{e}.write_json({f})",
    "numpy.ndarray": _WRITTEN.format("__import__('json').dumps({e}.tolist(), default=str)"),
}
_ANY_JSON = _WRITTEN.format("__import__('json').dumps({e}, indent=1, default=str)")
_TEXT = _WRITTEN.format("{e}")
_ANY_TEXT = _WRITTEN.format("repr({e})")
_PICKLE = "(lambda file: [__import__('pickle').dump({e}, file), file.close()])(open({f}, 'wb'))"
_NEW_FILE = """\
open({f}, 'x').close()
try:
    {form}
except BaseException:
    __import__('os').remove({f})
    raise"""
"""Never overwrites an existing file, and removes an incomplete one."""


def rows_code(expression: str, table: TableModel) -> str:
    """Write code for a table's rows as they are sorted and filtered."""
    names = [known.name for known in table.headings.values()]

    def column(number: int) -> str:
        heading = table.headings.get(number)
        all_known = len(names) == table.column_count
        if heading is not None and all_known and names.count(heading.name) == 1:
            return repr(heading.name)
        return str(number)

    parts = [expression]
    if table.arranged.sort is not None:
        number, descending = table.arranged.sort
        parts += [f"sort={column(number)}", *["descending=True"] * descending]
    if filters := [f"{column(number)}: {text!r}" for number, text in table.arranged.filters]:
        parts.append(f"filters={{{', '.join(filters)}}}")
    return f"table_rows({', '.join(parts)})"


def base_name(opened: InspectedObject) -> str:
    text = "".join(c if c.isalnum() or c == "_" else " " for c in opened.expression)
    names = (word for word in reversed(text.split()) if word.isidentifier() and word != "iloc")
    return next(names, "value")


def suggest_file(opened: InspectedObject) -> str:
    ending = ".json" if opened.known.startswith("builtins.") else ".pkl"
    if opened.known in _CSV:
        ending = ".csv"
    elif "text" in opened.views:
        ending = ".txt"
    return f"{base_name(opened)}{ending}"


def export_code(opened: InspectedObject, file: str) -> str:
    """Write the cell that exports an object. Raises `ValueError` with a sentence for an unsuitable
    suffix."""
    if not opened.expression:
        advice = "assign it to a variable in a cell, and export that."
        raise ValueError(f"No expression refers to this object: {advice}")
    ending = next((ending for ending in ENDINGS if file.endswith(ending)), "")
    if not ending:
        raise ValueError(f"The file must end in one of {', '.join(ENDINGS)}.")
    form = {
        ".csv": _CSV.get(opened.known, ""),
        ".json": _JSON.get(opened.known, _ANY_JSON),
        ".txt": _TEXT if "text" in opened.views else _ANY_TEXT,
        ".pkl": _PICKLE,
    }[ending]
    if not form:
        raise ValueError(f"Only tables and arrays can be written as CSV, not a {opened.type}.")
    path = repr(os.path.expanduser(file))
    return _NEW_FILE.format(f=path, form=form.format(e=opened.expression, f=path))


STATISTICS = ("missing", "min", "max", "mean")
"""Lines in a tall header, below the histogram."""
TALL = 22
"""Height from which the header shows all statistics."""


class TableView(View, ScrollView, can_focus=True):
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
        self._row = self._column = self._first_column = 0
        self._reset()

    def _reset(self) -> None:
        opened = self.subject.opened
        self._table = TableModel(opened)
        self._row = max(0, min(self._row, opened.rows - 1))
        self._column = max(0, min(self._column, opened.columns - 1))
        self._first_column = min(self._first_column, self._column)

    def show_path(self, path: ObjectPath) -> None:
        client = self.subject.client

        def show(opened: InspectedObject) -> None:
            self.subject = Subject(client, path, opened)
            self._reset()
            self._measure()

        self.fetcher.ask("slice", partial(client.open, path), show, self.fail)

    def on_mount(self) -> None:
        self._measure()

    def reload(self) -> None:
        """Sorting and filters stay, unless the columns have changed."""
        before = self._table
        self._reset()
        if self._table.column_count == before.column_count:
            self._table.arranged = before.arranged
        self._measure()

    @property
    def _header_height(self) -> int:
        return 3 + len(STATISTICS) if self.size.height >= TALL else 3

    @property
    def _page_height(self) -> int:
        return max(1, self.size.height - self._header_height)

    @property
    def _visible_rows(self) -> range:
        first, height = self.scroll_offset.y, max(0, self.size.height - self._header_height)
        return range(first, min(self._table.rows, first + height))

    @property
    def _visible_columns(self) -> list[int]:
        return self._table.visible(self._first_column, self._columns_room)

    @property
    def _label_width(self) -> int:
        rows = self._visible_rows
        widest = len(f"{max(self._table.total_rows - 1, 0)}")
        block = self._table.block(rows.start) if rows else None
        if block is not None and block.labels:
            widest = max((cell_len(one_line(label)) for label in block.labels), default=1)
        return max(7 if self._header_height > 3 else 3, min(24, widest))

    @property
    def _columns_room(self) -> int:
        return max(1, self.scrollable_content_region.width - self._label_width - COLUMN_GAP - 1)

    def _measure(self) -> None:
        height = self._header_height + self._table.rows
        self.virtual_size = Size(self.scrollable_content_region.width, height)
        self._fetch()

    def on_resize(self, event: Resize) -> None:
        self._show_column()
        self._measure()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _fetch(self) -> None:
        if not self.size:
            self.refresh()
            return
        if self._table.column_count:
            client, path = self.subject.client, self.subject.path
            request = self._table.next_request(self._visible_rows, self._visible_columns)
            if request is not None:
                fetch = partial(request.fetch, client, path)
                self.fetcher.ask("table", fetch, self._apply, self._revert)
            self._fetch_statistics()
        self._show_status()
        self.refresh()

    def _apply(self, answer: TableAnswer) -> None:
        if not self._table.apply(answer):
            self._revert("The table's columns have changed; r reloads it.")
            return
        self._row = max(0, min(self._row, self._table.rows - 1))
        self._show_column()
        self._measure()

    def _revert(self, sentence: str) -> None:
        if self._table.revert():
            self.app.notify(sentence, severity="warning")
            self._fetch()
        else:
            self.fail(sentence)

    def _fetch_statistics(self) -> None:
        table, client, path = self._table, self.subject.client, self.subject.path
        column = table.next_statistics(self._visible_columns, self._column)
        if column is None:
            return

        def show(found: ColumnStatistics | None) -> None:
            self._table.set_statistics(column, found)
            self._fetch_statistics()
            self._show_status()
            self.refresh()

        # After a failure the column has no statistics, and the other columns still get theirs.
        fetch = partial(client.figures, path, column)
        self.fetcher.ask("figures", fetch, show, lambda _: show(None))

    def render_line(self, y: int) -> Strip:
        table, width = self._table, self.scrollable_content_region.width
        base, head = self.visual_style.rich_style, self._header_height
        row = self.scroll_offset.y + y - head
        if y >= head and (row >= table.rows or not table.column_count):
            empty = Segment(f" {self._empty_text if row == 0 else ''}", base + self.palette.muted)
            return Strip([empty]).crop_extend(0, width, base)
        ground = base
        if y < head:
            ground += self.palette.surface
            segments = self._header(y, ground)
        else:
            has_cursor = row == self._row and self.has_focus
            ground += self.palette.panel if has_cursor else Style()
            segments = self._cells(row, has_cursor, ground)
        return Strip(segments).crop_extend(0, width, ground)

    def _header(self, line: int, base: Style) -> list[Segment]:
        segments = [self._label(("", "", "", *STATISTICS)[line], base)]
        for column in self._visible_columns:
            text, style = self._header_text(line, column)
            segments += self._cell(column, text, base + style, base)
        return segments

    def _header_text(self, line: int, column: int) -> tuple[str, Style]:
        palette, table, arranged = self.palette, self._table, self._table.arranged
        if line == 0:
            mark = ""
            if arranged.sort is not None and arranged.sort[0] == column:
                mark = "▼" if arranged.sort[1] else "▲"
            if column in dict(arranged.filters):
                mark += "/"
            style = palette.person if column == self._column else palette.text
            return f"{table.name(column)} {mark}".rstrip(), style + BOLD
        if line == 1:
            return table.type(column), palette.muted
        if column not in table.statistics:
            waits = line == 2 and table.rows > 0
            return "…" if waits else "", palette.hairline
        found = table.statistics[column]
        if found is None:
            return "", palette.muted
        if found.top and line != 3:  # for a text column, show its most common values instead
            index = line - 2 - (line > 3)
            return one_line(found.top[index]) if index < len(found.top) else "", palette.muted
        if line == 2:
            return bars(found.bars), palette.person
        if line == 3 and found.missing:
            return f"{found.missing:,}", palette.moon
        return ("none", found.min, found.max, found.mean)[line - 3], palette.muted

    def _cells(self, row: int, has_cursor: bool, base: Style) -> list[Segment]:
        block, index = self._table.block(row), row % BLOCK_ROWS
        known = block is not None and index < len(block.positions)
        segments = [self._label(one_line(block.label(index)) if block and known else "", base)]
        for column in self._visible_columns:
            cells = block.cells.get(column) if block is not None else None
            text, style = "·", self.palette.hairline
            if cells is not None and index < len(cells):
                missing = cells[index] is None
                text = plain(cells[index] or "") if not missing else "—"
                style = self.palette.muted if missing else Style()
            if has_cursor and column == self._column:
                style += Style(reverse=True)
            segments += self._cell(column, text, base + style, base)
        return segments

    def _label(self, text: str, base: Style) -> Segment:
        label = f" {fit_text(text, self._label_width)}" + " " * COLUMN_GAP
        return Segment(label, base + self.palette.muted)

    def _cell(self, column: int, text: str, style: Style, base: Style) -> list[Segment]:
        width = self._table.width(column)
        text = fit_text(text, width).rstrip()
        space = " " * (width - cell_len(text))
        heading = self._table.headings.get(column)
        text = space + text if heading is not None and heading.right else text + space
        return [Segment(text, style), Segment(" " * COLUMN_GAP, base)]

    @property
    def _empty_text(self) -> str:
        if self._table.arranged.filters:
            return "No row matches. x shows all again."
        return "It has no rows." if self._table.column_count else "It has no columns."

    def _show_status(self) -> None:
        table, column = self._table, self._column
        if table.busy:
            self.show_status((table.busy, "$moon"))
            return
        filtered = table.rows != table.total_rows
        one, some = ("match", "matches") if filtered else ("row", "rows")
        where = f"{one} {self._row + 1:,} of {table.rows:,}" if table.rows else f"no {some}"
        if filtered:
            where += f" (of {table.total_rows:,} rows)"
        parts: list[tuple[str, str] | str] = [(where, "$muted")]
        if column in table.headings:
            parts += [("  ·  ", "$muted"), (table.name(column), "bold")]
            parts.append((f" {table.type(column)}", "$muted"))
        if condition := dict(table.arranged.filters).get(column, ""):
            parts.append((f"  / {plain(condition)}", "$person"))
        found = table.statistics.get(column)
        if found is not None and found.missing:
            parts.append((f"  {found.missing:,} missing", "$moon"))
        if found is not None and found.min:
            scope = "  of all rows:" if filtered else ""
            parts.append((f"{scope}  {found.min} … {found.max}, mean {found.mean}", "$muted"))
        self.show_status(*parts)

    @property
    def _column_name(self) -> str:
        return self._table.name(self._column)

    @property
    def excerpt(self) -> Excerpt:
        table, opened = self._table, self.subject.opened
        if table.arranged == TableArrangement() or not opened.expression:
            return Excerpt(opened)
        code = rows_code(opened.expression, table)
        description = f"{table.rows:,} of {table.total_rows:,} rows"
        if table.arranged.sort is not None:
            description += f", sorted by {table.name(table.arranged.sort[0])}"
        return Excerpt(replace(opened, expression=code), description)

    def action_move(self, rows: int, columns: int = 0) -> None:
        self._go_to(self._row + rows, self._column + columns)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self._page_height - 1))

    def action_go(self, column: int) -> None:
        self._go_to(self._row, 0 if column == 0 else self._table.column_count - 1)

    def action_go_row(self, row: int) -> None:
        self._go_to(0 if row == 0 else self._table.rows - 1, self._column)

    def _go_to(self, row: int, column: int) -> None:
        self._row = max(0, min(self._table.rows - 1, row))
        self._column = max(0, min(self._table.column_count - 1, column))
        top, height = self.scroll_offset.y, self._page_height
        if not top <= self._row < top + height:
            y = self._row if self._row < top else self._row - height + 1
            self.scroll_to(y=y, animate=False, force=True)
        self._show_column()
        self._fetch()

    def _show_column(self) -> None:
        first, room = self._first_column, self._columns_room
        self._first_column = self._table.scroll_to_show(self._column, first, room)

    def on_click(self, event: Click) -> None:
        x, column = event.x - self._label_width - COLUMN_GAP - 1, self._column
        for each in self._visible_columns:
            x -= self._table.width(each) + COLUMN_GAP
            if x < 0:
                column = each
                break
        row = self.scroll_offset.y + event.y - self._header_height
        in_rows = event.y >= self._header_height and row < self._table.rows
        self._go_to(row if in_rows else self._row, column)
        if event.y < self._header_height:
            self.action_sort()
        elif in_rows and event.chain == 2:
            self.action_open_cell()

    def action_open_cell(self) -> None:
        block, index = self._table.block(self._row), self._row % BLOCK_ROWS
        if block is not None and index < len(block.positions):
            label = f"{self._column_name} of {one_line(block.label(index))}".strip()
            self._open(["cell", block.positions[index], self._column], label)

    def action_open_column(self) -> None:
        if self._table.column_count > 1:
            self._open(["column", self._column], self._column_name)

    def _open(self, step: list[object], label: str) -> None:
        self.post_message(self.ObjectOpened((*self.subject.path, step), label, self))

    def action_sort(self) -> None:
        now, sort = self._table.arranged.sort, None
        if now != (self._column, True):
            sort = (self._column, now == (self._column, False))
        self._arrange(TableArrangement(sort, self._table.arranged.filters), "sorting …")

    def action_filter(self) -> None:
        condition = dict(self._table.arranged.filters).get(self._column, "")
        forms, prompt = "> 5   = berlin   missing   or a text", f"filter {self._column_name}:"
        self.ask(forms, condition, self._filter, prompt)

    def _filter(self, condition: str) -> None:
        """An empty condition shows all rows."""
        others = tuple(one for one in self._table.arranged.filters if one[0] != self._column)
        mine = ((self._column, condition),) if condition.strip() else ()
        self._arrange(TableArrangement(self._table.arranged.sort, (*others, *mine)), "filtering …")

    def action_all_rows(self) -> None:
        self._arrange(TableArrangement(), "")

    def _arrange(self, arranged: TableArrangement, busy: str) -> None:
        if self._table.column_count:
            self._table.arrange(arranged, busy)
            self._fetch()

    def action_make_variable(self) -> None:
        if self.excerpt.opened.expression:
            suggested = f"{base_name(self.subject.opened)}_view"
            self.ask("a name", suggested, self._make_variable, "new variable:")
        else:
            self.fail("No expression refers to this table: assign it to a variable in a cell.")

    def _make_variable(self, name: str) -> None:
        name = name.strip()
        if name.isidentifier() and not iskeyword(name):
            code = f"{name} = {self.excerpt.opened.expression}"
            self.post_message(self.CellRequested(code, f"A cell makes {name}."))
        else:
            self.fail(f"{name or 'Nothing'} is not a valid variable name.")
