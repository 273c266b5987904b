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
NEUTRAL_COLOUR = (0.55, 0.58, 0.65)
"""Replaces black and white lines, which cannot be seen in a dark or in a light theme."""

MAX_CHART_CHARS = 150_000
MAX_COLUMNS = 100
MAX_ROWS = 24
MIN_ROWS = 12
MAX_PANELS = 16
MAX_TICKS = 40
MAX_LEGEND_ENTRIES = 20
MAX_NOTES = 80
MAX_WORD_CHARS = 80

Panel = Any
"""A dict that becomes JSON."""

_MATH = re.compile(r"\\[a-zA-Z]+|[{}$]")


def chart_metadata(figure: Any) -> dict[str, str]:
    """Return the metadata of the figure's PNG; empty if it cannot be described."""
    try:
        for scale in (1.0, 0.5):
            text = _describe(figure, scale)
            if len(text) <= MAX_CHART_CHARS:
                return {METADATA_KEY: text}
    except Exception:  # raised by matplotlib or by the artists of the user
        pass
    return {}


def _describe(figure: Any, scale: float) -> str:
    columns, rows = _grid()
    width = int(columns * COLUMN_PIXELS * scale)
    height = int(rows * ROW_PIXELS * scale)
    with _resized(figure, width, height, DOTS_PER_INCH * scale):
        renderer = _wordless_renderer(width, height, DOTS_PER_INCH * scale)
        figure.draw(renderer)
        panels = _panels(figure, height)
        _place_words(figure, renderer.words, panels, height)
    title = getattr(figure, "_suptitle", None)
    chart = {
        "size": [width, height],
        "png": _encode_png(renderer),
        "title": "" if title is None else _clean(title.get_text()),
        "panels": [panel for panel, _ in panels],
    }
    return json.dumps(chart, separators=(",", ":"))


def _grid() -> tuple[int, int]:
    """Return columns and rows of the pane that the picture may fill."""
    columns, lines = os.environ.get("COLUMNS", ""), os.environ.get("LINES", "")
    width = int(columns) if columns.isdecimal() else 80
    height = int(lines) if lines.isdecimal() else 24
    return max(30, min(width, MAX_COLUMNS)), max(MIN_ROWS, min(height - 2, MAX_ROWS))


@contextmanager
def _resized(figure: Any, width: int, height: int, dpi: float) -> Iterator[None]:
    """Give a figure another size, and hide what the screen draws itself or leaves out."""
    with ExitStack() as restored:
        size = tuple(figure.get_size_inches())
        restored.callback(figure.set_size_inches, *size, forward=False)
        figure.set_size_inches(width / dpi, height / dpi, forward=False)
        restored.callback(figure._set_dpi, figure.dpi, forward=False)
        figure._set_dpi(dpi, forward=False)
        engine = figure.get_layout_engine()
        if engine is not None:
            restored.callback(figure.set_layout_engine, engine)
            figure.set_layout_engine("none")
        hidden = [figure.patch, *figure.legends]
        for axes in figure.axes:
            hidden += [axes.patch, *axes.spines.values(), axes.get_legend()]
            colorbar = getattr(axes, "_colorbar", None)
            hidden.append(getattr(colorbar, "outline", None))
        for artist in hidden:
            if artist is not None:
                restored.callback(artist.set_visible, artist.get_visible())
                artist.set_visible(False)
        yield


def _wordless_renderer(width: int, height: int, dpi: float) -> Any:
    agg: Any = sys.modules["matplotlib.backends.backend_agg"]

    class WordlessRenderer(agg.RendererAgg):  # type: ignore[misc]
        """Collects words instead of drawing them, and draws lines that survive in cells."""

        def __init__(self) -> None:
            super().__init__(width, height, dpi)
            self.words: list[tuple[Any, str]] = []
            self._groups: list[str] = []

        def open_group(self, name: str, gid: Any = None) -> None:
            self._groups.append(name)

        def close_group(self, name: str) -> None:
            if self._groups:
                self._groups.pop()

        def draw_text(
            self, gc: Any, x: float, y: float, text: str, *args: Any, **named: Any
        ) -> None:
            artist = named.get("mtext") or (args[3] if len(args) > 3 else None)
            if artist is not None:
                self.words.append((artist, text))

        draw_tex = draw_text

        def draw_markers(self, *args: Any, **named: Any) -> None:
            if "matplotlib.axis" not in self._groups:  # else they are ticks
                self._renderer.draw_markers(*args, **named)

        def draw_path(self, gc: Any, path: Any, transform: Any, face: Any = None) -> None:
            if "matplotlib.axis" in self._groups:  # a line of the grid
                return
            changed = self.new_gc()
            changed.copy_properties(gc)
            if face is None:
                changed.set_linewidth(max(gc.get_linewidth(), MIN_LINE_PIXELS))
                if max(gc.get_rgb()[:3]) < 0.15 or min(gc.get_rgb()[:3]) > 0.9:
                    changed.set_foreground(NEUTRAL_COLOUR)
            super().draw_path(changed, path, transform, face)
            changed.restore()

    renderer = WordlessRenderer()
    renderer.__dict__.pop("draw_markers", None)  # the one of the base class, which hides ours
    return renderer


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
        outer = next((panel for panel, _ in panels if _is_inside(box, panel["box"], height)), None)
        if outer is not None:
            panels.append((outer, axes))
            continue
        panel: Panel = {
            "box": [box.x0, height - box.y1, box.x1, height - box.y0],
            "keeps_aspect": axes.get_aspect() != "auto" or axes.name != "rectilinear",
            "has_axes": axes.name == "rectilinear" and axes.axison,
            "title": "",
            "x_label": "",
            "y_label": "",
            "y2_label": "",
            "x": [],
            "y": [],
            "y2": [],
            "legend": [],
            "notes": [],
            "grid": [_has_grid(axes, "xaxis"), _has_grid(axes, "yaxis")],
        }
        panels.append((panel, axes))
    return panels


def _has_grid(axes: Any, name: str) -> bool:
    axis = getattr(axes, name, None)
    ticks = getattr(axis, "majorTicks", None)
    return bool(ticks and ticks[0].gridline.get_visible())


def _is_inside(box: Any, outer: list[float], height: int) -> bool:
    left, top, right, bottom = outer
    tolerance = 2.0
    return bool(
        box.x0 >= left - tolerance
        and box.x1 <= right + tolerance
        and height - box.y1 >= top - tolerance
        and height - box.y0 <= bottom + tolerance
    )


def _place_words(
    figure: Any, words: list[tuple[Any, str]], panels: list[tuple[Panel, Any]], height: int
) -> None:
    """Add each word that was drawn to its panel, by what it is in its axes."""
    places: dict[int, Callable[[Any, str], None]] = {}
    for panel, axes in panels:
        legend = _legend_entries(axes.get_legend())
        panel["legend"] = [*panel["legend"], *legend][:MAX_LEGEND_ENTRIES]
        for title in (axes.title, axes._left_title, axes._right_title):
            places[id(title)] = _setter(panel, "title")
        if axes.name != "rectilinear":
            continue
        y_label = "y2_label" if axes.yaxis.get_label_position() == "right" else "y_label"
        places[id(axes.xaxis.label)] = _setter(panel, "x_label")
        places[id(axes.yaxis.label)] = _setter(panel, y_label)
        places[id(axes.xaxis.offsetText)] = _setter(panel, "x_label")
        places[id(axes.yaxis.offsetText)] = _setter(panel, y_label)
        for axis, names in ((axes.xaxis, ("x", "x")), (axes.yaxis, ("y", "y2"))):
            for tick in (*axis.majorTicks, *axis.minorTicks):
                for label, name in zip((tick.label1, tick.label2), names):
                    places[id(label)] = _tick_adder(panel, name, height)
    title = getattr(figure, "_suptitle", None)
    for artist, text in words:
        if id(artist) in places:
            places[id(artist)](artist, _clean(text))
        elif artist is not title:
            _add_note(artist, _clean(text), panels, height)


def _setter(panel: Panel, field: str) -> Callable[[Any, str], None]:
    def set_text(artist: Any, text: str) -> None:
        panel[field] = f"{panel[field]} {text}".strip()

    return set_text


def _tick_adder(panel: Panel, field: str, height: int) -> Callable[[Any, str], None]:
    def add(artist: Any, text: str) -> None:
        place = _fractions(artist, panel, height)
        ticks = panel[field]
        if place is not None and text and len(ticks) < MAX_TICKS:
            ticks.append([place[0] if field == "x" else place[1], text])

    return add


def _fractions(artist: Any, panel: Panel, height: int) -> tuple[float, float] | None:
    """Return where an artist is in its panel, from 0 to 1, from the left and from the top."""
    left, top, right, bottom = panel["box"]
    x, y = artist.get_transform().transform(artist.get_unitless_position())
    across = (x - left) / (right - left)
    down = (height - y - top) / (bottom - top)
    if not (-10 < across < 10 and -10 < down < 10):
        return None
    return round(float(across), 4), round(float(down), 4)


def _add_note(artist: Any, text: str, panels: list[tuple[Panel, Any]], height: int) -> None:
    owner = getattr(artist, "axes", None)
    panel = next((panel for panel, axes in panels if axes is owner), None)
    if panel is None or not text or len(panel["notes"]) >= MAX_NOTES:
        return
    place = _fractions(artist, panel, height)
    if place is not None:
        panel["notes"].append([*place, text, artist.get_horizontalalignment()])


def _legend_entries(legend: Any) -> list[list[str]]:
    if legend is None:
        return []
    handles: Any = getattr(legend, "legend_handles", None) or getattr(legend, "legendHandles", ())
    texts = [_clean(text.get_text()) for text in legend.get_texts()]
    return [[text, _colour(handle)] for text, handle in zip(texts, handles)]


def _colour(handle: Any) -> str:
    colours: Any = sys.modules["matplotlib.colors"]
    for method in ("get_color", "get_facecolor", "get_edgecolor"):
        value = getattr(handle, method, lambda: None)()
        try:
            return str(colours.to_hex(value))
        except (ValueError, TypeError):  # of a collection, or none
            if value is not None and len(value):
                return str(colours.to_hex(value[0]))
    return "#808890"


def _clean(text: str) -> str:
    """Return a text without TeX's markup, in one line."""
    return " ".join(_MATH.sub("", text).split())[:MAX_WORD_CHARS]
