"""Draws the tables of an output. Widths are in cells of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from mahtab_tui.bus.html_table import HtmlTable, TableCell, numeric_columns, read_table
from mahtab_tui.bus.output_lines import DisplayLine
from mahtab_tui.tui.rows.long_texts import omission_note
from mahtab_tui.tui.rows.row import Row, Span, paragraph
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.worker.values.html_tables import is_essentially_table

COLUMN_GAP = 2
"""The width between two columns."""
MAX_COLUMN_CELLS = 40
"""The maximum width of a column, if not all columns fit."""
MAX_TABLE_LINES = 400
"""At most this many lines are drawn; of a longer table, the first and the last ones."""
MAX_SURROUNDING_CHARS = 10_000
"""At most this many characters of the texts above a table are drawn, and of those below it. A long page may
have only one small table."""
_EMPTY = TableCell("", False)


def grid_rows(
    table: HtmlTable,
    width: int,
    palette: Palette,
    offset: int = 0,
    click_style: Style | None = None,
) -> Sequence[Row]:
    """Return the rows of a table.

    Args:
        table: The table.
        width: The width of a row.
        palette: The colours.
        offset: How many columns the user has scrolled past.
        click_style: A style that is added to all that is drawn, such as what a click does.
    """
    return GridRows(table, width, palette, offset, click_style or Style())


class GridRows(Sequence[Row]):
    """The rows of a table. Each is drawn when it is asked for, because most are never visible."""

    def __init__(
        self,
        table: HtmlTable,
        width: int,
        palette: Palette,
        offset: int,
        click_style: Style,
    ) -> None:
        """The arguments are the same as for `grid_rows`."""
        self._width = width
        self._palette = palette
        self._click_style = click_style
        first_lines, last_lines = _two_ends(table)
        self._columns = _fit_columns(table, width, offset)
        is_numeric = numeric_columns([*first_lines, *last_lines])
        # A column that none of these lines has is aligned like a column of numbers.
        self._aligns_right = [
            column >= len(is_numeric) or is_numeric[column] for column in self._columns.visible
        ]

        # Lines of the table become rows when they are asked for.
        self._lines: list[Row | Sequence[TableCell]] = []
        self._lines += self._text_rows(table.titles)
        self._lines += table.header
        if table.header:
            self._lines.append(self._rule())
        self._lines += first_lines
        if last_lines:
            omitted_count = len(table.body) - MAX_TABLE_LINES
            self._lines += [self._note(f"… {omitted_count:,} lines left out …"), *last_lines]
        if len(self._columns.visible) < self._columns.total:
            self._lines.append(self._note(self._describe_columns()))
        self._lines += self._text_rows(table.notes)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[row_index] for row_index in range(*index.indices(len(self)))]
        row = self._lines[index]
        if not isinstance(row, Row):
            columns = self._columns
            row = _table_row(
                row, columns.visible, columns.widths, self._aligns_right, self._palette
            )
            self._lines[index] = row
        spans = [(text, style + self._click_style) for text, style in row.spans]
        return row._replace(spans=spans, bar=self._palette.hairline)

    def _rule(self) -> Row:
        widths = self._columns.widths
        rule = "─" * min(self._width, sum(widths) + COLUMN_GAP * (len(widths) - 1))
        return Row([(rule, self._palette.hairline)])

    def _note(self, text: str) -> Row:
        size = min(self._width, cell_len(text))
        return Row([(set_cell_size(text, size), self._palette.muted)])

    def _text_rows(self, texts: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of the texts above or below the table. Only the beginning of long texts is drawn."""
        remaining_chars = MAX_SURROUNDING_CHARS
        for index, text in enumerate(texts):
            drawn_text = text[: max(0, remaining_chars)]
            yield from paragraph([(drawn_text, self._palette.muted)], self._width, None)
            if len(drawn_text) < len(text):
                omitted_chars = sum(map(len, texts[index:])) - len(drawn_text)
                yield self._note(omission_note(omitted_chars, hint=""))
                return
            remaining_chars -= len(text) + 1

    def _describe_columns(self) -> str:
        """Return a note that names the visible columns. Columns that name the rows do not count."""
        columns = self._columns.visible
        index_count = self._columns.index_count
        first_index = min(index_count, len(columns) - 1)
        first = columns[first_index] - index_count + 1
        last = columns[-1] - index_count + 1
        names = f"column {first}" if first >= last else f"columns {first} to {last}"
        return f"{names} of {self._columns.total - index_count:,} · ← → show more"


def _two_ends(table: HtmlTable) -> tuple[list[list[TableCell]], list[list[TableCell]]]:
    """Return the first and the last lines of a long table; for a short one, all lines and none."""
    if len(table.body) <= MAX_TABLE_LINES:
        return table.body, []
    return table.body[: MAX_TABLE_LINES * 3 // 4], table.body[-(MAX_TABLE_LINES // 4) :]


class _Columns(NamedTuple):
    """The columns of a table that are visible."""

    visible: list[int]
    """The indexes of the visible columns."""
    widths: list[int]
    """The widths of these columns."""
    index_count: int
    """How many columns at the left name the rows. They stay visible when the others are scrolled."""
    total: int
    """The number of all columns."""


def _fit_columns(table: HtmlTable, width: int, offset: int) -> _Columns:
    """Return the columns that fit into a width.

    Args:
        table: The table.
        width: The width of a row.
        offset: How many columns the user has scrolled past.
    """
    body = [line for lines in _two_ends(table) for line in lines]
    content_widths: list[int] = []
    for line in [*table.header, *body]:
        content_widths += [0] * (len(line) - len(content_widths))
        for column, cell in enumerate(line):
            content_widths[column] = max(content_widths[column], cell_len(cell.text))
    total = len(content_widths)
    all_columns = list(range(total))
    if sum(content_widths) + COLUMN_GAP * (total - 1) <= width:
        return _Columns(all_columns, content_widths, 0, total)

    # Not all columns fit. Those that name the rows stay, unless they take more than half of the width.
    widths = [max(1, min(content_width, MAX_COLUMN_CELLS)) for content_width in content_widths]
    index_count = _count_index_columns(body)
    if index_count == total:
        index_count = 0
    elif sum(widths[:index_count]) + COLUMN_GAP * index_count > width // 2:
        index_count = 1
    if index_count == 1:
        widths[0] = max(1, min(widths[0], width // 2 - COLUMN_GAP))

    columns = all_columns[:index_count]
    available_width = width - sum(widths[:index_count]) - COLUMN_GAP * index_count
    first_column = min(index_count + offset, total - 1)
    for column in all_columns[first_column:]:
        # At least one column is visible besides those that name the rows.
        if len(columns) > index_count and widths[column] > available_width:
            break
        widths[column] = max(1, min(widths[column], available_width))
        columns.append(column)
        available_width -= widths[column] + COLUMN_GAP
    return _Columns(columns, [widths[column] for column in columns], index_count, total)


def _count_index_columns(body: Sequence[Sequence[TableCell]]) -> int:
    """Return how many columns at the left have only headings."""
    shortest_line = min(map(len, body), default=0)
    for column in range(shortest_line):
        if not all(line[column].heading for line in body):
            return column
    return shortest_line


def _table_row(
    line: Sequence[TableCell],
    columns: Sequence[int],
    widths: Sequence[int],
    aligns_right: Sequence[bool],
    palette: Palette,
) -> Row:
    """Return the row of a line of a table: the cells of the visible columns, padded or cut.

    Args:
        line: The cells of the line.
        columns: The indexes of the visible columns.
        widths: The widths of these columns.
        aligns_right: Whether each of them is aligned at the right.
        palette: The colours.
    """
    spans: list[Span] = []
    for column, width, is_right in zip(columns, widths, aligns_right, strict=True):
        if spans:
            spans.append((" " * COLUMN_GAP, palette.text))
        cell = line[column] if column < len(line) else _EMPTY
        text = cell.text
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        padding = " " * (width - cell_len(text))
        style = palette.muted + BOLD if cell.heading else palette.text
        aligned = padding + text if is_right else text + padding
        spans.append((aligned, style))
    return Row(spans)


def shown_table(display: DisplayLine) -> HtmlTable | None:
    """Return the table that is drawn for a display; None if its text is drawn.

    The text is drawn if the HTML is not essentially a table. But a text such as
    ``<IPython.core.display.HTML object>`` says less than any table.
    """
    if display.mime != "text/html":
        return None
    has_words = not display.text.startswith("<")
    if has_words and not is_essentially_table(display.data):
        return None
    return read_table(display.data)


def scroll_table(display: DisplayLine, step: int, width: int) -> bool:
    """Scroll a table by columns.

    Args:
        display: The display of the table.
        step: How many columns to the right, or to the left if it is negative.
        width: The width of a row.

    Returns:
        Whether the table has moved.
    """
    table = shown_table(display)
    if table is None:
        return False
    columns = _fit_columns(table, width, display.offset)
    if step > 0 and columns.visible[-1] == columns.total - 1:
        return False
    old_offset = display.offset
    display.offset = max(0, old_offset + step)
    return display.offset != old_offset
