"""Draws figures of matplotlib for a grid of cells: the data as blocks, the words as words."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.blocks import Rgb, fit_blocks, merge_cells, one_colour_cell
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.worker.charts import (
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
MAX_LABEL_CELLS = 14
"""Width of the labels beside an axis."""
LEGEND_LINES = 2
COLOUR_SCALE_CELLS = 3
_SLOT_TOLERANCE = 0.03
"""Fraction of the figure by which the edges of panels in one column may differ."""
_ALPHA_CURVE = [0 if alpha < 48 else min(255, alpha * 2) for alpha in range(256)]
"""Makes thin lines bright and their edges sharp."""
_KEY = "━━ "
_BETWEEN_ENTRIES = "   "


@dataclass(frozen=True)
class Tick:
    place: float
    """From 0 to 1, from the left or from the top."""
    label: str


@dataclass(frozen=True)
class LegendEntry:
    label: str
    colour: str


@dataclass(frozen=True)
class Note:
    across: float
    down: float
    text: str
    alignment: str


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
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    y2: tuple[Tick, ...]
    legend: tuple[LegendEntry, ...]
    notes: tuple[Note, ...]
    grid_across: bool
    """Whether lines stand at the ticks of the horizontal axis."""
    grid_down: bool

    @property
    def is_colour_scale(self) -> bool:
        return bool(self.has_axes and self.y2 and not self.y and not self.x)


@dataclass(frozen=True)
class Chart:
    image: Image
    title: str
    panels: tuple[Panel, ...]


def read_chart(image: Image) -> Chart | None:
    """Read the description in a picture's metadata, which may come from anyone; None if there is
    none, or if it is not valid. Waits for Pillow: call on a thread."""
    text = image.info.get(METADATA_KEY)
    if not isinstance(text, str):
        return None
    try:
        return _to_chart(json.loads(text))
    except Exception:  # of a foreign description, or of Pillow for a damaged picture
        return None


def has_chart(image: Image) -> bool:
    return METADATA_KEY in image.info


def _to_chart(source: dict[str, Any]) -> Chart | None:
    from PIL import Image as images

    image = images.open(io.BytesIO(base64.b64decode(source["png"])), formats=("PNG",))
    if max(image.size) > MAX_SIDE_PIXELS:
        return None
    unique = {json.dumps(panel["box"]): panel for panel in source["panels"]}
    panels = tuple(_to_panel(panel) for panel in list(unique.values())[:MAX_PANELS])
    if not panels:
        return None
    return Chart(image.convert("RGBA"), _word(source["title"]), panels)


def _word(text: object) -> str:
    return one_line(str(text)[:MAX_WORD_CHARS])


def _to_panel(source: dict[str, Any]) -> Panel:
    left, top, right, bottom = map(float, source["box"])
    if not (-MAX_SIDE_PIXELS < left < right < MAX_SIDE_PIXELS and -MAX_SIDE_PIXELS < top < bottom):
        raise ValueError("a panel without a size")

    def ticks(name: str) -> tuple[Tick, ...]:
        pairs = source[name][:MAX_TICKS]
        return tuple(Tick(float(place), _word(text)) for place, text in pairs if 0 <= place <= 1)

    legend = source["legend"][:MAX_LEGEND_ENTRIES]
    notes = source["notes"][:MAX_NOTES]
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
        x=ticks("x"),
        y=ticks("y"),
        y2=ticks("y2"),
        legend=tuple(LegendEntry(_word(label), str(colour)) for label, colour in legend),
        notes=tuple(Note(float(x), float(y), _word(text), str(side)) for x, y, text, side in notes),
        grid_across=bool(source["grid"][0]),
        grid_down=bool(source["grid"][1]),
    )


@dataclass
class _Canvas:
    columns: int
    rows: int
    ground: Style
    cells: list[list[tuple[str, Style]]] = field(init=False)

    def __post_init__(self) -> None:
        self.cells = [[(" ", self.ground)] * self.columns for _ in range(self.rows)]

    def write(self, x: int, y: int, text: str, style: Style) -> None:
        """Write a text of one line, as far as it is on the canvas; below it stays the ground."""
        if not 0 <= y < self.rows:
            return
        for character in text:
            width = cell_len(character)
            if width == 1 and 0 <= x < self.columns:
                ground = self.cells[y][x][1].bgcolor
                self.cells[y][x] = (character, style + Style(bgcolor=ground))
            x += width

    def strips(self) -> list[Strip]:
        return [Strip(merge_cells(row), self.columns) for row in self.cells]


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


def draw_chart(chart: Chart, columns: int, rows: int, palette: Palette) -> list[Strip]:
    """Draw a chart that fills these cells, in the theme's colours. Call on a thread."""
    canvas = _Canvas(columns, rows, palette.surface)
    top = 0
    if chart.title and rows > 6:
        _write_centred(canvas, _Area(0, 0, columns, 1), 0, chart.title, palette.text + BOLD)
        top = 1
    for panel, area in _slots(chart, _Area(0, top, columns, rows)):
        _PanelDrawing(canvas, chart, panel, area, palette).draw()
    return canvas.strips()


def _write_centred(canvas: _Canvas, area: _Area, y: int, text: str, style: Style) -> None:
    text = _cut(text, area.width)
    canvas.write(area.left + (area.width - cell_len(text)) // 2, y, text, style)


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def _slots(chart: Chart, area: _Area) -> Iterator[tuple[Panel, _Area]]:
    """Divide the area between the panels, in the proportions of the figure."""
    width, height = chart.image.size
    panels = chart.panels
    across = _boundaries([(panel.left / width, panel.right / width) for panel in panels])
    down = _boundaries([(panel.top / height, panel.bottom / height) for panel in panels])
    for panel in panels:
        left, right = _slot(across, panel.left / width, panel.right / width)
        top, bottom = _slot(down, panel.top / height, panel.bottom / height)
        yield (
            panel,
            _Area(
                area.left + round(left * area.width) + (left > 0),
                area.top + round(top * area.height),
                area.left + round(right * area.width),
                area.top + round(bottom * area.height),
            ),
        )


def _boundaries(spans: list[tuple[float, float]]) -> list[float]:
    """Return where columns of panels begin and end, midway between the panels."""
    starts: list[float] = []
    for start in sorted(start for start, _ in spans):
        if not starts or start > starts[-1] + _SLOT_TOLERANCE:
            starts.append(start)
    inner = []
    for start in starts[1:]:
        before = (end for other, end in spans if other < start - _SLOT_TOLERANCE)
        ends = [end for end in before if end <= start + _SLOT_TOLERANCE]
        if ends:  # else a panel that begins earlier is beside it
            inner.append((max(ends) + start) / 2)
    return [0.0, *inner, 1.0]


def _slot(boundaries: list[float], start: float, end: float) -> tuple[float, float]:
    left = max(edge for edge in boundaries[:-1] if edge <= start + _SLOT_TOLERANCE)
    right = min(edge for edge in boundaries if edge > left and edge >= end - _SLOT_TOLERANCE)
    return left, right


class _PanelDrawing:
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
        if self._area.width < 4 or self._area.height < 2:
            return
        head = self._write_head()
        left, right = self._side_widths()
        has_x_axis = bool(panel.has_axes and panel.x)
        foot = 2 * has_x_axis + bool(panel.x_label)
        plot = _Area(
            self._area.left + left,
            self._area.top + head,
            self._area.right - right,
            self._area.bottom - foot,
        )
        if plot.height < 2 or plot.width < 4:
            return
        if panel.is_colour_scale:
            right = min(plot.right, plot.left + COLOUR_SCALE_CELLS)
            plot = replace(plot, right=right)
        elif panel.keeps_aspect:
            plot = self._with_aspect(plot)
        self._draw_data(plot)
        self._write_notes(plot)
        if panel.has_axes:
            self._draw_axes(plot)

    def _write_head(self) -> int:
        """Write the title, the label of the vertical axis, and the legend; return their lines."""
        panel, area, palette = self._panel, self._area, self._palette
        line = area.top
        if panel.title:
            _write_centred(self._canvas, area, line, panel.title, palette.text + BOLD)
        labels = cell_len(panel.y_label) + cell_len(panel.y2_label)
        if labels and panel.title:
            free = (area.width - cell_len(panel.title)) // 2
            line += max(cell_len(panel.y_label), cell_len(panel.y2_label)) + 1 > free
        if labels:
            y_label = _cut(panel.y_label, area.width)
            self._canvas.write(area.left, line, y_label, palette.muted)
            right = area.right - cell_len(panel.y2_label)
            self._canvas.write(max(area.left, right), line, panel.y2_label, palette.muted)
        line += bool(panel.title or labels)
        return line - area.top + self._write_legend(line)

    def _write_legend(self, line: int) -> int:
        lines: list[list[LegendEntry]] = [[]]
        used = 0
        for entry in self._panel.legend:
            width = cell_len(_KEY + entry.label + _BETWEEN_ENTRIES)
            if lines[-1] and used + width > self._area.width:
                lines.append([])
                used = 0
            lines[-1].append(entry)
            used += width
        visible = [entries for entries in lines if entries][:LEGEND_LINES]
        for number, entries in enumerate(visible):
            size = sum(cell_len(_KEY + entry.label + _BETWEEN_ENTRIES) for entry in entries)
            x = self._area.left + max(0, (self._area.width - size) // 2)
            for entry in entries:
                self._canvas.write(x, line + number, _KEY, _ink(entry.colour))
                x += len(_KEY)
                label = _cut(entry.label, self._area.right - x)
                self._canvas.write(x, line + number, label, self._palette.text)
                x += cell_len(entry.label + _BETWEEN_ENTRIES)
        return len(visible)

    def _side_widths(self) -> tuple[int, int]:
        """Return the widths of the tick labels with their axis, on the left and on the right."""
        if not self._panel.has_axes:
            return 0, 0
        widest = min(MAX_LABEL_CELLS, self._area.width // 3)
        widths = []
        for ticks in (self._panel.y, self._panel.y2):
            longest = max((cell_len(tick.label) for tick in ticks), default=-1)
            widths.append(min(longest, widest) + 1)
        left, right = widths
        return left if left or self._panel.is_colour_scale else 1, right

    def _with_aspect(self, plot: _Area) -> _Area:
        panel = self._panel
        aspect = 2 * (panel.right - panel.left) / (panel.bottom - panel.top)
        width = min(plot.width, round(plot.height * aspect))
        height = min(plot.height, max(2, round(width / aspect)))
        return _Area(plot.left, plot.top, plot.left + max(2, width), plot.top + height)

    def _draw_data(self, plot: _Area) -> None:
        from PIL import Image as images

        panel = self._panel
        size = 2 * plot.width, 2 * plot.height
        box = panel.left, panel.top, panel.right, panel.bottom
        pixels = self._chart.image.resize(size, images.Resampling.BOX, _inside(box, self._chart))
        ground = images.new("RGBA", size, _triplet(self._canvas.ground.bgcolor))
        pixels.putalpha(pixels.getchannel("A").point(_ALPHA_CURVE))
        colours = images.alpha_composite(ground, pixels).convert("RGB").tobytes()
        empty = one_colour_cell(Color.from_rgb(*_triplet(self._canvas.ground.bgcolor)))
        space = (" ", self._canvas.ground)
        for y, row in enumerate(fit_blocks(colours, plot.width, plot.height), plot.top):
            cells = [space if cell == empty else cell for cell in row]
            self._canvas.cells[y][plot.left : plot.right] = cells
        if panel.grid_across:
            for tick in panel.x:
                self._draw_grid([(_column(tick, plot), y) for y in range(plot.top, plot.bottom)])
        if panel.grid_down:
            for tick in panel.y or panel.y2:
                self._draw_grid([(x, _line(tick, plot)) for x in range(plot.left, plot.right, 2)])

    def _draw_grid(self, places: list[tuple[int, int]]) -> None:
        """Draw dots where there is no data."""
        for x, y in places:
            if self._canvas.cells[y][x] == (" ", self._canvas.ground):
                self._canvas.write(x, y, "·", self._palette.muted)

    def _write_notes(self, plot: _Area) -> None:
        for note in self._panel.notes:
            x = plot.left + round(note.across * plot.width)
            shift = {"center": cell_len(note.text) // 2, "right": cell_len(note.text)}
            x -= shift.get(note.alignment, 0)
            y = plot.top + min(plot.height - 1, int(note.down * plot.height))
            if self._area.top <= y and self._area.left <= x:
                text = _cut(note.text, self._area.right - x)
                self._canvas.write(x, y, text, self._palette.text + BOLD)

    def _draw_axes(self, plot: _Area) -> None:
        line = self._palette.muted
        panel = self._panel
        draws_left = not panel.is_colour_scale
        if draws_left and plot.left > self._area.left:
            for y in range(plot.top, plot.bottom):
                self._canvas.write(plot.left - 1, y, "│", line)
        self._write_side_labels(plot, panel.y, is_left=True)
        self._write_side_labels(plot, panel.y2, is_left=False)
        if panel.x:
            corner = "└" if draws_left else "─"
            self._canvas.write(plot.left - 1, plot.bottom, corner + "─" * plot.width, line)
            self._write_bottom_labels(plot)
        if panel.x_label:
            y = min(self._canvas.rows - 1, plot.bottom + 2 * bool(panel.x))
            _write_centred(
                self._canvas, _Area(plot.left, y, plot.right, y + 1), y, panel.x_label, line
            )

    def _write_side_labels(self, plot: _Area, ticks: Sequence[Tick], *, is_left: bool) -> None:
        taken: set[int] = set()
        for tick in ticks:
            y = _line(tick, plot)
            if y in taken:
                continue
            taken.add(y)
            if is_left:
                label = _cut(tick.label, plot.left - 1 - self._area.left)
                self._canvas.write(plot.left - 1, y, "┤", self._palette.muted)
                self._canvas.write(plot.left - 1 - cell_len(label), y, label, self._palette.muted)
            else:
                label = _cut(tick.label, self._area.right - plot.right - 1)
                self._canvas.write(plot.right + 1, y, label, self._palette.muted)

    def _write_bottom_labels(self, plot: _Area) -> None:
        ticks = sorted(self._panel.x, key=lambda tick: tick.place)
        positions = [_column(tick, plot) for tick in ticks]
        gaps = [after - before for before, after in pairwise(positions)]
        widest = max(4, min(gaps, default=plot.width) - 1)
        free_from = self._area.left
        for tick, x in zip(ticks, positions, strict=True):
            label = tick.label if _is_number(tick.label) else _cut(tick.label, widest)
            start = max(self._area.left, x - cell_len(label) // 2)
            start = min(start, self._area.right - cell_len(label))
            if start < free_from:
                continue
            self._canvas.write(x, plot.bottom, "┴", self._palette.muted)
            self._canvas.write(start, plot.bottom + 1, label, self._palette.muted)
            free_from = start + cell_len(label) + 1


def _column(tick: Tick, plot: _Area) -> int:
    return plot.left + min(plot.width - 1, int(tick.place * plot.width))


def _line(tick: Tick, plot: _Area) -> int:
    return plot.top + min(plot.height - 1, int(tick.place * plot.height))


def _is_number(text: str) -> bool:
    return any(character.isdigit() for character in text) and not text[:1].isalpha()


def _inside(
    box: tuple[float, float, float, float], chart: Chart
) -> tuple[float, float, float, float]:
    width, height = chart.image.size
    left, top, right, bottom = box
    return max(0.0, left), max(0.0, top), min(float(width), right), min(float(height), bottom)


def _ink(colour: str) -> Style:
    try:
        return Style(color=Color.parse(colour))
    except Exception:  # the description comes from the kernel
        return Style.null()


def _triplet(colour: Color | None) -> Rgb:
    red, green, blue = (18, 22, 42) if colour is None else colour.get_truecolor()
    return red, green, blue
