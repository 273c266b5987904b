"""A table of data as rows: one line a row, numbers to the right, columns left out in the middle where they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from mahtab_tui.tui.panes.transcript.layout.html_table import Cell, Table
from mahtab_tui.tui.panes.transcript.layout.row import Row, Span
from mahtab_tui.tui.panes.transcript.palette import BOLD, Palette

SPACE = 2
"""Cells between columns."""
WIDEST = 40
"""Cells of one column, where others would have to go for it."""
NARROWEST = 12
"""Cells that a column keeps, if it wants them."""

_NUMBER = re.compile(r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|")


def grid_rows(table: Table, width: int, palette: Palette) -> list[Row]:
    """The header, a rule, the lines, and the notes."""
    columns = max(len(line) for line in (*table.header, *table.body))
    lines = [_filled(line, columns) for line in (*table.header, *table.body)]
    wanted = [max(cell_len(line[column].text) for line in lines) for column in range(columns)]
    kept, widths = _fitted(wanted, width)
    right = [all(_NUMBER.fullmatch(line[column].text) for line in lines[len(table.header) :]) for column in range(columns)]
    rows = [_row(line, kept, widths, right, palette) for line in lines]
    rule = Row([("─" * min(width, sum(widths) + SPACE * (len(widths) - 1)), palette.hairline)])
    notes = [Row([(set_cell_size(note, min(width, cell_len(note))), palette.muted)]) for note in table.notes]
    return [*rows[: len(table.header)], *([rule] if table.header else []), *rows[len(table.header) :], *notes]


def _filled(line: Sequence[Cell], columns: int) -> list[Cell]:
    return [*line, *(Cell("", False) for _ in range(columns - len(line)))]


def _fitted(wanted: Sequence[int], width: int) -> tuple[list[int | None], list[int]]:
    """Which columns are shown (None: a mark for those left out), and their widths."""
    widths = [min(cells, WIDEST) if sum(wanted) + SPACE * len(wanted) > width else cells for cells in wanted]
    least = [min(cells, NARROWEST) for cells in widths]
    kept: list[int | None] = list(range(len(wanted)))
    while len(kept) > 3 and sum(1 if column is None else least[column] for column in kept) + SPACE * (len(kept) - 1) > width:
        middle = len(kept) // 2
        if None not in kept:
            kept[middle] = None
        else:
            mark = kept.index(None)
            del kept[mark - 1 if mark > len(kept) - mark - 1 else mark + 1]
    shown = [1 if column is None else max(1, widths[column]) for column in kept]
    while sum(shown) + SPACE * (len(shown) - 1) > width and max(shown) > 1:
        shown[shown.index(max(shown))] -= 1
    return kept, shown


def _row(line: Sequence[Cell], kept: Sequence[int | None], widths: Sequence[int], right: Sequence[bool], palette: Palette) -> Row:
    def spans() -> Iterator[Span]:
        for number, (column, width) in enumerate(zip(kept, widths, strict=True)):
            if number:
                yield " " * SPACE, palette.text
            cell = Cell("…", False) if column is None else line[column]
            style = palette.muted if cell.heading or column is None else palette.text
            text = cell.text if cell_len(cell.text) <= width else set_cell_size(cell.text, width - 1) + "…"
            space = " " * (width - cell_len(text))
            yield (space + text if column is not None and right[column] else text + space), style + BOLD if cell.heading else style

    return Row(list(spans()))
