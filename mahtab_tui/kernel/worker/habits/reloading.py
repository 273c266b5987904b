"""Reloads changed modules of the project before a cell."""

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
    """Remembers the modification times of loaded modules. Files of the project are those below the working directory, without installed
    packages."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def note(self) -> None:
        """Remember the files of modules that were loaded since the last call."""
        for name, _, path in _project_modules():
            if name not in self._seen:
                self._seen[name] = _changed(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        """Reload changed modules and replace their functions and classes in the namespace. Failures are printed."""
        for name, module, path in _project_modules():
            now = _changed(path)
            if name in self._seen and now and now != self._seen[name]:
                self._seen[name] = now
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # raised by the module's code
                    print(f"{name} has changed, but cannot be reloaded: {type(error).__name__}: {error}")
                else:
                    print(f"{name} has changed and was reloaded")


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
    """Return a file's modification time in nanoseconds; 0 if it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Otherwise bytecode would be taken for current if the source has the same size and was changed within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))
    for name, value in list(namespace.items()):
        for attribute in (name, *(other for other, old in before.items() if old is value)):
            if before.get(attribute) is value and kind_of(value) in ("function", "class") and attribute in after:
                namespace[name] = after[attribute]
                break
