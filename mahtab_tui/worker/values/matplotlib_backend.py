"""Makes pyplot draw for the transcript, and says whether we show its figures."""

from __future__ import annotations

import sys
from typing import Any

from ..stdlib import own_module
from .objects import class_dict, get_if_loaded, is_class

_FILE_BACKENDS = ("agg", "cairo", "pdf", "ps", "svg", "pgf", "template")
"""matplotlib's backends that only write files, and whose figures we show."""


def choose_backend() -> None:
    """Make pyplot draw for the transcript, unless a backend was chosen.

    Called while matplotlib loads.
    """
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    # Bypass its `__getitem__`, which would choose a backend.
    if isinstance(parameters, dict) and not isinstance(dict.get(parameters, "backend"), str):
        parameters["backend"] = "agg"
    manager = get_if_loaded("matplotlib.backend_bases", "FigureManagerBase")
    if is_class(manager) and class_dict(manager)["show"] is not _show_figure:
        manager.show = _show_figure


def _show_figure(manager: Any) -> None:
    if has_file_backend():
        own_module("values.displays").display(manager.canvas.figure)


def open_figures() -> list[Any]:
    """Return the figures that pyplot shows at the end of the cell, in their order; none if its
    backend has a screen, which shows them itself."""
    if not has_file_backend():
        return []
    managers = sys.modules["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()
    return [manager.canvas.figure for manager in sorted(managers, key=_figure_number)]


def _figure_number(manager: Any) -> Any:
    return manager.num


def has_file_backend() -> bool:
    """Return whether pyplot is loaded and has no screen, so that we show its figures."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", {})
    backend = dict.get(parameters, "backend")
    is_screenless = isinstance(backend, str) and backend.lower() in _FILE_BACKENDS
    return is_screenless and hasattr(pyplot, "get_fignums")
