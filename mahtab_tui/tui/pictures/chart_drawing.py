"""Draws matplotlib figures for a grid of cells: the data as blocks, the words as words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from textual.strip import Strip

from mahtab_tui.tui.pictures.canvas import Area, Canvas, write_centred
from mahtab_tui.tui.pictures.chart import Chart, Panel
from mahtab_tui.tui.pictures.chart_legend import write_legend
from mahtab_tui.tui.pictures.chart_panel import PanelDrawing
from mahtab_tui.tui.theme import BOLD, Palette

MIN_ROWS_WITH_TITLE = 7
_SLOT_TOLERANCE = 0.03
"""Fraction of the figure by which the edges of panels in one column may differ."""


class _Extent(NamedTuple):
    """Where a panel, or a column or row of panels, begins and ends, as fractions of the figure."""

    start: float
    end: float


def draw_chart(chart: Chart, columns: int, rows: int, palette: Palette) -> list[Strip]:
    """Draw a chart in the theme's colours. Call on a thread.

    Args:
        chart: What `read_chart` returned.
        columns: Cells in a row.
        rows: Rows of cells.
        palette: The theme's styles.

    Returns:
        A strip for each row.
    """
    canvas = Canvas(columns, rows, palette.surface)
    top = 0
    if chart.title and rows >= MIN_ROWS_WITH_TITLE:
        write_centred(canvas, Area(0, 0, columns, 1), 0, chart.title, palette.text + BOLD)
        top = 1
    below_title = Area(0, top, columns, rows)
    panels_area = write_legend(canvas, chart.legend, below_title, palette)
    for panel, area in _slots(chart, panels_area):
        PanelDrawing(canvas, chart, panel, area, palette).draw()
    return canvas.strips()


def _slots(chart: Chart, area: Area) -> Iterator[tuple[Panel, Area]]:
    """Divide the area between the panels, in the proportions of the figure."""
    width, height = chart.image.size
    extents_across = [_extent(panel.left / width, panel.right / width) for panel in chart.panels]
    extents_down = [_extent(panel.top / height, panel.bottom / height) for panel in chart.panels]
    column_edges = _boundaries(extents_across)
    row_edges = _boundaries(extents_down)
    for panel, across, down in zip(chart.panels, extents_across, extents_down, strict=True):
        column = _slot(column_edges, across)
        row = _slot(row_edges, down)
        # A column of cells separates neighbours; above the data of a panel stands its title.
        panel_area = Area(
            left=area.left + round(column.start * area.width) + (column.start > 0),
            top=area.top + round(row.start * area.height),
            right=area.left + round(column.end * area.width),
            bottom=area.top + round(row.end * area.height),
        )
        yield panel, panel_area


def _extent(start: float, end: float) -> _Extent:
    """Return the part of a panel's width or height that is inside the figure."""
    return _Extent(max(0.0, start), min(1.0, end))


def _boundaries(extents: list[_Extent]) -> list[float]:
    """Return where columns (or rows) of panels begin and end, midway between the panels."""
    starts: list[float] = []
    for start in sorted(extent.start for extent in extents):
        if not starts or start > starts[-1] + _SLOT_TOLERANCE:
            starts.append(start)

    inner_boundaries: list[float] = []
    for start in starts[1:]:
        earlier_ends = [extent.end for extent in extents if extent.start < start - _SLOT_TOLERANCE]
        ends = [end for end in earlier_ends if end <= start + _SLOT_TOLERANCE]
        if ends:  # else a panel that begins earlier is beside it
            inner_boundaries.append((max(ends) + start) / 2)
    return [0.0, *inner_boundaries, 1.0]


def _slot(boundaries: list[float], extent: _Extent) -> _Extent:
    """Return the boundaries around a panel, which may span several columns."""
    earlier = [edge for edge in boundaries[:-1] if edge <= extent.start + _SLOT_TOLERANCE]
    start = max(earlier)
    later = [edge for edge in boundaries if edge > start and edge >= extent.end - _SLOT_TOLERANCE]
    return _Extent(start, min(later))
