"""Draws Markdown tables: columns as wide as needed, cells wrapped if there is no room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len

from mahtab_tui.tui.rows.inline import inline_spans
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, word_cuts

SPACE = 2
"""Cells between columns."""
NARROWEST_COLUMN = 6
"""A column is not made narrower than this."""


def table_rows(
    table: SyntaxTreeNode, width: int, palette: Palette, mark: Callable[[list[Span]], list[Span]]
) -> list[Row]:
    """Return the rows of the header, a rule, and the lines. mark: changes the styles of a cell's
    spans."""
    lines = [node for part in table.children for node in part.children]
    cells = [[mark(_cell(cell, palette)) for cell in line.children] for line in lines]
    right = ["right" in str(cell.attrs.get("style", "")) for cell in lines[0].children]
    wanted = [
        max(_width(line[column]) for line in cells if column < len(line))
        for column in range(len(right))
    ]
    widths = fitted(wanted, width - SPACE * (len(wanted) - 1))
    header, *body = (list(_line(line, widths, right, palette)) for line in cells)
    rule = Row([("─" * (sum(widths) + SPACE * (len(widths) - 1)), palette.hairline)])
    return [*header, rule, *(row for line in body for row in line)]


def fitted(wanted: Sequence[int], width: int) -> list[int]:
    """Return column widths that fit in a width: the widest columns shrink, down to `NARROWEST`."""
    widths = [min(max(1, cells), max(width, NARROWEST_COLUMN)) for cells in wanted]
    while sum(widths) > width and max(widths) > NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cell(cell: SyntaxTreeNode, palette: Palette) -> list[Span]:
    style = palette.text + BOLD if cell.type == "th" else palette.text
    return [(text.replace("\n", " "), drawn) for text, drawn in inline_spans(cell, style, palette)]


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _line(
    cells: Sequence[Sequence[Span]], widths: Sequence[int], right: Sequence[bool], palette: Palette
) -> Iterator[Row]:
    """Yield the rows of one line of the table, as many as its highest cell has."""
    columns = [
        [
            _trimmed(row)
            for row in cut_spans(spans, word_cuts("".join(text for text, _ in spans), width))
        ]
        for spans, width in zip(cells, widths, strict=False)
    ]
    for number in range(max(map(len, columns), default=0)):
        line: list[Span] = []
        for column, width, to_right in zip(columns, widths, right, strict=False):
            spans = column[number] if number < len(column) else []
            space = (" " * max(0, width - _width(spans)), palette.text)
            line += [space, *spans] if to_right else [*spans, space]
            line.append((" " * SPACE, palette.text))
        yield Row(line[:-1])


def _trimmed(spans: list[Span]) -> list[Span]:
    """Remove the spaces at which the row was wrapped."""
    if not spans:
        return spans
    text, style = spans[-1]
    return [*spans[:-1], (text.rstrip(" "), style)]
