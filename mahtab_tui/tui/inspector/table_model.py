"""A table: its columns, its rows, and drawing them."""

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
from mahtab_tui.tui.rows.row import fitted
from mahtab_tui.tui.theme import BOLD, Palette

NARROWEST, WIDEST = 5, 36
"""Cells of a column."""
BETWEEN = 2
"""Cells between two columns."""
_MARKS = " ▲/"
"""The marks of a sorted and filtered column, behind its name."""
BARS = " ▁▂▃▄▅▆▇█"


class TableColumns:
    """Columns by number. Widths only grow, so that nothing jumps while the user scrolls."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.headings: dict[int, Heading] = {}
        self.figures: dict[int, ColumnStatistics | None] = {}
        """None for a column that has none."""
        self._widths: dict[int, int] = {}

    def name(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.name) if heading is not None else ""

    def type(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.type) if heading is not None else ""

    def width(self, column: int) -> int:
        return self._widths.get(column, NARROWEST + 5)

    def take_headings(self, columns: Sequence[int], headings: Sequence[Heading]) -> None:
        for column, heading in zip(columns, headings, strict=True):
            self.headings[column] = heading
            self._grow(column, [self.name(column) + _MARKS, self.type(column)])

    def take_figures(self, column: int, figures: ColumnStatistics | None) -> None:
        """Take in figures; None for a column that has none."""
        self.figures[column] = figures
        if figures is not None:
            self._grow(
                column,
                [figures.min, figures.max, figures.mean, *figures.top, "▁" * len(figures.bars)],
            )

    def take_cells(self, column: int, cells: Iterable[str | None]) -> None:
        """Widen a column for its values."""
        self._grow(column, (cell or "—" for cell in cells))

    def seen(self, left: int, room: int) -> list[int]:
        """The columns from `left` on that are visible in so many cells; at least one."""
        found: list[int] = []
        used = 0
        for column in range(left, self.count):
            if found and used >= room:
                break
            found.append(column)
            used += self.width(column) + BETWEEN
        return found

    def left_for(self, column: int, left: int, room: int) -> int:
        """The first visible column, after scrolling as little as possible to make all of `column`
        visible."""
        if column <= left:
            return column
        used = self.width(column)
        first = column
        while first > left and used + self.width(first - 1) + BETWEEN <= room:
            first -= 1
            used += self.width(first) + BETWEEN
        return first

    def _grow(self, column: int, texts: Iterable[str]) -> None:
        widest = max((cell_len(text) for text in texts), default=0)
        self._widths[column] = min(WIDEST, max(self._widths.get(column, NARROWEST), widest))


def bars(counts: Sequence[int]) -> str:
    """Draw a histogram in one line."""
    highest = max(counts, default=0)
    return "".join(BARS[-(-count * 8 // highest)] for count in counts) if highest else ""


ROWS = 100
"""Rows of a block."""
_BLOCKS = 24
"""Blocks that are kept."""
_AROUND = 2
"""Columns that are fetched on either side of the visible ones."""


class BlockPart(NamedTuple):
    """A part of a table to fetch."""

    block: int
    columns: tuple[int, ...]


class Block:
    """Some rows, with the columns that were fetched."""

    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}


class TableCache:
    """The blocks of rows that were used last."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def clear(self) -> None:
        """Drop everything, because it is out of date."""
        self._blocks.clear()

    def take(self, wanted: BlockPart, page: TablePage) -> None:
        """Take in a page that was fetched."""
        block = self._blocks.get(wanted.block)
        if block is None or block.positions != page.positions:
            block = self._blocks[wanted.block] = Block(page)
        block.cells.update(zip(wanted.columns, page.cells, strict=True))
        while len(self._blocks) > _BLOCKS:
            self._blocks.popitem(last=False)

    def block(self, row: int) -> Block | None:
        """The block that has a row; None if it is not here."""
        block = self._blocks.get(row // ROWS)
        if block is not None:
            self._blocks.move_to_end(row // ROWS)
        return block

    def missing(self, first: int, last: int, columns: Sequence[int]) -> list[BlockPart]:
        """Return the missing rows between `first` and `last`, exclusive."""
        found = []
        for number in range(first // ROWS, max(first, last - 1) // ROWS + 1):
            block = self._blocks.get(number)
            gone = tuple(column for column in columns if block is None or column not in block.cells)
            if gone:
                found.append(BlockPart(number, gone))
        return found


class TableRequest(NamedTuple):
    """Request for the visible part of a table."""

    headings: tuple[int, ...]
    """The columns whose names and types are not here."""
    parts: tuple[BlockPart, ...]
    arranged: TableArrangement

    def fetch(self, look: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel; waits. Raises `KernelError`."""
        headings = look.headings(path, self.headings) if self.headings else ()
        pages = [
            look.rows(path, part.block * ROWS, (part.block + 1) * ROWS, part.columns, self.arranged)
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
    """Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        self.rows = self.of = opened.rows
        """Rows that pass the filters, and all rows."""
        self.columns = TableColumns(opened.columns)
        self.cache = TableCache()
        self.arranged = TableArrangement()
        self.busy = ""
        """Activity of the kernel, as in "sorting …"."""
        self._before: TableArrangement | None = None
        """The arrangement to return to if the new one fails."""
        self._request: TableRequest | None = None
        self._figures_of: int | None = None
        """The column whose figures are being fetched."""

    @property
    def filtered(self) -> bool:
        return self.rows != self.of

    def arrange(self, arranged: TableArrangement, busy: str) -> None:
        """Sort and filter in another way from now on."""
        self._before = self._before or self.arranged
        self.arranged = arranged
        self.busy = busy
        self.cache.clear()
        self.rows = self.rows if arranged.filters else self.of
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return the request for the visible rows and columns; None if all of it is here or was
        asked for."""
        around = range(
            max(0, columns[0] - _AROUND), min(self.columns.count, columns[-1] + 1 + _AROUND)
        )
        headings = tuple(column for column in around if column not in self.columns.headings)
        parts = tuple(self.cache.missing(rows.start, max(rows.stop, rows.start + 1), around))
        request = TableRequest(headings, parts, self.arranged)
        if not (headings or parts) or request == self._request:
            return None
        self._request = request
        return request

    def take(self, answer: TableAnswer) -> bool:
        """Take in an answer; returns False if the table has other columns by now."""
        if any(page.columns != self.columns.count for page in answer.pages):
            return False
        self.busy = ""
        self._request = self._before = None
        if answer.headings:
            self.columns.take_headings(answer.request.headings, answer.headings)
        for part, page in zip(answer.request.parts, answer.pages, strict=True):
            if (
                page.total_rows != self.of
            ):  # rows were added or removed meanwhile: what is here is out of date
                self.cache.clear()
                self.columns.figures.clear()
            self.cache.take(part, page)
            for column, cells in zip(part.columns, page.cells, strict=True):
                self.columns.take_cells(column, cells)
            self.rows, self.of = page.rows, page.total_rows
        return True

    def take_failure(self) -> bool:
        """A request has failed: return to the arrangement before. Returns whether there was another
        one."""
        self.busy = ""
        self._request = None
        if self._before is None:
            return False
        self.arranged, self._before = self._before, None
        return True

    def next_figures(self, columns: Sequence[int], first: int) -> int | None:
        """The visible column whose figures to fetch next, `first` before others; None if there is
        none, or it was asked for."""
        missing = (
            [column for column in columns if column not in self.columns.figures]
            if self.rows
            else []
        )
        column = first if first in missing else next(iter(missing), None)
        if column is None or column == self._figures_of:
            return None
        self._figures_of = column
        return column

    def take_figures(self, column: int, figures: ColumnStatistics | None) -> None:
        self._figures_of = None
        self.columns.take_figures(column, figures)


FIGURES = ("missing", "min", "max", "mean")
"""The lines of figures in a high header, below the histogram."""


class TableDrawing(NamedTuple):
    """Common settings of all lines of a table."""

    columns: TableColumns
    seen: list[int]
    """The visible columns."""
    cursor: int
    """The cursor's column."""
    arranged: TableArrangement
    label_width: int
    filtered: bool
    """Whether rows are left out; the figures are those of all rows."""
    palette: Palette

    def header(self, line: int, waits: bool, base: Style) -> Strip:
        """Draw a line of the header: names, types, histograms, figures. waits: whether missing
        figures are being fetched."""
        names = ("", "", "of all" if self.filtered else "", *FIGURES)
        segments = self._label(names[line], base)
        for column in self.seen:
            text, style = self._header_text(line, column, waits)
            segments += [
                Segment(self._aligned(column, text), base + style),
                Segment(" " * BETWEEN, base),
            ]
        return Strip(segments)

    def row(self, row: int, block: Block | None, here: bool, base: Style) -> Strip:
        """Draw a row. block: has the row, if it was fetched. here: whether the cursor is in it."""
        row_in_block = row % ROWS
        ground = base + self.palette.panel if here else base
        segments = self._label(one_line(label_of(block, row_in_block)), ground)
        for column in self.seen:
            cells = block.cells.get(column) if block is not None else None
            text, style = "", Style()
            if cells is None or row_in_block >= len(cells):
                text, style = "·", self.palette.hairline
            elif (found := cells[row_in_block]) is None:
                text, style = "—", self.palette.muted
            else:
                text = plain(found)
            if here and column == self.cursor:
                style += Style(reverse=True)
            segments += [
                Segment(self._aligned(column, text), ground + style),
                Segment(" " * BETWEEN, ground),
            ]
        return Strip(segments)

    def _label(self, text: str, ground: Style) -> list[Segment]:
        return [
            Segment(
                f" {fitted(text, self.label_width)}" + " " * BETWEEN, ground + self.palette.muted
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
        if column not in self.columns.figures:
            return "…" if line == 2 and waits else "", palette.hairline
        figures = self.columns.figures[column]
        if figures is None:
            return "", palette.muted
        if figures.top and line != 3:  # a column of texts shows its commonest values instead
            column_line = line - 2 - (line > 3)
            return one_line(figures.top[column_line]) if column_line < len(
                figures.top
            ) else "", palette.muted
        if line == 2:
            return bars(figures.bars), palette.person
        if line == 3:
            return (f"{figures.missing:,}" if figures.missing else "none"), (
                palette.moon if figures.missing else palette.muted
            )
        return (figures.min, figures.max, figures.mean)[line - 4], palette.muted

    def _aligned(self, column: int, text: str) -> str:
        width = self.columns.width(column)
        text = fitted(text, width).rstrip()
        space = " " * (width - cell_len(text))
        heading = self.columns.headings.get(column)
        return space + text if heading is not None and heading.right else text + space


def label_of(block: Block | None, row: int) -> str:
    """The name of a row, or its number; empty if it was not fetched."""
    if block is None or row >= len(block.positions):
        return ""
    return block.labels[row] if block.labels is not None else str(block.positions[row])


def position_parts(table: TableModel, row: int, column: int) -> list[tuple[str, str] | str]:
    """Say where the cursor is, and what is known of its column, for the status line."""
    where = f"row {row + 1:,} of {table.rows:,}" if table.rows else "no rows"
    if table.filtered:
        where = (
            f"match {row + 1:,} of {table.rows:,} (of {table.of:,} rows)"
            if table.rows
            else f"no matches (of {table.of:,} rows)"
        )
    parts: list[tuple[str, str] | str] = [(where, "$muted")]
    heading, figures = table.columns.headings.get(column), table.columns.figures.get(column)
    if heading is not None:
        parts += [
            ("  ·  ", "$muted"),
            (table.columns.name(column), "bold"),
            (f" {table.columns.type(column)}", "$muted"),
        ]
    if condition := dict(table.arranged.filters).get(column, ""):
        parts.append((f"  / {plain(condition)}", "$person"))
    if figures is not None:
        parts.append((f"  {figures.missing:,} missing" if figures.missing else "", "$moon"))
        if figures.min:
            parts.append(("  of all rows:" if table.filtered else "", "$muted"))
            parts.append((f"  {figures.min} … {figures.max}, mean {figures.mean}", "$muted"))
    return parts
