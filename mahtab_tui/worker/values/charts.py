"""Describes a matplotlib figure for a screen of cells: a picture of its data without any word, and
the words with their places. The description travels inside the figure's PNG file."""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable

METADATA_KEY = "mahtab-chart"

COLUMN_PIXELS = 8
ROW_PIXELS = 16
"""Pixels of the picture for a cell of the screen."""
DOTS_PER_INCH = 86
"""The dpi at which a line of text is as high as a cell."""
MIN_LINE_PIXELS = 5.0
"""Lines are drawn at least this thick, because thinner ones could not be seen in cells."""
MANY_LINES = 3
"""At least this many lines in the same axes are thinner, because they would hide each other."""
MIN_PIXELS_OF_MANY_LINES = 3.0
NEUTRAL_RGB = (0.55, 0.58, 0.65)
"""Replaces black and white lines, which cannot be seen in a dark or in a light theme."""
BLACK_BELOW = 0.15
WHITE_ABOVE = 0.9
"""Brightness of a colour's channels, from 0 to 1."""

MIN_GAP_CELLS = 1.1
"""Width of the gap between two bars; a narrower one would be lost, because the screen may draw the
picture in fewer cells, and the edges of bars count as full."""
MIN_PITCH_CELLS = 0.6
"""The least distance at which bars can be told apart."""
MIN_BAR_SHARE = 0.4
"""A wider gap leaves a bar at least this share of the distance between two bars."""

MAX_CHART_CHARS = 150_000
MAX_COLUMNS = 100
MAX_ROWS = 24
MIN_COLUMNS = 30
MIN_ROWS = 12
DEFAULT_COLUMNS = 80
DEFAULT_ROWS = 24
ROWS_BESIDE_PICTURE = 2
"""Rows of the pane that the picture leaves free."""
MAX_PANELS = 16
MAX_TICKS = 40
MAX_LEGEND_ENTRIES = 20
RIGHT_LEGEND_PLACES = (1, 4, 5, 7)
"""matplotlib's numbers for a legend's place: upper right, lower right, right, center right."""
MAX_NOTES = 80
MAX_WORD_CHARS = 80
MAX_WORD_DISTANCE = 10
"""A word is left out if it is further away from its panel, in widths or heights of the panel."""
EDGE_TOLERANCE_PIXELS = 2.0
"""Axes count as inside others even if they stand out by this many pixels."""
SCALES = (1.0, 0.5)
"""Scales of the picture; the second if the description is too long."""

Panel = Any
"""A dict that becomes JSON."""
WordPlacer = Callable[[Any, str], None]
"""Adds an artist's text to a panel."""

_TEX_MARKUP = re.compile(r"\\[a-zA-Z]+|[{}$]")


def chart_metadata(figure: object) -> dict[str, str]:
    """Return the metadata of the figure's PNG; empty if it cannot be described."""
    try:
        for scale in SCALES:
            description = _describe(figure, scale)
            if len(description) <= MAX_CHART_CHARS:
                return {METADATA_KEY: description}
    except Exception:  # raised by matplotlib or by the artists of the user
        pass
    return {}


def _describe(figure: Any, scale: float) -> str:
    """Return the description as JSON."""
    columns, rows = _grid()
    width = int(columns * COLUMN_PIXELS * scale)
    height = int(rows * ROW_PIXELS * scale)
    with _resized(figure, width, height, DOTS_PER_INCH * scale):
        renderer = _wordless_renderer(width, height, DOTS_PER_INCH * scale)
        if any(len(axes.lines) >= MANY_LINES for axes in figure.axes):
            renderer.min_line_pixels = MIN_PIXELS_OF_MANY_LINES
        figure.draw(renderer)
        panels = _panels(figure, height)
        _place_words(renderer.words, panels, height)
    chart = {
        "size": [width, height],
        "png": _encode_png(renderer),
        "title": _figure_title(figure, renderer.words),
        "legend": _legend_entries(figure.legends),
        "legend_side": "right" if any(map(_is_at_right_edge, figure.legends)) else "top",
        "panels": [panel for panel, _ in panels],
    }
    return json.dumps(chart, separators=(",", ":"))


def _grid() -> tuple[int, int]:
    """Return how many columns and rows of the pane the picture may fill."""
    columns = _number_in_environment("COLUMNS", DEFAULT_COLUMNS)
    rows = _number_in_environment("LINES", DEFAULT_ROWS) - ROWS_BESIDE_PICTURE
    return max(MIN_COLUMNS, min(columns, MAX_COLUMNS)), max(MIN_ROWS, min(rows, MAX_ROWS))


def _number_in_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


@contextmanager
def _resized(figure: Any, width: int, height: int, dpi: float) -> Iterator[None]:
    """Give a figure another size, and hide what the screen draws itself or leaves out."""
    with ExitStack() as on_exit:
        size_inches = tuple(figure.get_size_inches())
        on_exit.callback(figure.set_size_inches, *size_inches, forward=False)
        figure.set_size_inches(width / dpi, height / dpi, forward=False)

        on_exit.callback(figure._set_dpi, figure.dpi, forward=False)
        figure._set_dpi(dpi, forward=False)

        # The layout was made for the figure's own size.
        engine = figure.get_layout_engine()
        if engine is not None:
            on_exit.callback(figure.set_layout_engine, engine)
            figure.set_layout_engine("none")

        for artist in _artists_to_hide(figure):
            on_exit.callback(artist.set_visible, artist.get_visible())
            artist.set_visible(False)
        for axes in figure.axes:
            axes.get_ylim()  # scales the axes, which otherwise happens when they are drawn
            for container in axes.containers:
                _separate_bars(container, dpi / DOTS_PER_INCH, on_exit)
        yield


def _separate_bars(container: object, scale: float, on_exit: ExitStack) -> None:
    """Widen the gaps between bars so that they survive in cells. Bars that touch each other stay.

    Args:
        container: what `bar` or `barh` returned, or another container.
        scale: of the picture.
        on_exit: gets what restores the bars.
    """
    bars = getattr(container, "patches", [])
    if len(bars) < 2 or not hasattr(container, "orientation"):
        return
    is_horizontal = container.orientation == "horizontal"
    cell_pixels = scale * (ROW_PIXELS if is_horizontal else COLUMN_PIXELS)
    boxes = [bar.get_window_extent() for bar in bars]
    extents = sorted((box.y0, box.y1) if is_horizontal else (box.x0, box.x1) for box in boxes)

    gap = min(after[0] - before[1] for before, after in zip(extents, extents[1:]))
    pitch = min(after[0] - before[0] for before, after in zip(extents, extents[1:]))
    thickness = pitch - gap
    wanted_gap = MIN_GAP_CELLS * cell_pixels
    if not 1 <= gap < wanted_gap or pitch < MIN_PITCH_CELLS * cell_pixels:
        return
    ratio = max(pitch - wanted_gap, MIN_BAR_SHARE * pitch) / thickness
    for bar in bars:
        if is_horizontal:
            on_exit.callback(bar.set, y=bar.get_y(), height=bar.get_height())
            middle = bar.get_y() + bar.get_height() / 2
            bar.set(height=bar.get_height() * ratio)
            bar.set(y=middle - bar.get_height() / 2)
        else:
            on_exit.callback(bar.set, x=bar.get_x(), width=bar.get_width())
            middle = bar.get_x() + bar.get_width() / 2
            bar.set(width=bar.get_width() * ratio)
            bar.set(x=middle - bar.get_width() / 2)


def _artists_to_hide(figure: Any) -> list[Any]:
    """Return the backgrounds, frames and legends."""
    artists = [figure.patch, *figure.legends]
    for axes in figure.axes:
        artists += [axes.patch, *axes.spines.values(), *_legends(axes)]
        colorbar = getattr(axes, "_colorbar", None)
        artists.append(getattr(colorbar, "outline", None))
    return [artist for artist in artists if artist is not None]


class _WordlessDrawing:
    """Methods that replace those of matplotlib's renderer: they collect words instead of drawing
    them, leave out ticks and grids, and draw lines that survive in cells."""

    _renderer: Any
    """The renderer of the base class, written in C++."""
    new_gc: Any

    def __init__(self, width: int, height: int, dpi: float) -> None:
        super().__init__(width, height, dpi)  # type: ignore[call-arg]
        self.words: list[tuple[Any, str]] = []
        """Artists with their texts, in the order of drawing."""
        self.min_line_pixels = MIN_LINE_PIXELS
        self._groups: list[str] = []
        """The groups that are open, such as an axis."""

    def open_group(self, name: str, gid: object = None) -> None:
        self._groups.append(name)

    def close_group(self, name: str) -> None:
        if self._groups:
            self._groups.pop()

    @property
    def _draws_axis(self) -> bool:
        return "matplotlib.axis" in self._groups

    def draw_text(
        self, gc: object, x: float, y: float, text: str, *args: object, **named: object
    ) -> None:
        artist: Any = named.get("mtext") or (args[3] if len(args) > 3 else None)
        if artist is not None:
            self.words.append((artist, text))
            return
        # matplotlib draws a text of several lines line by line, and does not say whose they are.
        artist = sys._getframe(1).f_locals.get("self")
        is_first_line = not self.words or self.words[-1][0] is not artist
        if hasattr(artist, "get_text") and is_first_line:
            self.words.append((artist, artist.get_text()))

    draw_tex = draw_text

    def draw_markers(self, *args: object, **named: object) -> None:
        # The markers of an axis are its ticks.
        if not self._draws_axis:
            self._renderer.draw_markers(*args, **named)

    def draw_path(self, gc: Any, path: object, transform: object, face: object = None) -> None:
        # The lines of an axis are the grid.
        if self._draws_axis:
            return
        context = self.new_gc()
        context.copy_properties(gc)
        if face is None:
            context.set_linewidth(max(gc.get_linewidth(), self.min_line_pixels))
            context.set_foreground(_visible_rgb(gc.get_rgb()[:3]))
        super().draw_path(context, path, transform, face)  # type: ignore[misc]
        context.restore()


def _wordless_renderer(width: int, height: int, dpi: float) -> Any:
    """Return a renderer without words.

    Its class is made here, because the base exists only once matplotlib is loaded.
    """
    agg: Any = sys.modules["matplotlib.backends.backend_agg"]
    renderer_class = type("WordlessRenderer", (_WordlessDrawing, agg.RendererAgg), {})
    renderer: Any = renderer_class(width, height, dpi)
    # The base class sets its own as an attribute of the instance, which would hide ours.
    renderer.__dict__.pop("draw_markers", None)
    return renderer


def _visible_rgb(rgb: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the colour itself, or a neutral one instead of black and white."""
    is_black = max(rgb) < BLACK_BELOW
    is_white = min(rgb) > WHITE_ABOVE
    return NEUTRAL_RGB if is_black or is_white else rgb


def _encode_png(renderer: Any) -> str:
    file = io.BytesIO()
    images: Any = importlib.import_module("PIL.Image")  # matplotlib depends on it
    pixels = sys.modules["numpy"].asarray(renderer.buffer_rgba())
    images.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _panels(figure: Any, height: int) -> list[tuple[Panel, Any]]:
    """Return the panels with their axes; axes at the same place or inside others share one."""
    panels: list[tuple[Panel, Any]] = []
    for axes in figure.axes[: 2 * MAX_PANELS]:
        box = axes.get_window_extent()
        if not axes.get_visible() or box.width < 1 or box.height < 1:
            continue
        containing = (panel for panel, _ in panels if _is_inside(box, panel["box"], height))
        panels.append((next(containing, None) or _empty_panel(axes, box, height), axes))
    return panels


def _empty_panel(axes: Any, box: Any, height: int) -> Panel:
    """Return a panel without its words."""
    return {
        "box": [box.x0, height - box.y1, box.x1, height - box.y0],
        "keeps_aspect": axes.get_aspect() != "auto" or axes.name != "rectilinear",
        "has_axes": _has_axis_lines(axes),
        "title": "",
        "x_label": "",
        "y_label": "",
        "y2_label": "",
        "x": [],
        "y": [],
        "y2": [],
        "legend": [],
        "legend_side": "top",
        "notes": [],
        "grid": [_has_grid(axes, "xaxis"), _has_grid(axes, "yaxis")],
    }


def _has_axis_lines(axes: Any) -> bool:
    """Return whether axes have a frame or ticks; those of a pie chart have neither."""
    if axes.name != "rectilinear" or not axes.axison:
        return False
    return bool(axes.get_frame_on() or len(axes.get_xticks()) or len(axes.get_yticks()))


def _has_grid(axes: object, name: str) -> bool:
    axis = getattr(axes, name, None)
    ticks = getattr(axis, "majorTicks", None)
    return bool(ticks and ticks[0].gridline.get_visible())


def _is_inside(box: Any, outer: list[float], height: int) -> bool:
    left, top, right, bottom = outer
    return bool(
        box.x0 >= left - EDGE_TOLERANCE_PIXELS
        and box.x1 <= right + EDGE_TOLERANCE_PIXELS
        and height - box.y1 >= top - EDGE_TOLERANCE_PIXELS
        and height - box.y0 <= bottom + EDGE_TOLERANCE_PIXELS
    )


def _figure_title(figure: Any, words: list[tuple[Any, str]]) -> str:
    """Return the words that belong to no axes: the title first, then labels and notes."""
    title = getattr(figure, "_suptitle", None)
    pending = [figure]
    artists: list[Any] = []
    for part in pending:  # the list grows meanwhile
        artists += part.texts
        pending += getattr(part, "subfigs", [])
    text_by_artist = {id(artist): _clean(text) for artist, text in words}
    artists.sort(key=lambda artist: artist is not title)
    texts = [text_by_artist.get(id(artist), "") for artist in artists]
    return " · ".join(filter(None, texts))


def _place_words(
    words: list[tuple[Any, str]], panels: list[tuple[Panel, Any]], height: int
) -> None:
    """Add each word that was drawn to its panel, by what it is in its axes."""
    placers: dict[int, WordPlacer] = {}
    for panel, axes in panels:
        legends = _legends(axes)
        panel["legend"] = [*panel["legend"], *_legend_entries(legends)][:MAX_LEGEND_ENTRIES]
        if any(_stands_right(legend, axes) for legend in legends):
            panel["legend_side"] = "right"
        placers |= _word_placers(panel, axes, height)

    panel_of_axes = {id(axes): panel for panel, axes in reversed(panels)}
    # The texts of a table do not know their axes.
    panel_of_cell = {
        id(cell.get_text()): panel
        for panel, axes in panels
        for table in axes.tables
        for cell in table.get_celld().values()
    }
    for artist, text in words:
        if id(artist) in placers:
            placers[id(artist)](artist, _clean(text))
            continue
        panel = panel_of_cell.get(id(artist)) or panel_of_axes.get(
            id(getattr(artist, "axes", None))
        )
        if panel is not None:
            _add_note(artist, _clean(text), panel, height)


def _word_placers(panel: Panel, axes: Any, height: int) -> dict[int, WordPlacer]:
    """Return how to add the titles, labels and ticks of the axes, by the `id` of the artist."""
    placers: dict[int, WordPlacer] = {}
    for title in (axes.title, axes._left_title, axes._right_title):
        placers[id(title)] = _setter(panel, "title")
    if axes.name != "rectilinear":
        return placers

    is_right = axes.yaxis.get_label_position() == "right"
    y_label = "y2_label" if is_right else "y_label"
    for axis, field in ((axes.xaxis, "x_label"), (axes.yaxis, y_label)):
        placers[id(axis.label)] = _setter(panel, field)
        placers[id(axis.offsetText)] = _setter(panel, field)

    for axis, first_field, second_field in ((axes.xaxis, "x", "x"), (axes.yaxis, "y", "y2")):
        for tick in (*axis.majorTicks, *axis.minorTicks):
            placers[id(tick.label1)] = _tick_adder(panel, first_field, height)
            placers[id(tick.label2)] = _tick_adder(panel, second_field, height)
    return placers


def _setter(panel: Panel, field: str) -> WordPlacer:
    """Return what adds a text to a field; a panel of several axes has the texts of all."""

    def set_text(artist: object, text: str) -> None:
        panel[field] = f"{panel[field]} {text}".strip()

    return set_text


def _tick_adder(panel: Panel, field: str, height: int) -> WordPlacer:
    def add_tick(artist: object, text: str) -> None:
        position = _position_in_panel(artist, panel, height)
        ticks = panel[field]
        if position is None or not text or len(ticks) >= MAX_TICKS:
            return
        across, down = position
        ticks.append([across if field == "x" else down, text])

    return add_tick


def _position_in_panel(artist: Any, panel: Panel, height: int) -> tuple[float, float] | None:
    """Return where an artist is, in widths and heights of its panel, from the left and from the
    top; None if it is far outside."""
    left, top, right, bottom = panel["box"]
    x, y = artist.get_transform().transform(artist.get_unitless_position())
    across = (x - left) / (right - left)
    down = (height - y - top) / (bottom - top)
    is_near = abs(across) < MAX_WORD_DISTANCE and abs(down) < MAX_WORD_DISTANCE
    if not is_near:  # or not a number
        return None
    return round(float(across), 4), round(float(down), 4)


def _add_note(artist: Any, text: str, panel: Panel, height: int) -> None:
    if not text or len(panel["notes"]) >= MAX_NOTES:
        return
    position = _position_in_panel(artist, panel, height)
    if position is not None:
        panel["notes"].append([*position, text, artist.get_horizontalalignment()])


def _legends(axes: Any) -> list[Any]:
    """Return the legends of the axes; one that was added as an artist stays beside the next."""
    legend_class: Any = getattr(sys.modules.get("matplotlib.legend"), "Legend", ())
    return [artist for artist in axes.get_children() if isinstance(artist, legend_class)]


def _legend_entries(legends: list[Any]) -> list[list[str]]:
    """Return labels with their colours; headings have no colour."""
    entries: list[list[str]] = []
    for legend in legends:
        heading = _clean(legend.get_title().get_text())
        if heading:
            entries.append([heading, ""])
        handles: Any = getattr(legend, "legend_handles", None)
        handles = handles or getattr(legend, "legendHandles", ())  # before matplotlib 3.7
        texts = [_clean(text.get_text()) for text in legend.get_texts()]
        entries += [[text, _colour(handle)] for text, handle in zip(texts, handles)]

    omitted_count = len(entries) - MAX_LEGEND_ENTRIES
    if omitted_count > 0:
        entries[MAX_LEGEND_ENTRIES - 1 :] = [[f"… {omitted_count + 1:,} more", ""]]
    return entries


def _stands_right(legend: Any, axes: Any) -> bool:
    """Return whether a legend is outside of its axes, on the right."""
    anchor = legend.get_bbox_to_anchor()
    return bool(anchor.x0 >= axes.get_window_extent().x1 - EDGE_TOLERANCE_PIXELS)


def _is_at_right_edge(legend: object) -> bool:
    """Return whether a legend of the figure is at its right edge."""
    return getattr(legend, "_loc_real", 0) in RIGHT_LEGEND_PLACES


def _colour(handle: object) -> str:
    """Return the colour in which a legend's entry is drawn, as `#rrggbb`."""
    colours: Any = sys.modules["matplotlib.colors"]
    for method in ("get_color", "get_facecolor", "get_edgecolor"):
        value = getattr(handle, method, lambda: None)()
        try:
            rgba = colours.to_rgba(value)
        except (ValueError, TypeError):
            # There is no colour, or a collection has several.
            if value is None or not len(value):
                continue
            rgba = colours.to_rgba(value[0])
        if rgba[3]:  # else it is transparent, as the face of an outline
            return str(colours.to_hex(_visible_rgb(rgba[:3])))
    return str(colours.to_hex(NEUTRAL_RGB))


def _clean(text: str) -> str:
    """Return a text without TeX's markup, in one line."""
    return " ".join(_TEX_MARKUP.sub("", text).split())[:MAX_WORD_CHARS]
