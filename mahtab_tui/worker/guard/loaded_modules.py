"""Tells when an import has loaded modules, and which one a cell has imported."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, Callable

from ..cells.tracebacks import CELL

_IMPORT_FILE = "<frozen importlib._bootstrap>"
"""The file that Python names for its import system. It leaves the frames of this file out of the
tracebacks of imports that fail."""

_MAIN = "__main__"
"""The name of the module of cells."""

_IMPORTING_MODULES = ("importlib", "importlib._bootstrap", "_frozen_importlib")
"""The modules whose frames stand between the code that imports and the function that loads."""


class _Depth(threading.local):
    """How many imports a thread is in: 2 while a module that is being imported imports another one."""

    imports = 0


def watch_imports(on_loaded: Callable[[str], object]) -> None:
    """Call a function after each import that is not part of another one and may have loaded modules.

    If a cell imports `a`, and `a` imports `b`, the function is called once, when both are loaded. It is
    not called after an import that fails, nor by an `import` of modules that are all loaded already; but
    `importlib.import_module` of such a module does call it.

    This lasts as long as the process, and covers all threads. The user's own import hooks run as always,
    inside the import. When the function is called, its thread holds no lock of a module, so other threads
    can go on importing. On interpreters other than CPython, it is never called.

    Args:
        on_loaded: Gets the full name of the module if a cell's own code has imported it, or code that
            the cell has given to `exec`; otherwise an empty text. Called on the thread that imports. What
            it raises, the import raises.
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

    # The function gets the file name of Python's own, so that its frame is left out of the tracebacks of
    # failed imports, and these look as always.
    find_and_load.__code__ = find_and_load.__code__.replace(co_filename=_IMPORT_FILE)
    importlib._find_and_load = find_and_load


def _is_cell(frame: FrameType | None) -> bool:
    """Return whether the code of a cell imports, also by `importlib.import_module`.

    Args:
        frame: The caller of the function that loads; None if there is none.
    """
    while frame is not None and frame.f_globals.get("__name__") in _IMPORTING_MODULES:
        frame = frame.f_back
    if frame is None:
        return False
    return frame.f_code.co_filename.startswith(CELL) or frame.f_globals.get("__name__") == _MAIN
