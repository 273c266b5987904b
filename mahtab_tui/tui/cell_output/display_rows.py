"""Rows of displayed values: pictures, tables, Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from mahtab_tui.bus.html_table import HtmlTable, read_table
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.cell_output.output import VALUE, DisplayLine
from mahtab_tui.tui.cell_output.picture import picture_rows
from mahtab_tui.tui.rows.grid import grid_rows, last_offset
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row

MARKDOWN = 20_000
"""Characters of Markdown that are drawn: more would block the screen."""


def display_rows(shown: DisplayLine, width: int, palette: Palette) -> Sequence[Row] | None:
    """Return the rows of a displayed value; None if it cannot be drawn."""
    rows: Sequence[Row] | None
    match shown.mime:
        case "image/png" | "image/jpeg":
            rows = picture_rows(shown, width)
        case "text/html":
            table = read_table(shown.data)
            rows = None if table is None else _table_rows(table, shown, width, palette)
        case "text/markdown":
            rows = _markdown_rows(plain(shown.data), width, palette)
        case _:
            rows = None
    return rows and [row._replace(bar=palette.hairline) for row in rows]


def scroll_table(shown: DisplayLine, step: int, width: int) -> bool:
    """Scroll a wide table by columns; return whether it could be scrolled."""
    table = read_table(shown.data) if shown.mime == "text/html" else None
    if table is None:
        return False
    before = shown.offset
    shown.offset = max(0, min(before + step, last_offset(table, width)))
    return shown.offset != before


def _table_rows(table: HtmlTable, shown: DisplayLine, width: int, palette: Palette) -> list[Row]:
    """Return the rows of a table. A click on one opens the value that it shows, if it is known."""
    rows = grid_rows(table, width, palette, shown.offset)
    if not shown.value:
        return rows
    opens = Style(meta={VALUE: shown.value})
    return [
        row._replace(spans=[(text, style + opens) for text, style in row.spans]) for row in rows
    ]


def _markdown_rows(text: str, width: int, palette: Palette) -> list[Row]:
    """Return the rows of Markdown, cut to `MARKDOWN` characters."""
    rows = Markdown(palette).document(text[:MARKDOWN], width)
    if (left_out := len(text) - MARKDOWN) > 0:
        rows.append(Row([(f"… {left_out:,} characters left out", palette.muted)]))
    return rows
