"""Draws entries that the model is not told."""

from __future__ import annotations

from dataclasses import replace

from rich.style import Style

from mahtab_tui.tui.panes.transcript.entries import Entry, Note
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row

_DIM = Style(dim=True)
_LABELS = {"hidden": "hidden from the model", "replaced": "replaced", "undone": "undone"}


def left_out_row(row: Row, entry: Entry, palette: Palette, *, first: bool) -> Row:
    """Dim a row; label the first one with the reason."""
    spans = [(text, style + _DIM) for text, style in row.spans]
    right = [(text, style + _DIM) for text, style in row.right]
    if first and not isinstance(entry, Note):
        right = [(_LABELS[entry.left_out or "undone"], palette.muted), *([("  ", palette.muted)] if right else []), *right]
    picture = row.picture and (replace(row.picture[0], faded=_colour(palette)), row.picture[1])
    return row._replace(spans=spans, bar=row.bar + _DIM if row.bar else None, right=right, picture=picture)


def _colour(palette: Palette) -> tuple[int, int, int]:
    """Return the colour behind a picture."""
    ground = palette.surface.bgcolor
    return ground.get_truecolor(foreground=False) if ground else (0, 0, 0)
