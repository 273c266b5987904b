"""Draws the figures of matplotlib, and recognises what plotting functions return."""

from __future__ import annotations

import io
import sys
from itertools import islice
from typing import Any

from .charts import chart_metadata
from .matplotlib_backend import has_file_backend
from .objects import is_instance_if_loaded

_PLOT_CLASSES = (
    ("matplotlib.artist", "Artist"),
    ("matplotlib.container", "Container"),
    ("seaborn.axisgrid", "Grid"),
)
"""Modules and classes of what plotting functions return."""
_MAX_PLOT_RESULT_DEPTH = 2
_MAX_PLOT_RESULT_ITEMS = 10
"""Levels, and items of each, up to which the results of plotting functions are recognised."""


def is_plot_result(value: object) -> bool:
    """Return whether a value is what a plotting function returned, and its figure will be shown at
    the end of the cell."""
    if not has_file_backend() or not sys.modules["matplotlib.pyplot"].get_fignums():
        return False
    return _is_plot_part(value)


def _is_plot_part(value: Any, depth: int = 0) -> bool:
    """Return whether a value is a part of a figure, or contains one: `hist` returns a tuple,
    `boxplot` a dict of lists."""
    if depth == 0 and is_instance_if_loaded(value, "matplotlib.figure", "Figure"):
        return False  # because the figure itself is shown
    if any(is_instance_if_loaded(value, *plot_class) for plot_class in _PLOT_CLASSES):
        return True
    if depth > _MAX_PLOT_RESULT_DEPTH:
        return False
    items: Any = ()
    if type(value) in (list, tuple):
        items = value
    elif type(value) is dict:
        items = value.values()
    elif is_instance_if_loaded(value, "numpy", "ndarray") and value.dtype == object:
        items = value.flat
    return any(_is_plot_part(item, depth + 1) for item in islice(items, _MAX_PLOT_RESULT_ITEMS))


def draw_png(figure: Any, side: int) -> bytes:
    """Return a figure as PNG, with the description of its chart.

    Args:
        figure: Of matplotlib.
        side: Maximum length of the longer side, in pixels.

    Raises:
        Exception: Whatever matplotlib, or an artist of the user, raises.
    """
    file = io.BytesIO()
    dpi = min(figure.dpi, side / max(figure.get_size_inches()))
    colour = figure.get_facecolor()
    metadata = chart_metadata(figure)
    box = _tight_box(figure) if dpi == figure.dpi else "tight"
    figure.savefig(
        file, format="png", dpi=dpi, bbox_inches=box, facecolor=colour, metadata=metadata
    )
    return file.getvalue()


def _tight_box(figure: Any) -> Any:
    """Return the box around what a figure shows, in inches. matplotlib finds the same box for
    "tight", but draws the figure once more for it."""
    get_renderer = getattr(figure, "_get_renderer", None)  # since matplotlib 3.6
    padding = sys.modules["matplotlib"].rcParams["savefig.pad_inches"]
    is_numeric = isinstance(padding, (int, float))
    # A layout engine moves things while the figure is drawn.
    if get_renderer is None or not is_numeric or figure.get_layout_engine() is not None:
        return "tight"
    return figure.get_tightbbox(get_renderer()).padded(padding)
