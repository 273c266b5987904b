"""Late imports that a file in the working directory cannot hijack."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_PATH = [entry for entry in sys.path if entry]
"""`sys.path` while the worker was loaded, without the working directory and PYTHONPATH."""


class _PathOfThread(threading.local):
    """A finder that lets one thread import from folders of its own. `sys.path` itself stays as it is, because cells use it at the same time."""

    name = __name__.partition(".")[0]
    """Our package: the finder leaves a kernel of Jupyter's with it."""
    path: list[str] | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module that is in no package; raises `ModuleNotFoundError`, so that `sys.path` is not searched afterwards."""
        if self.path is None or path is not None:
            return None
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, self.path if finder is importlib.machinery.PathFinder else None, target)
                if spec is not None:
                    return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


_FINDER = _PathOfThread()


def late_import(name: str) -> ModuleType:
    """Import a module that is too slow to import at the start (asyncio: 40 ms, 8 MiB)."""
    loaded = sys.modules.get(name)
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):  # another thread may still be loading it
        return loaded
    with importing_from(_PATH):
        return importlib.import_module(name)


def load_package(name: str, folder: str) -> ModuleType:
    """Load the package in a folder under a name of our own, so that it is not the user's package of that name."""
    known = sys.modules.get(name)
    if known is not None:
        return known
    util = late_import("importlib.util")
    with importing_from(_PATH):
        spec: Any = util.spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
        package: ModuleType = util.module_from_spec(spec)
        sys.modules[name] = package
        try:
            spec.loader.exec_module(package)
        except BaseException:
            del sys.modules[name]
            raise
    return package


@contextmanager
def importing_from(path: list[str]) -> Iterator[None]:
    """Take modules from these folders, instead of those in `sys.path`, on this thread."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)  # it stays: if it was removed, a thread that is going through the list would skip a finder
    before, _FINDER.path = _FINDER.path, path
    try:
        yield
    finally:
        _FINDER.path = before


def is_ours(name: str) -> bool:
    """Tell whether the user's import of a module gives the same module as `late_import`, not their own of that name."""
    ours, theirs = (importlib.machinery.PathFinder.find_spec(name, path) for path in (_PATH, None))
    return ours is not None and theirs is not None and ours.origin == theirs.origin
