"""Rows of displayed values: pictures, tables, Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.html_table import read_table
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.cell_output.output import DisplayLine
from mahtab_tui.tui.cell_output.picture import picture_rows
from mahtab_tui.tui.rows.grid import grid_rows
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
            rows = None if table is None else grid_rows(table, width, palette)
        case "text/markdown":
            rows = _markdown_rows(plain(shown.data), width, palette)
        case _:
            rows = None
    return rows and [row._replace(bar=palette.hairline) for row in rows]


def _markdown_rows(text: str, width: int, palette: Palette) -> list[Row]:
    """Return the rows of Markdown, cut to `MARKDOWN` characters."""
    rows = Markdown(palette).document(text[:MARKDOWN], width)
    if (left_out := len(text) - MARKDOWN) > 0:
        rows.append(Row([(f"… {left_out:,} characters left out", palette.muted)]))
    return rows
