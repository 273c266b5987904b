"""Draws the legend of a chart or of one of its panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.color import Color, ColorParseError
from rich.style import Style

from mahtab_tui.tui.pictures.canvas import Area, Canvas, cut_text
from mahtab_tui.tui.pictures.chart import Legend, LegendEntry
from mahtab_tui.tui.theme import Palette

MAX_LEGEND_LINES = 2
"""Lines of a legend above its panel; a longer one stands beside it."""
MAX_LEGEND_SHARE = 3
"""A legend beside a panel takes at most one part in this many of its width."""
_KEY = "━━ "
"""Stands in its colour before the label of a legend's entry."""
_BETWEEN_ENTRIES = "   "


def write_legend(canvas: Canvas, legend: Legend, area: Area, palette: Palette) -> Area:
    """Write a legend into an area: in lines at its top, or as a column at its right.

    Return the rest of the area.
    """
    entries = legend.entries
    if not entries:
        return area
    lines = _legend_lines(entries, area.width)
    column_width = max(map(_entry_width, entries))
    is_narrow = column_width <= area.width // MAX_LEGEND_SHARE
    fits_right = is_narrow and len(entries) <= area.height
    if fits_right and (legend.stands_right or len(lines) > MAX_LEGEND_LINES):
        return _write_column(canvas, entries, column_width, area, palette)
    return _write_lines(canvas, lines, area, palette)


def _write_column(
    canvas: Canvas, entries: Sequence[LegendEntry], width: int, area: Area, palette: Palette
) -> Area:
    """Write an entry a row at the right of an area; return the rest of the area."""
    left = area.right - width
    for y, entry in enumerate(entries, area.top):
        _write_entry(canvas, left + len(_BETWEEN_ENTRIES), y, entry, area.right, palette)
    return replace(area, right=left)


def _write_lines(
    canvas: Canvas, lines: list[list[LegendEntry]], area: Area, palette: Palette
) -> Area:
    """Write the first lines at the top of an area; return the rest of the area."""
    visible_lines = lines[:MAX_LEGEND_LINES]
    entry_count = sum(map(len, lines))
    visible_count = sum(map(len, visible_lines))
    if visible_count < entry_count:
        # The last entry that would fit says how many there are besides.
        rest = LegendEntry(f"… {entry_count - visible_count + 1:,} more", "")
        visible_lines[-1][-1] = rest

    for y, line in enumerate(visible_lines, area.top):
        line_width = sum(map(_entry_width, line))
        x = area.left + max(0, (area.width - line_width) // 2)
        for entry in line:
            _write_entry(canvas, x, y, entry, area.right, palette)
            x += _entry_width(entry)
    return replace(area, top=area.top + len(visible_lines))


def _legend_lines(entries: Sequence[LegendEntry], max_width: int) -> list[list[LegendEntry]]:
    """Return the entries of each line, as many as fit."""
    lines: list[list[LegendEntry]] = []
    line_width = 0
    for entry in entries:
        width = _entry_width(entry)
        if not lines or line_width + width > max_width:
            lines.append([])
            line_width = 0
        lines[-1].append(entry)
        line_width += width
    return lines


def _write_entry(
    canvas: Canvas, x: int, y: int, entry: LegendEntry, end: int, palette: Palette
) -> None:
    """Write a legend's entry from a column on.

    Args:
        end: The column before which it ends.
    """
    if not entry.colour:
        canvas.write(x, y, cut_text(entry.label, end - x), palette.muted)
        return
    label_start = x + len(_KEY)
    canvas.write(x, y, _KEY, _key_style(entry.colour))
    canvas.write(label_start, y, cut_text(entry.label, end - label_start), palette.text)


def _entry_width(entry: LegendEntry) -> int:
    """Return how many cells an entry needs, with the distance to the next one."""
    key = _KEY if entry.colour else ""
    return cell_len(key + entry.label + _BETWEEN_ENTRIES)


def _key_style(colour: str) -> Style:
    """Return the colour of an entry's series; none if the description names no colour."""
    try:
        return Style(color=Color.parse(colour))
    except (ColorParseError, ValueError):  # the description comes from the kernel
        return Style.null()
