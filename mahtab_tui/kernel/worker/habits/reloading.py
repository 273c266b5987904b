"""Modules of the project, loaded anew before a cell when their file has changed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from ..statics import is_module, own_dict
from ..summary import kind_of


class Reloader:
    """Knows how the files of the loaded modules were when it last looked. Files of the project: those below the working directory,
    but for installed packages."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def note(self) -> None:
        """Remember the files of modules that were loaded since the last time."""
        for name, _, path in _project_modules():
            if name not in self._seen:
                self._seen[name] = _changed(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        """Load what has changed anew. Functions and classes that the namespace has from there are replaced; what goes wrong is printed."""
        for name, module, path in _project_modules():
            now = _changed(path)
            if name in self._seen and now and now != self._seen[name]:
                self._seen[name] = now
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # the module's own code
                    print(f"{name} was changed, but cannot be loaded anew: {type(error).__name__}: {error}")
                else:
                    print(f"{name} was changed, and is loaded anew")


def _project_modules() -> Iterator[tuple[str, ModuleType, str]]:
    try:
        project = os.path.join(os.path.realpath(os.getcwd()), "")
    except OSError:  # the working directory was deleted
        return
    for name, module in list(sys.modules.items()):
        path = own_dict(module).get("__file__") if is_module(module) and name != "__main__" else None
        if type(path) is str and path.endswith(".py") and "site-packages" not in path and os.path.realpath(path).startswith(project):
            yield name, module, path


def _changed(path: str) -> int:
    """When a file was changed last, in nanoseconds; 0 where it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Compiled code counts as that of a source of the same second and size.
    with suppress(OSError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))
    for name, value in list(namespace.items()):
        for attribute in (name, *(other for other, old in before.items() if old is value)):
            if before.get(attribute) is value and kind_of(value) in ("function", "class") and attribute in after:
                namespace[name] = after[attribute]
                break
