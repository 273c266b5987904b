"""Lays a described table out in lines, with as many details as fit: `DETAILS` are tried from the
most to the least detailed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from .column_facts import COMMONEST_VALUES, MAX_LISTED_VALUES, facts_text
from .described_columns import MAX_HEAD_ROWS, DescribedColumn

MAX_ROW_CHARS = 200
MIN_LINES_LIMIT = 400
"""Below this limit of characters, a table is described in one line."""
FIRST_ITEMS = 10
"""First values of an array or an index that are shown."""
_MAX_SHORT_ROW_CHARS = 100
_MAX_SHORTEST_ROW_CHARS = 60
"""Characters of the first row of a table with many columns, whose facts say more than its rows."""
_DIGIT_SIZE = 3
"""Many models read each digit as a token of its own, and three other characters as one."""
_PREFERRED_TABLE_SIZE = 700
"""Size of a description with details of the values, about 250 tokens (see `_size`)."""
_MAX_TABLE_SIZE = 1_350
"""Size of a description with the least details."""
_MAX_LAST_CHARS = 8
"""Characters of the last value of a row that is shown although the row gets longer by it."""
_SEPARATOR = " | "
"""What separates the cells of the first rows."""


class DescribedTable(NamedTuple):
    """What is known of a table before it is laid out."""

    name: str
    """The variable."""
    title: str
    """The first line of the description."""
    columns: Sequence[DescribedColumn]
    """The first columns."""
    column_count: int
    """The number of all columns."""
    row_labels: Sequence[str] = ()
    """The labels of the first rows; none if they are only numbered."""
    is_whole: bool = False
    """Whether these are all rows and columns, with exact values and labels."""

    def more_columns_lines(self) -> list[str]:
        """Return a line about the columns that are not described; none if all are."""
        omitted_count = self.column_count - len(self.columns)
        if omitted_count > 0:
            return [f"... and {omitted_count:,} more columns"]
        return []


class TableDetail(NamedTuple):
    """How much is said about a table."""

    rows: int
    """First rows that are shown."""
    row_width: int
    """Characters of such a row."""
    max_values: int
    """Different values of a column up to which all are listed."""
    values_width: int
    """Characters of that list."""
    commonest_width: int
    """Characters of the commonest values, if not all are listed."""

    def facts_text(self, column: DescribedColumn) -> str:
        if column.facts is None:
            return ""
        return facts_text(column.facts, self.max_values, self.values_width, self.commonest_width)


DETAILS = (
    TableDetail(MAX_HEAD_ROWS, MAX_ROW_CHARS, MAX_LISTED_VALUES, 400, 70),
    TableDetail(1, _MAX_SHORT_ROW_CHARS, MAX_LISTED_VALUES, 150, 40),
    TableDetail(1, _MAX_SHORT_ROW_CHARS, MAX_LISTED_VALUES, 150, 20),
    TableDetail(1, _MAX_SHORTEST_ROW_CHARS, MAX_LISTED_VALUES, 150, 0),
    TableDetail(1, _MAX_SHORTEST_ROW_CHARS, MAX_LISTED_VALUES, 90, 0),
    TableDetail(1, _MAX_SHORTEST_ROW_CHARS, COMMONEST_VALUES, 50, 0),
    TableDetail(1, _MAX_SHORTEST_ROW_CHARS, 0, 0, 0),
)


def table_lines(table: DescribedTable, limit: int) -> list[str]:
    """Describe a table: its columns line by line, then its first rows.

    Args:
        limit: Characters of the description; if few, it is one line.
    """
    if limit < MIN_LINES_LIMIT:
        return [_single_line(table)]
    lines = _detailed_lines(table, limit)
    whole_lines = _whole_lines(table)
    if whole_lines and _size(whole_lines) <= _size(lines):
        return whole_lines
    return lines


def _whole_lines(table: DescribedTable) -> list[str]:
    """Write all rows of a small table; none if its labels or its values could be misread without
    quotes."""
    if not table.is_whole or not table.columns:
        return []
    labels = (*table.row_labels, *(column.label for column in table.columns))
    if not all(map(_is_plain, labels)) or not all(map(_has_plain_cells, table.columns)):
        return []
    words: list[str] = []
    for column in table.columns:
        note = f" ({column.facts.note})" if column.facts is not None and column.facts.note else ""
        words.append(f"{column.label} {column.type}{note}")
    blocks = [column.cells for column in table.columns]
    if table.row_labels:
        blocks.insert(0, table.row_labels)
    rows = zip(*blocks)
    return [table.title, f"columns: {_SEPARATOR.join(words)}", *map(_SEPARATOR.join, rows)]


def _has_plain_cells(column: DescribedColumn) -> bool:
    """Return whether the values of a column are shown completely, and with their type."""
    if column.facts is not None and column.facts.note.startswith("mixed"):
        return False
    return all(map(_is_plain, column.cells))


def _is_plain(text: str) -> bool:
    """Return whether a text is shown completely, and where it begins and ends."""
    return bool(text) and text == text.strip() and "…" not in text and _SEPARATOR not in text


def _detailed_lines(table: DescribedTable, limit: int) -> list[str]:
    """Describe a table by its columns and its first rows."""
    more_columns_lines = table.more_columns_lines()
    rows: list[str] = []
    lines: list[str] = []
    for detail in DETAILS:
        rows = head_lines(table, detail)
        lines = [table.title, *_column_lines(table.columns, detail), *more_columns_lines, *rows]
        if _size(lines) <= min(limit, _PREFERRED_TABLE_SIZE):
            return lines

    # The ranges of many columns are worth more characters than further details of a few.
    if not table.columns or _size(lines) <= min(limit, _MAX_TABLE_SIZE):
        return lines
    return [table.title, *_wrap_names(table.columns), *more_columns_lines, *rows]


def short_table_lines(table: DescribedTable, limit: int) -> list[str]:
    """Describe a table with the first values of each column in the column's line.

    Args:
        limit: As for `table_lines`.
    """
    if limit < MIN_LINES_LIMIT:
        return [_single_line(table)]

    more_columns_lines = table.more_columns_lines()
    lines: list[str] = []
    for detail in DETAILS:
        column_lines = [_line_with_cells(column, detail) for column in table.columns]
        lines = [table.title, *column_lines, *more_columns_lines]
        if _size(lines) <= min(limit, _PREFERRED_TABLE_SIZE):
            break
    return lines


def head_lines(table: DescribedTable, detail: TableDetail) -> list[str]:
    """Write the first rows, with as many columns as fit.

    The columns have their names above, so the rows are neither titled nor aligned, which would take
    as many tokens as the values.
    """
    columns = table.columns
    if not columns or not columns[0].cells:
        return []

    row_count = min(detail.rows, len(columns[0].cells))
    blocks = [column.cells[:row_count] for column in columns]
    row_labels = table.row_labels[:row_count]
    visible_columns = _count_fitting(blocks, detail.row_width - _width(row_labels))
    omitted_columns = table.column_count - visible_columns
    # The last column takes hardly more than what would stand for it.
    is_last_known = table.column_count == len(columns)
    if omitted_columns == 1 and is_last_known and _width(blocks[-1]) <= _MAX_LAST_CHARS:
        omitted_columns = 0
    shown_blocks = blocks[: table.column_count - omitted_columns]
    if omitted_columns:
        shown_blocks.append(["..."] * row_count)
    if row_labels:
        shown_blocks.insert(0, row_labels)
    rows = [_SEPARATOR.join(cells) for cells in zip(*shown_blocks)]
    return [f"{table.name}.head({row_count}):", *rows]


def _count_fitting(blocks: Sequence[Sequence[str]], available_width: int) -> int:
    """Return how many columns of some rows fit next to each other; at least one.

    Args:
        blocks: The cells of each column.
        available_width: In characters.
    """
    ends = accumulate(_width(cells) + len(_SEPARATOR) for cells in blocks)
    return max(1, sum(end <= available_width for end in ends))


def _width(texts: Sequence[str]) -> int:
    """Return how many characters the longest text has; 0 if there is none."""
    return max(map(len, texts), default=0)


def first_values_lines(texts: Sequence[str], size: int) -> list[str]:
    """Return a line with the first values of an array; none if there are no values.

    Args:
        texts: The first values.
        size: The number of all values.
    """
    ellipsis_text = ", ..." if size > len(texts) else ""
    if texts:
        return [f"first values: {', '.join(texts)}{ellipsis_text}"]
    return []


def size_text(count: int, unit: str) -> str:
    """Return a number with its unit, such as "1,000 rows".

    Args:
        unit: Its plural.
    """
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _size(lines: Sequence[str]) -> int:
    """Return the number of characters, in which a digit counts as `_DIGIT_SIZE`."""
    text = "\n".join(lines)
    digits = sum(map(str.isdigit, text))
    return len(text) + digits * (_DIGIT_SIZE - 1)


def _single_line(table: DescribedTable) -> str:
    if not table.columns:
        return table.title
    words = [f"{column.label} {column.type}" for column in table.columns]
    words += table.more_columns_lines()
    return f"{table.title}: {', '.join(words)}"


def _column_lines(columns: Sequence[DescribedColumn], detail: TableDetail) -> list[str]:
    lines: list[str] = []
    for column in columns:
        facts = detail.facts_text(column)
        line = f"{column.label} {column.type}"
        lines.append(f"{line}: {facts}" if facts else line)
    return lines


def _line_with_cells(column: DescribedColumn, detail: TableDetail) -> str:
    facts = detail.facts_text(column)
    line = f"{column.label} {column.type}: {', '.join(column.cells)}"
    return f"{line}  {facts}" if facts else line


def _wrap_names(columns: Sequence[DescribedColumn]) -> list[str]:
    """Write the names of columns next to each other, with the type after those that share it."""
    words: list[str] = []
    for dtype, neighbours in groupby(columns, key=lambda column: column.type):
        labels = [column.label for column in neighbours]
        words += [f"{label}," for label in labels[:-1]]
        words.append(f"{labels[-1]} {dtype};")
    words[-1] = words[-1].removesuffix(";")

    lines = ["Columns:"]
    for word in words:
        if len(lines[-1]) + len(word) + 1 <= MAX_ROW_CHARS:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return lines
