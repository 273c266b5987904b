"""Shows matplotlib's figures, by `plt.show()` or at the end of the cell that drew them."""

from __future__ import annotations

import sys
from typing import Any

from ..statics import class_dict, is_class, loaded

BACKEND = f"module://{__package__}.backend"
_WITHOUT_SCREEN = ("agg", "cairo", "pdf", "ps", "svg", "pgf", "template")
"""matplotlib's own backends that only write files."""


def choose_backend() -> None:
    """Make ours pyplot's backend, unless the user or pyplot has chosen one. Called while matplotlib
    loads."""
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    # Bypass its `__getitem__`, which would choose a backend.
    if isinstance(parameters, dict) and not isinstance(dict.get(parameters, "backend"), str):
        parameters["backend"] = BACKEND
    manager = loaded("matplotlib.backend_bases", "FigureManagerBase")
    if is_class(manager) and class_dict(manager)["show"] is not _show_figure:
        manager.show = _show_figure


def _show_figure(manager: Any) -> None:
    """Show a figure by `plt.show()` where a script has chosen a backend that draws on no screen,
    such as Agg."""
    from .displays import display

    if _ours():
        display(manager.canvas.figure)


def png_of(figure: Any, side: int) -> bytes:
    """Draw a figure in its own size, with at most about `side` pixels on a side."""
    from io import BytesIO

    file = BytesIO()
    dpi = min(figure.dpi, side / max(figure.get_size_inches()))
    figure.savefig(
        file, format="png", dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor()
    )
    return file.getvalue()


def close_figure(figure: Any) -> None:
    """Make pyplot forget a figure that has been shown, so that it is not shown again."""
    if _ours():
        canvas = figure.canvas
        sys.modules["matplotlib.pyplot"].close(figure)
        figure.set_canvas(canvas)  # matplotlib 3.11 takes it away, but later cells may draw on it


def show_all() -> None:
    """Show pyplot's open figures."""
    from .displays import display

    if _ours():
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            display(pyplot.figure(number))


def _ours() -> bool:
    pyplot = sys.modules.get("matplotlib.pyplot")
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", {})
    backend = dict.get(parameters, "backend")
    return (
        hasattr(pyplot, "get_fignums")
        and isinstance(backend, str)
        and (backend == BACKEND or backend.lower() in _WITHOUT_SCREEN)
    )
