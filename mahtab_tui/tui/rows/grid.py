"""Draws a table of data: one row per line, numbers aligned right, columns left out in the middle if they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.html_table import HtmlTable, TableCell
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span

SPACE = 2
"""Cells between columns."""
WIDEST = 40
"""Maximum width of a column if the table is too wide."""
NARROWEST = 12
"""A column is not made narrower than this."""
LINES = 400
"""Maximum number of lines; of longer tables the two ends are drawn."""

_NUMBER = re.compile(r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|")
_MARK, _EMPTY = TableCell("…", False), TableCell("", False)


def grid_rows(table: HtmlTable, width: int, palette: Palette) -> list[Row]:
    """Return the rows of the header, a rule, the lines (both ends if there are very many), and the notes."""
    head, foot = table.body, []
    if (left_out := len(table.body) - LINES) > 0:
        head, foot = table.body[: LINES * 3 // 4], table.body[-(LINES // 4) :]
    lines = [*table.header, *head, *foot]
    kept, widths = _fitted(_wanted(lines), width)
    right = [column is not None and all(_is_number(line, column) for line in (*head, *foot)) for column in kept]
    rows = [_row(line, kept, widths, right, palette) for line in lines]
    rule = Row([("─" * min(width, sum(widths) + SPACE * (len(widths) - 1)), palette.hairline)])
    notes = [_note(note, width, palette) for note in table.notes]
    top, end = len(table.header), len(table.header) + len(head)
    between = [_note(f"… {left_out:,} lines left out …", width, palette)] if foot else []
    return [*rows[:top], *([rule] if top else []), *rows[top:end], *between, *rows[end:], *notes]


def _wanted(lines: Sequence[Sequence[TableCell]]) -> list[int]:
    """Return the natural width of each column."""
    wanted: list[int] = []
    for line in lines:
        wanted += [0] * (len(line) - len(wanted))
        for column, cell in enumerate(line):
            wanted[column] = max(wanted[column], cell_len(cell.text))
    return wanted


def _fitted(wanted: Sequence[int], width: int) -> tuple[list[int | None], list[int]]:
    """Choose the columns that are shown (None marks those left out), and their widths."""
    crowded = sum(wanted) + SPACE * len(wanted) > width
    widths = [max(1, min(cells, WIDEST) if crowded else cells) for cells in wanted]
    kept = _kept([min(cells, NARROWEST) for cells in widths], width)
    shown = [1 if column is None else widths[column] for column in kept]
    while sum(shown) + SPACE * (len(shown) - 1) > width and max(shown) > 1:
        shown[shown.index(max(shown))] -= 1
    return kept, shown


def _kept(least: Sequence[int], width: int) -> list[int | None]:
    """Keep all columns if they fit; otherwise as many as fit from both ends, at least the first and the last, with None between them."""
    if len(least) <= 3 or sum(least) + SPACE * (len(least) - 1) <= width:
        return list(range(len(least)))
    begin, end = 1, len(least) - 1
    room = width - least[0] - 1 - least[-1] - 2 * SPACE
    while begin < end:
        from_begin = begin <= len(least) - end
        room -= least[begin if from_begin else end - 1] + SPACE
        if room < 0:
            break
        begin, end = (begin + 1, end) if from_begin else (begin, end - 1)
    return [*range(begin), None, *range(end, len(least))]


def _is_number(line: Sequence[TableCell], column: int) -> bool:
    text = line[column].text if column < len(line) else ""
    return len(text) <= WIDEST and _NUMBER.fullmatch(text) is not None


def _note(text: str, width: int, palette: Palette) -> Row:
    return Row([(set_cell_size(text, min(width, cell_len(text))), palette.muted)])


def _row(line: Sequence[TableCell], kept: Sequence[int | None], widths: Sequence[int], right: Sequence[bool], palette: Palette) -> Row:
    def spans() -> Iterator[Span]:
        for number, (column, width) in enumerate(zip(kept, widths, strict=True)):
            if number:
                yield " " * SPACE, palette.text
            cell = _MARK if column is None else line[column] if column < len(line) else _EMPTY
            style = palette.muted if cell.heading or column is None else palette.text
            text = cell.text if cell_len(cell.text) <= width else set_cell_size(cell.text, width - 1) + "…"
            space = " " * (width - cell_len(text))
            yield (space + text if right[number] else text + space), style + BOLD if cell.heading else style

    return Row(list(spans()))
