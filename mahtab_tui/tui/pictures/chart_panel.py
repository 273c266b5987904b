"""Draws one panel of a chart: its data, axes, labels and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color

from mahtab_tui.tui.pictures.blocks import Rgb, fit_blocks, one_colour_cell
from mahtab_tui.tui.pictures.canvas import Area, Canvas, cut_text, write_centred
from mahtab_tui.tui.pictures.chart import AxisTick, Chart, Panel
from mahtab_tui.tui.pictures.chart_legend import write_legend
from mahtab_tui.tui.theme import BOLD, Palette

MIN_PANEL_CELLS = 4
MIN_PANEL_ROWS = 2
MAX_LABEL_CELLS = 14
"""Width of the labels beside an axis."""
MIN_LABEL_CELLS = 4
"""Labels below an axis are not cut to less."""
COLOUR_SCALE_CELLS = 3
"""Width of the colours of a colour scale."""
DEFAULT_GROUND: Rgb = (18, 22, 42)
"""Used if the theme has no colour for the ground."""
_ALPHA_CURVE = [0 if alpha < 48 else min(255, alpha * 2) for alpha in range(256)]
"""New alphas of pixels by their alpha; they make thin lines bright and their edges sharp."""


class _SideWidths(NamedTuple):
    """What the vertical axes need beside the data, with their labels; in cells."""

    left: int
    right: int


class PanelDrawing:
    """Draws a panel into its area of the canvas."""

    def __init__(
        self, canvas: Canvas, chart: Chart, panel: Panel, area: Area, palette: Palette
    ) -> None:
        self._canvas = canvas
        self._chart = chart
        self._panel = panel
        self._area = area
        self._palette = palette

    def draw(self) -> None:
        """Draw all of the panel: what stands around the data first, since it decides where that is."""
        if not _has_space(self._area):
            return
        self._area = self._needed_area()
        data_top = self._area.top + self._write_head()
        below_head = replace(self._area, top=data_top)
        below_legend = write_legend(self._canvas, self._panel.legend, below_head, self._palette)
        self._area = replace(self._area, right=below_legend.right)
        plot = self._plot_area(below_legend.top)
        if plot is None:
            return

        self._draw_data(plot)
        self._draw_grid(plot)
        self._write_notes(plot)
        if self._panel.has_axes:
            self._draw_axes(plot)

    def _plot_area(self, top: int) -> Area | None:
        """Return where the data is drawn, from a row on; None if nothing is left for it."""
        widths = self._side_widths()
        plot = Area(
            self._area.left + widths.left,
            top,
            self._area.right - widths.right,
            self._area.bottom - self._foot_lines(),
        )
        if not _has_space(plot):
            return None
        if self._panel.is_colour_scale:
            return replace(plot, right=min(plot.right, plot.left + COLOUR_SCALE_CELLS))
        if self._panel.keeps_aspect:
            return self._with_aspect(plot)
        return plot

    def _needed_area(self) -> Area:
        """Return the part of the area that a colour scale, or a panel with fixed proportions, fills:
        the scale at the left, a panel beside its scale or else in the middle."""
        panel = self._panel
        area = self._area
        if panel.is_colour_scale:
            data_width = COLOUR_SCALE_CELLS
        elif panel.keeps_aspect:
            head_lines = bool(panel.title or panel.y_label or panel.y2_label)
            data_lines = area.height - head_lines - self._foot_lines()
            data_width = round(data_lines * self._aspect())
        else:
            return area

        widths = self._side_widths()
        needed_width = max(
            widths.left + data_width + widths.right,
            cell_len(panel.title),
            cell_len(panel.x_label),
            cell_len(panel.y_label) + cell_len(panel.y2_label),
        )
        unused_width = max(0, area.width - needed_width)
        if panel.is_colour_scale:
            left = area.left
        elif self._has_colour_scale():
            left = area.left + unused_width
        else:
            left = area.left + unused_width // 2
        return replace(area, left=left, right=left + area.width - unused_width)

    def _has_colour_scale(self) -> bool:
        """Return whether the nearest panel on the right is a colour scale."""
        panel = self._panel
        panels_beside = [
            other
            for other in self._chart.panels
            if other.left >= panel.right and other.top < panel.bottom and other.bottom > panel.top
        ]
        nearest = min(panels_beside, key=lambda other: other.left, default=None)
        return nearest is not None and nearest.is_colour_scale

    def _aspect(self) -> float:
        """Return the panel's width in cells for each row; a cell is twice as high as wide."""
        panel = self._panel
        return 2 * (panel.right - panel.left) / (panel.bottom - panel.top)

    def _foot_lines(self) -> int:
        """Return the lines of the horizontal axis with its label."""
        panel = self._panel
        has_x_axis = panel.has_axes and bool(panel.x)
        return 2 * has_x_axis + bool(panel.x_label)

    def _write_head(self) -> int:
        """Write the title and the labels of the vertical axes; return their lines."""
        panel = self._panel
        area = self._area
        y = area.top
        if panel.title:
            write_centred(self._canvas, area, y, panel.title, self._palette.text + BOLD)

        has_labels = bool(panel.y_label or panel.y2_label)
        if has_labels:
            # The labels stand beside the title if it leaves enough space.
            widest = max(cell_len(panel.y_label), cell_len(panel.y2_label))
            free_width = (area.width - cell_len(panel.title)) // 2
            if panel.title and widest + 1 > free_width:
                y += 1
            self._write_axis_labels(y)

        if panel.title or has_labels:
            y += 1
        return y - area.top

    def _write_axis_labels(self, y: int) -> None:
        """Write the labels of the vertical axes, each above its axis."""
        area = self._area
        muted = self._palette.muted
        y_label = cut_text(self._panel.y_label, area.width)
        self._canvas.write(area.left, y, y_label, muted)
        y2_label = cut_text(self._panel.y2_label, area.width)
        self._canvas.write(area.right - cell_len(y2_label), y, y2_label, muted)

    def _side_widths(self) -> _SideWidths:
        if not self._panel.has_axes:
            return _SideWidths(0, 0)
        left_width = self._labels_width(self._panel.y)
        if not self._panel.is_colour_scale:
            left_width = max(1, left_width)  # for the axis itself
        return _SideWidths(left_width, self._labels_width(self._panel.y2))

    def _labels_width(self, ticks: Sequence[AxisTick]) -> int:
        """Return the width of labels with the axis beside them; 0 without labels."""
        if not ticks:
            return 0
        max_width = min(MAX_LABEL_CELLS, self._area.width // 3)
        longest = max(cell_len(tick.label) for tick in ticks)
        return min(longest, max_width) + 1

    def _with_aspect(self, plot: Area) -> Area:
        """Return the part of the area that has the panel's proportions."""
        aspect = self._aspect()
        width = min(plot.width, round(plot.height * aspect))
        height = min(plot.height, max(2, round(width / aspect)))
        return Area(plot.left, plot.top, plot.left + max(2, width), plot.top + height)

    def _draw_data(self, plot: Area) -> None:
        """Draw the data as blocks on the ground of the canvas."""
        from PIL import Image as images

        # A cell shows two pixels beside each other, and two below them.
        size = (2 * plot.width, 2 * plot.height)
        ground_rgb = _to_rgb(self._canvas.ground.bgcolor)
        box = self._box_in_picture()
        pixels = self._chart.image.resize(size, images.Resampling.BOX, box)
        pixels.putalpha(pixels.getchannel("A").point(_ALPHA_CURVE))
        ground = images.new("RGBA", size, ground_rgb)
        colours = images.alpha_composite(ground, pixels).convert("RGB").tobytes()

        # Cells without data become spaces, in which the grid can be drawn.
        empty_cell = one_colour_cell(Color.from_rgb(*ground_rgb))
        space = (" ", self._canvas.ground)
        for y, row in enumerate(fit_blocks(colours, plot.width, plot.height), plot.top):
            cells = [space if cell == empty_cell else cell for cell in row]
            self._canvas.cells[y][plot.left : plot.right] = cells

    def _box_in_picture(self) -> tuple[float, float, float, float]:
        """Return the edges of the part of the panel that is inside the picture, in pixels."""
        panel = self._panel
        width, height = self._chart.image.size
        return (
            max(0.0, panel.left),
            max(0.0, panel.top),
            min(float(width), panel.right),
            min(float(height), panel.bottom),
        )

    def _draw_grid(self, plot: Area) -> None:
        """Draw lines of dots at the ticks, behind the data."""
        panel = self._panel
        if panel.grid_across:
            for tick in panel.x:
                x = _column(tick, plot)
                self._write_dots([(x, y) for y in range(plot.top, plot.bottom)])
        if panel.grid_down:
            for tick in panel.y or panel.y2:
                y = _line(tick, plot)
                self._write_dots([(x, y) for x in range(plot.left, plot.right, 2)])

    def _write_dots(self, positions: list[tuple[int, int]]) -> None:
        """Write dots where there is no data."""
        for x, y in positions:
            if self._canvas.cells[y][x] == (" ", self._canvas.ground):
                self._canvas.write(x, y, "·", self._palette.muted)

    def _write_notes(self, plot: Area) -> None:
        """Write the texts of the figure where they are in it."""
        for note in self._panel.notes:
            x = plot.left + round(note.across * plot.width)
            if note.alignment == "right":
                x -= cell_len(note.text)
            elif note.alignment == "center":
                x -= cell_len(note.text) // 2
            y = plot.top + min(plot.height - 1, int(note.down * plot.height))
            if self._area.top <= y and self._area.left <= x:
                text = cut_text(note.text, self._area.right - x)
                self._canvas.write(x, y, text, self._palette.text + BOLD)

    def _draw_axes(self, plot: Area) -> None:
        """Draw the axes with their labels around the data."""
        muted = self._palette.muted
        panel = self._panel
        has_left_axis = not panel.is_colour_scale
        if has_left_axis and plot.left > self._area.left:
            for y in range(plot.top, plot.bottom):
                self._canvas.write(plot.left - 1, y, "│", muted)
        self._write_left_labels(plot)
        self._write_right_labels(plot)

        if panel.x:
            corner = "└" if has_left_axis else "─"
            self._canvas.write(plot.left - 1, plot.bottom, corner + "─" * plot.width, muted)
            self._write_bottom_labels(plot)
        if panel.x_label:
            below_axis = plot.bottom + (2 if panel.x else 0)
            y = min(self._canvas.rows - 1, below_axis)
            write_centred(self._canvas, plot, y, panel.x_label, muted)

    def _write_left_labels(self, plot: Area) -> None:
        axis_x = plot.left - 1
        for y, tick in _one_tick_a_line(self._panel.y, plot).items():
            label = cut_text(tick.label, axis_x - self._area.left)
            self._canvas.write(axis_x, y, "┤", self._palette.muted)
            self._canvas.write(axis_x - cell_len(label), y, label, self._palette.muted)

    def _write_right_labels(self, plot: Area) -> None:
        start = plot.right + 1
        for y, tick in _one_tick_a_line(self._panel.y2, plot).items():
            label = cut_text(tick.label, self._area.right - start)
            self._canvas.write(start, y, label, self._palette.muted)

    def _write_bottom_labels(self, plot: Area) -> None:
        """Write the labels that do not overlap the one before them."""
        ticks = sorted(self._panel.x, key=lambda tick: tick.position)
        tick_columns = [_column(tick, plot) for tick in ticks]
        distances = [after - before for before, after in pairwise(tick_columns)]
        max_width = max(MIN_LABEL_CELLS, min(distances, default=plot.width) - 1)
        free_from = self._area.left
        for tick, x in zip(ticks, tick_columns, strict=True):
            label = tick.label
            # A number that is cut would be another number.
            if not _is_number(label):
                label = cut_text(label, max_width)
            start = max(self._area.left, x - cell_len(label) // 2)
            start = min(start, self._area.right - cell_len(label))
            if start < free_from:
                continue
            self._canvas.write(x, plot.bottom, "┴", self._palette.muted)
            self._canvas.write(start, plot.bottom + 1, label, self._palette.muted)
            free_from = start + cell_len(label) + 1


def _has_space(area: Area) -> bool:
    return area.width >= MIN_PANEL_CELLS and area.height >= MIN_PANEL_ROWS


def _one_tick_a_line(ticks: Sequence[AxisTick], plot: Area) -> dict[int, AxisTick]:
    """Return the first tick of each line."""
    tick_by_line: dict[int, AxisTick] = {}
    for tick in ticks:
        tick_by_line.setdefault(_line(tick, plot), tick)
    return tick_by_line


def _column(tick: AxisTick, plot: Area) -> int:
    """Return the column of a tick of the horizontal axis."""
    return plot.left + min(plot.width - 1, int(tick.position * plot.width))


def _line(tick: AxisTick, plot: Area) -> int:
    """Return the line of a tick of a vertical axis."""
    return plot.top + min(plot.height - 1, int(tick.position * plot.height))


def _is_number(text: str) -> bool:
    return any(character.isdigit() for character in text) and not text[:1].isalpha()


def _to_rgb(colour: Color | None) -> Rgb:
    if colour is None:
        return DEFAULT_GROUND
    red, green, blue = colour.get_truecolor()
    return red, green, blue
