"""Draws the figures of matplotlib, and recognises what plotting functions return."""

from __future__ import annotations

import io
import sys
from itertools import islice
from typing import Any

from .charts import chart_metadata
from .matplotlib_backend import open_figures
from .objects import is_instance_if_loaded

_MAX_PLOT_RESULT_DEPTH = 2
_MAX_PLOT_RESULT_ITEMS = 10
"""Levels, and items of each, up to which the results of plotting functions are recognised."""


def is_plot_result(value: object) -> bool:
    """Return whether a value is what a plotting function returned, and its figure will be shown at
    the end of the cell. Runs code of the value's class."""
    figures = open_figures()
    if not figures or is_instance_if_loaded(value, "matplotlib.figure", "Figure"):
        return False  # because the figure itself is shown
    try:
        return _is_in_figures(value, figures, depth=0)
    except Exception:  # raised by the code of a subclass
        return False


def _is_in_figures(value: Any, figures: list[Any], depth: int) -> bool:
    """Return whether a value is a part of one of these figures, or contains one: `hist` returns a
    tuple, `boxplot` a dict of lists."""
    is_artist = is_instance_if_loaded(value, "matplotlib.artist", "Artist")
    if is_artist or is_instance_if_loaded(value, "seaborn.axisgrid", "Grid"):
        return any(_figure_of(value) is figure for figure in figures)
    if depth > _MAX_PLOT_RESULT_DEPTH:
        return False

    items: Any = ()
    if is_instance_if_loaded(value, "matplotlib.container", "Container"):
        items = value.get_children()
        if not items:  # there was nothing to draw
            return True
    elif type(value) in (list, tuple):
        items = value
    elif type(value) is dict:
        items = value.values()
    elif is_instance_if_loaded(value, "numpy", "ndarray") and value.dtype == object:
        items = value.flat
    first_items = islice(items, _MAX_PLOT_RESULT_ITEMS)
    return any(_is_in_figures(item, figures, depth + 1) for item in first_items)


def _figure_of(value: Any) -> object:
    """Return the figure that an artist, or a grid of seaborn, is drawn in; None without one."""
    figure = value.figure
    # A figure inside a figure has the outer one there; the outermost has itself.
    while is_instance_if_loaded(figure, "matplotlib.figure", "SubFigure"):
        figure = figure.figure
    return figure


def draw_png(figure: Any, side: int) -> bytes:
    """Return a figure as PNG, with the description of its chart.

    Args:
        figure: A figure of matplotlib.
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


def _tight_box(figure: Any) -> object:
    """Return the box around what a figure shows, in inches. matplotlib finds the same box for
    "tight", but draws the figure once more for it."""
    get_renderer = getattr(figure, "_get_renderer", None)  # since matplotlib 3.6
    padding = sys.modules["matplotlib"].rcParams["savefig.pad_inches"]
    is_numeric = isinstance(padding, (int, float))
    # A layout engine moves things while the figure is drawn.
    if get_renderer is None or not is_numeric or figure.get_layout_engine() is not None:
        return "tight"
    return figure.get_tightbbox(get_renderer()).padded(padding)
