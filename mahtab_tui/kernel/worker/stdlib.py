"""Late imports, of the standard library and of what needs it, that a file in the working directory cannot hijack."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import threading
from types import ModuleType

_PATH = [entry for entry in sys.path if entry]
"""`sys.path` as it was while the worker was loaded: without the working directory and PYTHONPATH."""

_ONE_AT_A_TIME = threading.RLock()


def late_import(name: str) -> ModuleType:
    """Import what is too slow to import for everybody (asyncio: 40 ms, 8 MiB)."""
    loaded = sys.modules.get(name)
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):  # another thread may still be at it
        return loaded
    with _ONE_AT_A_TIME:  # two would take each other's `sys.path` for the person's
        path = sys.path
        sys.path = list(_PATH)
        try:
            return importlib.import_module(name)
        finally:
            sys.path = path


def is_ours(name: str) -> bool:
    """Whether the person who imports a module gets the one that `late_import` gets, and none of their own by that name."""
    ours, theirs = (importlib.machinery.PathFinder.find_spec(name, path) for path in (_PATH, None))
    return ours is not None and theirs is not None and ours.origin == theirs.origin
