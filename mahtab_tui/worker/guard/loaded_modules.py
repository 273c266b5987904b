"""Tells which modules code loads, as soon as each of them has been loaded."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, Callable

from ..cells.tracebacks import CELL

_IMPORT_FILE = "<frozen importlib._bootstrap>"
"""Python leaves the frames of this file out of the tracebacks of imports."""


_MAIN = "__main__"
"""The name of the module of cells."""

_IMPORTING_MODULES = ("importlib", "importlib._bootstrap", "_frozen_importlib")


class _Depth(threading.local):
    """How many imports a thread is in."""

    imports = 0


def watch_imports(on_loaded: Callable[[str], object]) -> None:
    """Call a function after each import that loads modules and is not part of another import.

    It lasts as long as the process, and covers all threads. The user's own import hooks run as always,
    inside the import. After an import that fails, the function is not called. When it is called, its
    thread holds no lock of a module, so other threads can go on importing.

    Args:
        on_loaded: Gets the name of the module if a cell's own code has imported it, or code that it
            has given to `exec`; otherwise an empty text. Called on the thread that imports it.
    """
    importlib: Any = sys.modules["_frozen_importlib"]
    original: Any = getattr(importlib, "_find_and_load", None)
    if original is None:  # not CPython
        return
    depth = _Depth()

    def find_and_load(name: str, import_: object) -> object:
        depth.imports += 1
        try:
            module = original(name, import_)
            if depth.imports == 1:
                on_loaded(name if _is_cell(sys._getframe(1)) else "")
            return module
        finally:
            depth.imports -= 1

    # Replaced, so that tracebacks of failed imports look as always.
    find_and_load.__code__ = find_and_load.__code__.replace(co_filename=_IMPORT_FILE)
    importlib._find_and_load = find_and_load


def _is_cell(frame: FrameType | None) -> bool:
    """Return whether an import in a frame is a cell's, also by `importlib.import_module`."""
    while frame is not None and frame.f_globals.get("__name__") in _IMPORTING_MODULES:
        frame = frame.f_back
    if frame is None:
        return False
    return frame.f_code.co_filename.startswith(CELL) or frame.f_globals.get("__name__") == _MAIN
