"""A figure of matplotlib as it is drawn in cells, and how one is read from a picture's metadata."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.sanitize import one_line
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


@dataclass(frozen=True)
class AxisTick:
    """A mark on an axis."""

    position: float
    """Where it is: from 0 to 1, from the left or from the top."""
    label: str


@dataclass(frozen=True)
class LegendEntry:
    """One series of a legend."""

    label: str
    colour: str
    """The colour as `#rrggbb`, unless the description is foreign; empty for a heading."""


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
    """Whether the data has proportions that must stay, as a picture has."""
    has_axes: bool
    title: str
    x_label: str
    y_label: str
    y2_label: str
    """The label of the vertical axis on the right."""
    x: tuple[AxisTick, ...]
    y: tuple[AxisTick, ...]
    """The ticks of the vertical axis on the left."""
    y2: tuple[AxisTick, ...]
    """The ticks of the vertical axis on the right."""
    legend: Legend
    notes: tuple[ChartNote, ...]
    grid_across: bool
    """Whether lines stand at the ticks of the horizontal axis."""
    grid_down: bool
    """Whether lines stand at the ticks of the vertical axis."""

    @property
    def is_colour_scale(self) -> bool:
        """Whether it explains the colours of another panel."""
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
    """Read a description, which may be anything. Raises any exception if it is not valid.

    Returns:
        None if the picture is too large, or shows no panel.
    """
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
    """Return a text on one line, cut if it is long."""
    return one_line(str(text)[:MAX_WORD_CHARS])


def _to_panel(source: dict[str, Any]) -> Panel:
    """Read a panel. Raises any exception if it is not valid."""
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


def _to_ticks(pairs: list[Any]) -> tuple[AxisTick, ...]:
    """Read the ticks of an axis, without those that are outside it."""
    return tuple(
        AxisTick(float(position), _word(label))
        for position, label in pairs[:MAX_TICKS]
        if 0 <= position <= 1
    )


def _to_note(across: Any, down: Any, text: Any, alignment: Any) -> ChartNote | None:
    """Return a note; None if it is far from its panel, or nowhere."""
    is_near = abs(across) <= MAX_NOTE_DISTANCE and abs(down) <= MAX_NOTE_DISTANCE
    if not is_near:
        return None
    return ChartNote(float(across), float(down), _word(text), str(alignment))
