"""Draws a table: its header, its rows, and the status line below them."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import TableArrangement
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import fitted
from mahtab_tui.tui.screens.inspector.table_columns import BETWEEN, TableColumns, bars
from mahtab_tui.tui.screens.inspector.table_model import ROWS, Block, TableModel

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
        place = row % ROWS
        ground = base + self.palette.panel if here else base
        segments = self._label(one_line(label_of(block, place)), ground)
        for column in self.seen:
            cells = block.cells.get(column) if block is not None else None
            text, style = "", Style()
            if cells is None or place >= len(cells):
                text, style = "·", self.palette.hairline
            elif (found := cells[place]) is None:
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
            place = line - 2 - (line > 3)
            return one_line(figures.top[place]) if place < len(figures.top) else "", palette.muted
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


def label_of(block: Block | None, place: int) -> str:
    """The name of a row, or its number; empty if it was not fetched."""
    if block is None or place >= len(block.positions):
        return ""
    return block.labels[place] if block.labels is not None else str(block.positions[place])


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
