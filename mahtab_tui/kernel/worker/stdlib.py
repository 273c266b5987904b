"""Late imports, of the standard library and of what needs it, that a file in the working directory cannot hijack."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_PATH = [entry for entry in sys.path if entry]
"""`sys.path` as it was while the worker was loaded: without the working directory and PYTHONPATH."""


def late_import(name: str) -> ModuleType:
    """Import what is too slow to import for everybody (asyncio: 40 ms, 8 MiB)."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    path = sys.path
    sys.path = list(_PATH)
    try:
        return importlib.import_module(name)
    finally:
        sys.path = path
