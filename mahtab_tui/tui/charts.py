"""Draws matplotlib figures for a grid of cells: the data as blocks, the words as words."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.color import Color, ColorParseError
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.blocks import Rgb, fit_blocks, merge_cells, one_colour_cell
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.worker.values.charts import (
    MAX_LEGEND_ENTRIES,
    MAX_NOTES,
    MAX_PANELS,
    MAX_TICKS,
    MAX_WORD_CHARS,
    METADATA_KEY,
)

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE_PIXELS = 4_000
MAX_NOTE_DISTANCE = 10
"""Widths or heights of its panel up to which a note may be away from it."""
MIN_ROWS_WITH_TITLE = 7
MIN_PANEL_CELLS = 4
MIN_PANEL_ROWS = 2
MAX_LABEL_CELLS = 14
"""Width of the labels beside an axis."""
MAX_LEGEND_LINES = 2
"""Lines of a legend above its panel; a longer one stands beside it."""
MAX_LEGEND_SHARE = 3
"""A legend beside a panel takes at most one part in this many of its width."""
COLOUR_SCALE_CELLS = 3
DEFAULT_GROUND: Rgb = (18, 22, 42)
"""Used if the theme has no colour for the ground."""
_SLOT_TOLERANCE = 0.03
"""Fraction of the figure by which the edges of panels in one column may differ."""
_ALPHA_CURVE = [0 if alpha < 48 else min(255, alpha * 2) for alpha in range(256)]
"""By the alpha of a pixel; makes thin lines bright and their edges sharp."""
_KEY = "━━ "
"""Stands in its colour before the label of a legend's entry."""
_BETWEEN_ENTRIES = "   "


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    place: float
    """From 0 to 1, from the left or from the top."""
    label: str


@dataclass(frozen=True)
class LegendEntry:
    """One series of a legend."""

    label: str
    colour: str
    """As `#rrggbb`, unless the description is foreign; empty for a heading."""


@dataclass(frozen=True)
class Legend:
    """What the colours of a panel, or of all panels, mean."""

    entries: tuple[LegendEntry, ...] = ()
    stands_right: bool = False
    """Whether it stands on the right of what it explains, rather than above."""


@dataclass(frozen=True)
class ChartNote:
    """A text inside or near a panel."""

    across: float
    down: float
    """Where it is, in widths and heights of the panel, from the left and from the top."""
    text: str
    alignment: str
    """`left`, `center` or `right`: which part of the text is there."""


@dataclass(frozen=True)
class Panel:
    """One or several axes at the same place."""

    left: float
    top: float
    right: float
    bottom: float
    """The edges in pixels of the chart's picture."""
    keeps_aspect: bool
    has_axes: bool
    title: str
    x_label: str
    y_label: str
    y2_label: str
    """The label of the vertical axis on the right."""
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    y2: tuple[Tick, ...]
    legend: Legend
    notes: tuple[ChartNote, ...]
    grid_across: bool
    """Whether lines stand at the ticks of the horizontal axis."""
    grid_down: bool

    @property
    def is_colour_scale(self) -> bool:
        return self.has_axes and bool(self.y2) and not self.y and not self.x


@dataclass(frozen=True)
class Chart:
    """A figure of matplotlib, as it is drawn in cells."""

    image: Image
    """The data without any word, on a transparent ground."""
    title: str
    legend: Legend
    """The legend of the whole figure."""
    panels: tuple[Panel, ...]


def read_chart(image: Image) -> Chart | None:
    """Read the description in a picture's metadata, which may come from anyone.

    Waits for Pillow: call on a thread.

    Returns:
        The chart; None if there is no description, or if it is not valid.
    """
    text = image.info.get(METADATA_KEY)
    if not isinstance(text, str):
        return None
    try:
        return _to_chart(json.loads(text))
    except Exception:  # of a foreign description, or of Pillow for a damaged picture
        return None


def has_chart(image: Image) -> bool:
    """Return whether a picture has a description, which may be invalid."""
    return METADATA_KEY in image.info


def _to_chart(source: dict[str, Any]) -> Chart | None:
    from PIL import Image as images

    image = images.open(io.BytesIO(base64.b64decode(source["png"])), formats=("PNG",))
    if max(image.size) > MAX_SIDE_PIXELS:
        return None
    # Axes that share a panel have it once each.
    unique_panels = {json.dumps(panel["box"]): panel for panel in source["panels"]}
    panels = tuple(_to_panel(panel) for panel in list(unique_panels.values())[:MAX_PANELS])
    visible_panels = tuple(panel for panel in panels if _is_in_picture(panel, *image.size))
    if not visible_panels:
        return None
    title = _word(source["title"])
    return Chart(image.convert("RGBA"), title, _to_legend(source), visible_panels)


def _is_in_picture(panel: Panel, width: int, height: int) -> bool:
    is_beside = panel.right <= 0 or panel.left >= width
    is_above_or_below = panel.bottom <= 0 or panel.top >= height
    return not is_beside and not is_above_or_below


def _word(text: object) -> str:
    return one_line(str(text)[:MAX_WORD_CHARS])


def _to_panel(source: dict[str, Any]) -> Panel:
    left, top, right, bottom = map(float, source["box"])
    for start, end in ((left, right), (top, bottom)):
        if not -MAX_SIDE_PIXELS < start < end < 2 * MAX_SIDE_PIXELS:
            raise ValueError("a panel without a size")

    notes = [_to_note(*values) for values in source["notes"][:MAX_NOTES]]
    return Panel(
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        keeps_aspect=bool(source["keeps_aspect"]),
        has_axes=bool(source["has_axes"]),
        title=_word(source["title"]),
        x_label=_word(source["x_label"]),
        y_label=_word(source["y_label"]),
        y2_label=_word(source["y2_label"]),
        x=_to_ticks(source["x"]),
        y=_to_ticks(source["y"]),
        y2=_to_ticks(source["y2"]),
        legend=_to_legend(source),
        notes=tuple(note for note in notes if note is not None),
        grid_across=bool(source["grid"][0]),
        grid_down=bool(source["grid"][1]),
    )


def _to_legend(source: dict[str, Any]) -> Legend:
    """Read the legend of a chart or a panel. Earlier versions wrote none for charts."""
    pairs = source.get("legend", ())[:MAX_LEGEND_ENTRIES]
    entries = tuple(LegendEntry(_word(label), str(colour)) for label, colour in pairs)
    return Legend(entries, source.get("legend_side") == "right")


def _to_ticks(pairs: list[Any]) -> tuple[Tick, ...]:
    return tuple(
        Tick(float(place), _word(label)) for place, label in pairs[:MAX_TICKS] if 0 <= place <= 1
    )


def _to_note(across: Any, down: Any, text: Any, alignment: Any) -> ChartNote | None:
    """Return a note; None if it is far from its panel, or nowhere."""
    is_near = abs(across) <= MAX_NOTE_DISTANCE and abs(down) <= MAX_NOTE_DISTANCE
    if not is_near:
        return None
    return ChartNote(float(across), float(down), _word(text), str(alignment))


@dataclass
class _Canvas:
    """A grid of cells, each with a character and its style. The cell after a character of two
    columns has an empty text."""

    columns: int
    rows: int
    ground: Style
    cells: list[list[tuple[str, Style]]] = field(init=False)

    def __post_init__(self) -> None:
        self.cells = [[(" ", self.ground)] * self.columns for _ in range(self.rows)]

    def write(self, x: int, y: int, text: str, style: Style) -> None:
        """Write a text of one line, as far as it is on the canvas, on the ground that is there."""
        if not 0 <= y < self.rows:
            return
        row = self.cells[y]
        for character in text:
            width = cell_len(character)
            if width and 0 <= x <= self.columns - width:
                for column in range(x, x + width):
                    _remove_character(row, column)
                ground = row[x][1].bgcolor
                row[x] = (character, style + Style(bgcolor=ground))
                if width == 2:
                    row[x + 1] = ("", row[x][1])
            x += width

    def strips(self) -> list[Strip]:
        return [Strip(merge_cells(row), self.columns) for row in self.cells]


def _remove_character(row: list[tuple[str, Style]], column: int) -> None:
    """Leave blanks in both cells of a character of two columns."""
    first = column - 1 if not row[column][0] else column
    if first + 1 < len(row) and not row[first + 1][0]:
        row[first] = (" ", row[first][1])
        row[first + 1] = (" ", row[first + 1][1])


@dataclass(frozen=True)
class _Area:
    """A rectangle of cells; the right and bottom edges are outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top


class _Extent(NamedTuple):
    """Where a panel begins and ends, as fractions of the figure."""

    start: float
    end: float


def draw_chart(chart: Chart, columns: int, rows: int, palette: Palette) -> list[Strip]:
    """Draw a chart in the theme's colours. Call on a thread.

    Args:
        chart: From `read_chart`.
        columns: Cells in a row.
        rows: Rows of cells.
        palette: The theme's styles.

    Returns:
        A strip for each row.
    """
    canvas = _Canvas(columns, rows, palette.surface)
    top = 0
    if chart.title and rows >= MIN_ROWS_WITH_TITLE:
        _write_centred(canvas, _Area(0, 0, columns, 1), 0, chart.title, palette.text + BOLD)
        top = 1
    all_panels = _write_legend(canvas, chart.legend, _Area(0, top, columns, rows), palette)
    for panel, area in _slots(chart, all_panels):
        _PanelDrawing(canvas, chart, panel, area, palette).draw()
    return canvas.strips()


def _write_centred(canvas: _Canvas, area: _Area, y: int, text: str, style: Style) -> None:
    text = _cut(text, area.width)
    canvas.write(area.left + (area.width - cell_len(text)) // 2, y, text, style)


def _cut(text: str, width: int) -> str:
    """Return a text that is at most so many cells wide."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1) + "…"


def _write_legend(canvas: _Canvas, legend: Legend, area: _Area, palette: Palette) -> _Area:
    """Write a legend into an area: in lines at its top, or as a column at its right. Return the rest
    of the area."""
    entries = legend.entries
    if not entries:
        return area
    lines = _legend_lines(entries, area.width)
    width = max(map(_entry_width, entries))
    fits_right = width <= area.width // MAX_LEGEND_SHARE and len(entries) <= area.height
    if fits_right and (legend.stands_right or len(lines) > MAX_LEGEND_LINES):
        left = area.right - width
        for y, entry in enumerate(entries, area.top):
            _write_entry(canvas, left + len(_BETWEEN_ENTRIES), y, entry, area.right, palette)
        return replace(area, right=left)

    visible_count = sum(map(len, lines[:MAX_LEGEND_LINES]))
    if visible_count < len(entries):
        # The last entry that would fit says how many there are besides.
        rest = LegendEntry(f"… {len(entries) - visible_count + 1:,} more", "")
        lines[MAX_LEGEND_LINES - 1][-1] = rest
    for y, line in enumerate(lines[:MAX_LEGEND_LINES], area.top):
        x = area.left + max(0, (area.width - sum(map(_entry_width, line))) // 2)
        for entry in line:
            _write_entry(canvas, x, y, entry, area.right, palette)
            x += _entry_width(entry)
    return replace(area, top=area.top + min(len(lines), MAX_LEGEND_LINES))


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
    canvas: _Canvas, x: int, y: int, entry: LegendEntry, end: int, palette: Palette
) -> None:
    """Write a legend's entry from a column on. end: the column before which it ends."""
    if not entry.colour:
        canvas.write(x, y, _cut(entry.label, end - x), palette.muted)
        return
    label_start = x + len(_KEY)
    canvas.write(x, y, _KEY, _key_style(entry.colour))
    canvas.write(label_start, y, _cut(entry.label, end - label_start), palette.text)


def _slots(chart: Chart, area: _Area) -> Iterator[tuple[Panel, _Area]]:
    """Divide the area between the panels, in the proportions of the figure."""
    width, height = chart.image.size
    extents_across = [_extent(panel.left / width, panel.right / width) for panel in chart.panels]
    extents_down = [_extent(panel.top / height, panel.bottom / height) for panel in chart.panels]
    columns = _boundaries(extents_across)
    rows = _boundaries(extents_down)
    for panel, across, down in zip(chart.panels, extents_across, extents_down, strict=True):
        left, right = _slot(columns, across)
        top, bottom = _slot(rows, down)
        yield (
            panel,
            _Area(
                # A column of cells separates neighbours.
                left=area.left + round(left * area.width) + (left > 0),
                top=area.top + round(top * area.height),
                right=area.left + round(right * area.width),
                bottom=area.top + round(bottom * area.height),
            ),
        )


def _extent(start: float, end: float) -> _Extent:
    """Return the part of a panel's width or height that is inside the figure."""
    return _Extent(max(0.0, start), min(1.0, end))


def _boundaries(extents: list[_Extent]) -> list[float]:
    """Return where columns of panels begin and end, midway between the panels."""
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


def _slot(boundaries: list[float], extent: _Extent) -> tuple[float, float]:
    """Return the boundaries around a panel."""
    earlier = [edge for edge in boundaries[:-1] if edge <= extent.start + _SLOT_TOLERANCE]
    left = max(earlier)
    right = min(edge for edge in boundaries if edge > left and edge >= extent.end - _SLOT_TOLERANCE)
    return left, right


class _PanelDrawing:
    """Draws a panel into its area of the canvas."""

    def __init__(
        self, canvas: _Canvas, chart: Chart, panel: Panel, area: _Area, palette: Palette
    ) -> None:
        self._canvas = canvas
        self._chart = chart
        self._panel = panel
        self._area = area
        self._palette = palette

    def draw(self) -> None:
        panel = self._panel
        if not _has_space(self._area):
            return
        self._area = self._needed_area()
        data_top = self._area.top + self._write_head()
        inner = _write_legend(
            self._canvas, panel.legend, replace(self._area, top=data_top), self._palette
        )
        self._area = replace(self._area, right=inner.right)
        left_width, right_width = self._side_widths()
        plot = _Area(
            self._area.left + left_width,
            inner.top,
            self._area.right - right_width,
            self._area.bottom - self._foot_lines(),
        )
        if not _has_space(plot):
            return

        if panel.is_colour_scale:
            right = min(plot.right, plot.left + COLOUR_SCALE_CELLS)
            plot = replace(plot, right=right)
        elif panel.keeps_aspect:
            plot = self._with_aspect(plot)

        self._draw_data(plot)
        self._draw_grid(plot)
        self._write_notes(plot)
        if panel.has_axes:
            self._draw_axes(plot)

    def _needed_area(self) -> _Area:
        """Return the part of the area that a colour scale, or a panel with fixed proportions, fills:
        the scale at the left, a panel beside its scale or else in the middle."""
        panel = self._panel
        area = self._area
        left_width, right_width = self._side_widths()
        if panel.is_colour_scale:
            data_width = COLOUR_SCALE_CELLS
        elif panel.keeps_aspect:
            head_lines = bool(panel.title or panel.y_label or panel.y2_label)
            data_width = round((area.height - head_lines - self._foot_lines()) * self._aspect())
        else:
            return area

        needed_width = max(
            left_width + data_width + right_width,
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
            _write_centred(self._canvas, area, y, panel.title, self._palette.text + BOLD)

        has_labels = bool(panel.y_label or panel.y2_label)
        if has_labels:
            # The labels stand beside the title if it leaves enough space.
            widest = max(cell_len(panel.y_label), cell_len(panel.y2_label))
            free_width = (area.width - cell_len(panel.title)) // 2
            if panel.title and widest + 1 > free_width:
                y += 1
            muted = self._palette.muted
            self._canvas.write(area.left, y, _cut(panel.y_label, area.width), muted)
            y2_label = _cut(panel.y2_label, area.width)
            self._canvas.write(area.right - cell_len(y2_label), y, y2_label, muted)

        if panel.title or has_labels:
            y += 1
        return y - area.top

    def _side_widths(self) -> tuple[int, int]:
        """Return the widths of the tick labels with their axis, on the left and on the right."""
        if not self._panel.has_axes:
            return 0, 0
        left_width = self._labels_width(self._panel.y)
        if not self._panel.is_colour_scale:
            left_width = max(1, left_width)  # for the axis itself
        return left_width, self._labels_width(self._panel.y2)

    def _labels_width(self, ticks: Sequence[Tick]) -> int:
        """Return the width of labels with the axis beside them; 0 without labels."""
        if not ticks:
            return 0
        max_width = min(MAX_LABEL_CELLS, self._area.width // 3)
        longest = max(cell_len(tick.label) for tick in ticks)
        return min(longest, max_width) + 1

    def _with_aspect(self, plot: _Area) -> _Area:
        """Return the part of the area that has the panel's proportions."""
        aspect = self._aspect()
        width = min(plot.width, round(plot.height * aspect))
        height = min(plot.height, max(2, round(width / aspect)))
        return _Area(plot.left, plot.top, plot.left + max(2, width), plot.top + height)

    def _draw_data(self, plot: _Area) -> None:
        from PIL import Image as images

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

    def _draw_grid(self, plot: _Area) -> None:
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

    def _write_notes(self, plot: _Area) -> None:
        for note in self._panel.notes:
            x = plot.left + round(note.across * plot.width)
            if note.alignment == "right":
                x -= cell_len(note.text)
            elif note.alignment == "center":
                x -= cell_len(note.text) // 2
            y = plot.top + min(plot.height - 1, int(note.down * plot.height))
            if self._area.top <= y and self._area.left <= x:
                text = _cut(note.text, self._area.right - x)
                self._canvas.write(x, y, text, self._palette.text + BOLD)

    def _draw_axes(self, plot: _Area) -> None:
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
            _write_centred(self._canvas, plot, y, panel.x_label, muted)

    def _write_left_labels(self, plot: _Area) -> None:
        axis_x = plot.left - 1
        for y, tick in _one_tick_a_line(self._panel.y, plot).items():
            label = _cut(tick.label, axis_x - self._area.left)
            self._canvas.write(axis_x, y, "┤", self._palette.muted)
            self._canvas.write(axis_x - cell_len(label), y, label, self._palette.muted)

    def _write_right_labels(self, plot: _Area) -> None:
        start = plot.right + 1
        for y, tick in _one_tick_a_line(self._panel.y2, plot).items():
            label = _cut(tick.label, self._area.right - start)
            self._canvas.write(start, y, label, self._palette.muted)

    def _write_bottom_labels(self, plot: _Area) -> None:
        """Write the labels that do not overlap the one before them."""
        ticks = sorted(self._panel.x, key=lambda tick: tick.place)
        columns = [_column(tick, plot) for tick in ticks]
        distances = [after - before for before, after in pairwise(columns)]
        max_width = max(4, min(distances, default=plot.width) - 1)
        free_from = self._area.left
        for tick, x in zip(ticks, columns, strict=True):
            # A number that is cut would be another number.
            label = tick.label if _is_number(tick.label) else _cut(tick.label, max_width)
            start = max(self._area.left, x - cell_len(label) // 2)
            start = min(start, self._area.right - cell_len(label))
            if start < free_from:
                continue
            self._canvas.write(x, plot.bottom, "┴", self._palette.muted)
            self._canvas.write(start, plot.bottom + 1, label, self._palette.muted)
            free_from = start + cell_len(label) + 1


def _has_space(area: _Area) -> bool:
    return area.width >= MIN_PANEL_CELLS and area.height >= MIN_PANEL_ROWS


def _entry_width(entry: LegendEntry) -> int:
    key = _KEY if entry.colour else ""
    return cell_len(key + entry.label + _BETWEEN_ENTRIES)


def _one_tick_a_line(ticks: Sequence[Tick], plot: _Area) -> dict[int, Tick]:
    """Return the first tick of each line."""
    tick_by_line: dict[int, Tick] = {}
    for tick in ticks:
        tick_by_line.setdefault(_line(tick, plot), tick)
    return tick_by_line


def _column(tick: Tick, plot: _Area) -> int:
    return plot.left + min(plot.width - 1, int(tick.place * plot.width))


def _line(tick: Tick, plot: _Area) -> int:
    return plot.top + min(plot.height - 1, int(tick.place * plot.height))


def _is_number(text: str) -> bool:
    return any(character.isdigit() for character in text) and not text[:1].isalpha()


def _key_style(colour: str) -> Style:
    try:
        return Style(color=Color.parse(colour))
    except (ColorParseError, ValueError):  # the description comes from the kernel
        return Style.null()


def _to_rgb(colour: Color | None) -> Rgb:
    if colour is None:
        return DEFAULT_GROUND
    red, green, blue = colour.get_truecolor()
    return red, green, blue
