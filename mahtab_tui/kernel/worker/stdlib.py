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

_ONE_AT_A_TIME = threading.RLock()


def late_import(name: str) -> ModuleType:
    """Import a module that is too slow to import at the start (asyncio: 40 ms, 8 MiB)."""
    loaded = sys.modules.get(name)
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):  # another thread may still be loading it
        return loaded
    with _our_path():
        return importlib.import_module(name)


def load_package(name: str, folder: str) -> ModuleType:
    """Load the package in a folder under a name of our own, so that it is not the user's package of that name."""
    known = sys.modules.get(name)
    if known is not None:
        return known
    util = late_import("importlib.util")
    with _our_path():
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
def _our_path() -> Iterator[None]:
    with _ONE_AT_A_TIME:  # a second thread would take our `sys.path` for the user's
        path = sys.path
        sys.path = list(_PATH)
        try:
            yield
        finally:
            sys.path = path


def is_ours(name: str) -> bool:
    """Tell whether the user's import of a module gives the same module as `late_import`, not their own of that name."""
    ours, theirs = (importlib.machinery.PathFinder.find_spec(name, path) for path in (_PATH, None))
    return ours is not None and theirs is not None and ours.origin == theirs.origin
