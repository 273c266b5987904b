"""Adapts IPython and other libraries to this kernel when a cell imports them.

Their code asks for a notebook's front end, which a terminal is not. If IPython is not installed, a cell
that imports it gets modules of its names, with what this kernel has of it.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from typing import Any

from ..cells.tracebacks import CELL
from ..stdlib import late_import
from .ipython import DISPLAY_NAMES
from .notes import note_widgets

_IPYTHON_VERSION = (9, 0, 0)
"""Version of the IPython whose names are here."""
_DISPLAY_FUNCTIONS = (
    "DisplayHandle display update_display clear_output publish_display_data".split()
)
_WORKER_FOLDER = os.path.dirname(os.path.dirname(__file__))
_importing: set[str] = set()
"""Libraries that `prepare_import` is importing now."""


def prepare_import(name: str) -> None:
    """Adapt a library that a cell is about to import to this kernel and a terminal."""
    # The import below comes here again.
    if name in _importing:
        return
    if name == "ipywidgets":
        if _is_imported_by_cell() and _has_module(name):
            note_widgets()
        return

    _importing.add(name)
    try:
        _adapt(name)
    except ImportError:
        pass  # the cell's own import says what is missing
    finally:
        _importing.discard(name)


def _adapt(name: str) -> None:
    """Import a library, and replace what does not work here. Raises `ImportError`."""
    if name == "tqdm.notebook":
        _adapt_tqdm()
    elif not _has_module("IPython"):
        # Other libraries must not believe that IPython is installed.
        if _is_imported_by_cell():
            _add_ipython()
    elif name == "IPython.core.display_functions":
        module = _import_for_cell(name)
        for function_name in _DISPLAY_FUNCTIONS:
            setattr(module, function_name, DISPLAY_NAMES[function_name])
    elif name == "IPython.core.getipython":
        _import_for_cell(name).get_ipython = builtins.__dict__["get_ipython"]


def _is_imported_by_cell() -> bool:
    """Return whether a line of a cell imports, rather than a library that tries what is there."""
    frame: types.FrameType | None = sys._getframe(1)
    # Between the cell and here there is nothing but Python's import system and the worker.
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename.startswith(CELL):
            return True
        if "importlib" not in filename and not filename.startswith(_WORKER_FOLDER):
            return False
        frame = frame.f_back
    return False


def _has_module(name: str) -> bool:
    """Return whether a module is loaded or installed."""
    if name in sys.modules:
        return True
    return late_import("importlib.machinery").PathFinder.find_spec(name) is not None


def _import_for_cell(name: str) -> Any:
    """Import a module from where cells import it. Raises `ImportError`."""
    return late_import("importlib").import_module(name)


def _adapt_tqdm() -> None:
    """Replace the progress bars of notebooks with those of terminals."""
    notebook = _import_for_cell("tqdm.notebook")
    bars = _import_for_cell("tqdm.std")
    notebook.tqdm = notebook.tqdm_notebook = bars.tqdm
    notebook.trange = notebook.tnrange = bars.trange


def _add_ipython() -> None:
    """Add modules with the names of IPython, which is not installed."""
    package = types.ModuleType("IPython", "The part of IPython that cells use, by mahtab-tui.")
    display_module = types.ModuleType("IPython.display", "IPython's displays, by mahtab-tui.")
    # Older code imports the displays from here.
    core_display_module = types.ModuleType("IPython.core.display", display_module.__doc__)
    for module in (display_module, core_display_module):
        vars(module).update(DISPLAY_NAMES, __getattr__=_explain_missing)
    vars(package).update(
        __path__=[],
        __version__=".".join(map(str, _IPYTHON_VERSION)),
        version_info=_IPYTHON_VERSION,
        display=display_module,
        get_ipython=builtins.__dict__["get_ipython"],
    )
    modules = (package, display_module, types.ModuleType("IPython.core"), core_display_module)
    sys.modules.update({module.__name__: module for module in modules})


def _explain_missing(name: str) -> object:
    """Raise `AttributeError` for a name of IPython that is not here. Python calls this."""
    # Python itself asks for names such as `__wrapped__`.
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"{name} needs IPython, which is not installed (%pip install ipython)")
