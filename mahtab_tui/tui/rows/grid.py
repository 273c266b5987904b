"""Draws a data table: one row per line, numbers aligned right. A wide table can be scrolled by
columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.html_table import HtmlTable, TableCell, numeric_columns
from mahtab_tui.tui.rows.row import Row, Span
from mahtab_tui.tui.theme import BOLD, Palette

SPACE = 2
"""Cells between columns."""
WIDEST = 40
"""Maximum width of a column if the table is too wide."""
LINES = 400
"""Maximum number of lines; longer tables show their two ends."""

_EMPTY = TableCell("", False)


def grid_rows(table: HtmlTable, width: int, palette: Palette, offset: int = 0) -> list[Row]:
    """Return the rows of the header, a rule, the lines (only the two ends of a long table), and the
    notes.

    offset: number of columns scrolled past; index columns stay.
    """
    head, foot = table.body, []
    if (omitted := len(table.body) - LINES) > 0:
        head, foot = table.body[: LINES * 3 // 4], table.body[-(LINES // 4) :]
    lines = [*table.header, *head, *foot]
    wanted = _natural_widths(lines)
    named = _count_index_columns([*head, *foot], wanted, width)
    columns, widths = _fit_columns(wanted, named, width, offset)
    numeric = numeric_columns([*head, *foot])
    right = [column >= len(numeric) or numeric[column] for column in columns]
    rows = [_row(line, columns, widths, right, palette) for line in lines]
    rule = Row([("─" * min(width, sum(widths) + SPACE * (len(widths) - 1)), palette.hairline)])
    notes = [
        _note(note, width, palette)
        for note in [*_scroll_note(columns, named, len(wanted) - named), *table.notes]
    ]
    top, end = len(table.header), len(table.header) + len(head)
    between = [_note(f"… {omitted:,} lines left out …", width, palette)] if foot else []
    return [*rows[:top], *([rule] if top else []), *rows[top:end], *between, *rows[end:], *notes]


def _natural_widths(lines: Sequence[Sequence[TableCell]]) -> list[int]:
    """Return each column's natural width."""
    wanted: list[int] = []
    for line in lines:
        wanted += [0] * (len(line) - len(wanted))
        for column, cell in enumerate(line):
            wanted[column] = max(wanted[column], cell_len(cell.text))
    return wanted


def last_offset(table: HtmlTable, width: int) -> int:
    """Return the offset at which the last columns are visible; 0 if all columns fit."""
    lines = [*table.header, *table.body]
    wanted = _natural_widths(lines)
    named = _count_index_columns(table.body, wanted, width)
    columns, _ = _fit_columns(
        wanted[:named] + wanted[: named - 1 if named else None : -1], named, width, 0
    )
    return max(0, len(wanted) - len(columns))


def _count_index_columns(
    body: Sequence[Sequence[TableCell]], wanted: Sequence[int], width: int
) -> int:
    """Return the number of index columns at the left, which always stay visible: one if they are
    wide, none if there are no other columns."""
    least = min(map(len, body), default=0)
    headings = (all(line[column].heading for line in body) for column in range(least))
    named = sum(1 for _ in takewhile(bool, headings))
    if named == len(wanted):
        return 0
    return named if sum(min(cells, WIDEST) + SPACE for cells in wanted[:named]) <= width // 2 else 1


def _fit_columns(
    wanted: Sequence[int], named: int, width: int, offset: int
) -> tuple[list[int], list[int]]:
    """Select the visible columns and their widths: index columns first, then as many as fit from
    the offset."""
    every = list(range(len(wanted)))
    if sum(wanted) + SPACE * (len(wanted) - 1) <= width:
        return every, list(wanted)
    widths = [max(1, min(cells, WIDEST)) for cells in wanted]
    if named == 1:
        widths[0] = max(1, min(widths[0], width // 2 - SPACE))
    columns, room = every[:named], width - sum(widths[:named]) - SPACE * named
    for column in every[named + min(offset, len(wanted) - named - 1) :]:
        if len(columns) > named and widths[column] > room:
            break
        widths[column] = max(1, min(widths[column], room))
        columns.append(column)
        room -= widths[column] + SPACE
    return columns, [widths[column] for column in columns]


def _scroll_note(shown: Sequence[int], named: int, columns: int) -> list[str]:
    """Describe which columns of a wide table are visible."""
    if len(shown) == named + columns:
        return []
    first, last = shown[min(named, len(shown) - 1)] - named + 1, shown[-1] - named + 1
    seen = f"column {first}" if first >= last else f"columns {first} to {last}"
    return [f"{seen} of {columns:,} · ← → show more"]


def _note(text: str, width: int, palette: Palette) -> Row:
    return Row([(set_cell_size(text, min(width, cell_len(text))), palette.muted)])


def _row(
    line: Sequence[TableCell],
    shown: Sequence[int],
    widths: Sequence[int],
    right: Sequence[bool],
    palette: Palette,
) -> Row:
    def spans() -> Iterator[Span]:
        for number, (column, width) in enumerate(zip(shown, widths, strict=True)):
            if number:
                yield " " * SPACE, palette.text
            cell = line[column] if column < len(line) else _EMPTY
            style = palette.muted if cell.heading else palette.text
            text = (
                cell.text
                if cell_len(cell.text) <= width
                else set_cell_size(cell.text, width - 1) + "…"
            )
            space = " " * (width - cell_len(text))
            yield (
                (space + text if right[number] else text + space),
                style + BOLD if cell.heading else style,
            )

    return Row(list(spans()))
