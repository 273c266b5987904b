"""A table's columns and rows, and how they are drawn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
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
from mahtab_tui.tui.rows.row import fit_text
from mahtab_tui.tui.theme import BOLD, Palette

MIN_WIDTH, MAX_WIDTH = 5, 36
"""Minimum and maximum cells of a column."""
COLUMN_GAP = 2
"""Cells between two columns."""
_MARKS = " ▲/"
"""Marks after the name of a sorted or filtered column."""
BARS = " ▁▂▃▄▅▆▇█"


class TableColumns:
    """Columns by number. Widths only grow, so that nothing jumps while scrolling."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.headings: dict[int, Heading] = {}
        self.statistics: dict[int, ColumnStatistics | None] = {}
        """None for a column without statistics."""
        self._widths: dict[int, int] = {}

    def name(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.name) if heading is not None else ""

    def type(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.type) if heading is not None else ""

    def width(self, column: int) -> int:
        return self._widths.get(column, MIN_WIDTH + 5)

    def set_headings(self, columns: Sequence[int], headings: Sequence[Heading]) -> None:
        for column, heading in zip(columns, headings, strict=True):
            self.headings[column] = heading
            self._grow(column, [self.name(column) + _MARKS, self.type(column)])

    def set_statistics(self, column: int, statistics: ColumnStatistics | None) -> None:
        """Set a column's statistics; None for a column that has none."""
        self.statistics[column] = statistics
        if statistics is not None:
            self._grow(
                column,
                [
                    statistics.min,
                    statistics.max,
                    statistics.mean,
                    *statistics.top,
                    "▁" * len(statistics.bars),
                ],
            )

    def widen(self, column: int, cells: Iterable[str | None]) -> None:
        """Widen a column to fit its values."""
        self._grow(column, (cell or "—" for cell in cells))

    def visible(self, left: int, room: int) -> list[int]:
        """Return the columns from `left` on that fit in that many cells; at least one."""
        found: list[int] = []
        used = 0
        for column in range(left, self.count):
            if found and used >= room:
                break
            found.append(column)
            used += self.width(column) + COLUMN_GAP
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

    def _grow(self, column: int, texts: Iterable[str]) -> None:
        widest = max((cell_len(text) for text in texts), default=0)
        self._widths[column] = min(MAX_WIDTH, max(self._widths.get(column, MIN_WIDTH), widest))


def bars(counts: Sequence[int]) -> str:
    """Draw a histogram in one line."""
    highest = max(counts, default=0)
    return "".join(BARS[-(-count * 8 // highest)] for count in counts) if highest else ""


BLOCK_ROWS = 100
"""Rows per block."""
_MAX_BLOCKS = 24
"""Maximum number of cached blocks."""
_MARGIN_COLUMNS = 2
"""Columns fetched on either side of the visible ones."""


class BlockPart(NamedTuple):
    """A part of a table to fetch."""

    block: int
    columns: tuple[int, ...]


class Block:
    """Some rows, with their fetched columns."""

    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}


class TableCache:
    """A cache of the blocks used last."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def clear(self) -> None:
        """Discard everything, because it is out of date."""
        self._blocks.clear()

    def add(self, wanted: BlockPart, page: TablePage) -> None:
        """Add a fetched page."""
        block = self._blocks.get(wanted.block)
        if block is None or block.positions != page.positions:
            block = self._blocks[wanted.block] = Block(page)
        block.cells.update(zip(wanted.columns, page.cells, strict=True))
        while len(self._blocks) > _MAX_BLOCKS:
            self._blocks.popitem(last=False)

    def block(self, row: int) -> Block | None:
        """Return the block that contains a row; None if it is not cached."""
        block = self._blocks.get(row // BLOCK_ROWS)
        if block is not None:
            self._blocks.move_to_end(row // BLOCK_ROWS)
        return block

    def missing(self, first: int, last: int, columns: Sequence[int]) -> list[BlockPart]:
        """Return the uncached rows between `first` and `last`, exclusive."""
        found = []
        for number in range(first // BLOCK_ROWS, max(first, last - 1) // BLOCK_ROWS + 1):
            block = self._blocks.get(number)
            gone = tuple(column for column in columns if block is None or column not in block.cells)
            if gone:
                found.append(BlockPart(number, gone))
        return found


class TableRequest(NamedTuple):
    """A request for the visible part of a table."""

    headings: tuple[int, ...]
    """The columns whose names and types are not cached."""
    parts: tuple[BlockPart, ...]
    arranged: TableArrangement

    def fetch(self, client: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel, and wait. Raises `KernelError`."""
        headings = client.headings(path, self.headings) if self.headings else ()
        pages = [
            client.rows(
                path,
                part.block * BLOCK_ROWS,
                (part.block + 1) * BLOCK_ROWS,
                part.columns,
                self.arranged,
            )
            for part in self.parts
        ]
        return TableAnswer(self, headings, pages)


class TableAnswer(NamedTuple):
    """The kernel's answer to a request."""

    request: TableRequest
    headings: Sequence[Heading]
    pages: Sequence[TablePage]
    """One for each part."""


class TableModel:
    """A table with its cached rows and its arrangement. Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        self.rows = self.total_rows = opened.rows
        """The number of rows that pass the filters, and of all rows."""
        self.columns = TableColumns(opened.columns)
        self.cache = TableCache()
        self.arranged = TableArrangement()
        self.busy = ""
        """Activity of the kernel, as in "sorting …"."""
        self._previous: TableArrangement | None = None
        """The arrangement to restore if the new one fails."""
        self._request: TableRequest | None = None
        self._statistics_column: int | None = None
        """The column whose statistics are being fetched."""

    @property
    def filtered(self) -> bool:
        return self.rows != self.total_rows

    def arrange(self, arranged: TableArrangement, busy: str) -> None:
        """Change how the table is sorted and filtered."""
        self._previous = self._previous or self.arranged
        self.arranged = arranged
        self.busy = busy
        self.cache.clear()
        self.rows = self.rows if arranged.filters else self.total_rows
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return a request for the visible rows and columns; None if everything is cached or
        already requested."""
        around = range(
            max(0, columns[0] - _MARGIN_COLUMNS),
            min(self.columns.count, columns[-1] + 1 + _MARGIN_COLUMNS),
        )
        headings = tuple(column for column in around if column not in self.columns.headings)
        parts = tuple(self.cache.missing(rows.start, max(rows.stop, rows.start + 1), around))
        request = TableRequest(headings, parts, self.arranged)
        if not (headings or parts) or request == self._request:
            return None
        self._request = request
        return request

    def apply(self, answer: TableAnswer) -> bool:
        """Apply an answer; returns False if the table's columns have changed meanwhile."""
        if any(page.columns != self.columns.count for page in answer.pages):
            return False
        self.busy = ""
        self._request = self._previous = None
        if answer.headings:
            self.columns.set_headings(answer.request.headings, answer.headings)
        for part, page in zip(answer.request.parts, answer.pages, strict=True):
            # Rows were added or removed meanwhile, so the cache is out of date.
            if page.total_rows != self.total_rows:
                self.cache.clear()
                self.columns.statistics.clear()
            self.cache.add(part, page)
            for column, cells in zip(part.columns, page.cells, strict=True):
                self.columns.widen(column, cells)
            self.rows, self.total_rows = page.rows, page.total_rows
        return True

    def revert(self) -> bool:
        """Restore the previous arrangement after a failed request. Returns whether there was
        one."""
        self.busy = ""
        self._request = None
        if self._previous is None:
            return False
        self.arranged, self._previous = self._previous, None
        return True

    def next_statistics(self, columns: Sequence[int], first: int) -> int | None:
        """Return the next visible column whose statistics to fetch, starting with `first`; None if
        there is none, or if a request is under way."""
        missing = (
            [column for column in columns if column not in self.columns.statistics]
            if self.rows
            else []
        )
        column = first if first in missing else next(iter(missing), None)
        if column is None or column == self._statistics_column:
            return None
        self._statistics_column = column
        return column

    def set_statistics(self, column: int, statistics: ColumnStatistics | None) -> None:
        self._statistics_column = None
        self.columns.set_statistics(column, statistics)


STATISTICS = ("missing", "min", "max", "mean")
"""Lines of statistics in a tall header, below the histogram."""


class TableDrawing(NamedTuple):
    """Settings shared by all lines of a drawn table."""

    columns: TableColumns
    visible: list[int]
    """The visible columns."""
    cursor: int
    """The cursor's column."""
    arranged: TableArrangement
    label_width: int
    filtered: bool
    """Whether rows are filtered out; the statistics still cover all rows."""
    palette: Palette

    def header(self, line: int, waits: bool, base: Style) -> Strip:
        """Draw a line of the header: names, types, histograms, statistics. waits: whether missing
        statistics are being fetched."""
        names = ("", "", "of all" if self.filtered else "", *STATISTICS)
        segments = self._label(names[line], base)
        for column in self.visible:
            text, style = self._header_text(line, column, waits)
            segments += [
                Segment(self._aligned(column, text), base + style),
                Segment(" " * COLUMN_GAP, base),
            ]
        return Strip(segments)

    def row(self, row: int, block: Block | None, has_cursor: bool, base: Style) -> Strip:
        """Draw a row. block: the block that contains it, if fetched."""
        row_in_block = row % BLOCK_ROWS
        background = base + self.palette.panel if has_cursor else base
        segments = self._label(one_line(row_label(block, row_in_block)), background)
        for column in self.visible:
            cells = block.cells.get(column) if block is not None else None
            text, style = "", Style()
            if cells is None or row_in_block >= len(cells):
                text, style = "·", self.palette.hairline
            elif (found := cells[row_in_block]) is None:
                text, style = "—", self.palette.muted
            else:
                text = plain(found)
            if has_cursor and column == self.cursor:
                style += Style(reverse=True)
            segments += [
                Segment(self._aligned(column, text), background + style),
                Segment(" " * COLUMN_GAP, background),
            ]
        return Strip(segments)

    def _label(self, text: str, background: Style) -> list[Segment]:
        return [
            Segment(
                f" {fit_text(text, self.label_width)}" + " " * COLUMN_GAP,
                background + self.palette.muted,
            )
        ]

    def _header_text(self, line: int, column: int, waits: bool) -> tuple[str, Style]:
        palette = self.palette
        if line == 0:
            mark = ""
            if self.arranged.sort is not None and self.arranged.sort[0] == column:
                mark += "▼" if self.arranged.sort[1] else "▲"
            if column in dict(self.arranged.filters):
                mark += "/"
            name = self.columns.name(column)
            return f"{name} {mark}" if mark else name, (
                palette.person if column == self.cursor else palette.text
            ) + BOLD
        if line == 1:
            return self.columns.type(column), palette.muted
        if column not in self.columns.statistics:
            return "…" if line == 2 and waits else "", palette.hairline
        statistics = self.columns.statistics[column]
        if statistics is None:
            return "", palette.muted
        if statistics.top and line != 3:  # for a text column, show its most common values instead
            column_line = line - 2 - (line > 3)
            return one_line(statistics.top[column_line]) if column_line < len(
                statistics.top
            ) else "", palette.muted
        if line == 2:
            return bars(statistics.bars), palette.person
        if line == 3:
            return (f"{statistics.missing:,}" if statistics.missing else "none"), (
                palette.moon if statistics.missing else palette.muted
            )
        return (statistics.min, statistics.max, statistics.mean)[line - 4], palette.muted

    def _aligned(self, column: int, text: str) -> str:
        width = self.columns.width(column)
        text = fit_text(text, width).rstrip()
        space = " " * (width - cell_len(text))
        heading = self.columns.headings.get(column)
        return space + text if heading is not None and heading.right else text + space


def row_label(block: Block | None, row: int) -> str:
    """Return the label of a row, or its number; empty if it was not fetched."""
    if block is None or row >= len(block.positions):
        return ""
    return block.labels[row] if block.labels is not None else str(block.positions[row])


def status_parts(table: TableModel, row: int, column: int) -> list[tuple[str, str] | str]:
    """Describe the cursor's position and column for the status line."""
    where = f"row {row + 1:,} of {table.rows:,}" if table.rows else "no rows"
    if table.filtered:
        where = (
            f"match {row + 1:,} of {table.rows:,} (of {table.total_rows:,} rows)"
            if table.rows
            else f"no matches (of {table.total_rows:,} rows)"
        )
    parts: list[tuple[str, str] | str] = [(where, "$muted")]
    heading, statistics = table.columns.headings.get(column), table.columns.statistics.get(column)
    if heading is not None:
        parts += [
            ("  ·  ", "$muted"),
            (table.columns.name(column), "bold"),
            (f" {table.columns.type(column)}", "$muted"),
        ]
    if condition := dict(table.arranged.filters).get(column, ""):
        parts.append((f"  / {plain(condition)}", "$person"))
    if statistics is not None:
        parts.append((f"  {statistics.missing:,} missing" if statistics.missing else "", "$moon"))
        if statistics.min:
            parts.append(("  of all rows:" if table.filtered else "", "$muted"))
            parts.append(
                (f"  {statistics.min} … {statistics.max}, mean {statistics.mean}", "$muted")
            )
    return parts
