"""Reloads modules of the user whose files have changed, as `%autoreload` does."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import cache_from_source
from types import ModuleType

from ..cells.tracebacks import OUR_FOLDER
from ..values.objects import is_module, own_dict
from ..values.summaries import variable_kind
from .state import MagicContext, Reloading

_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    """Reloads modules of the user whose files have changed."""

    def __init__(self, *, automatic: bool = True) -> None:
        """automatic: whether modules are reloaded before each cell."""
        self._modified_ns: dict[str, int] = {}
        """When the files of modules were modified, in nanoseconds, by the module's name."""
        self.automatic = automatic
        self.excluded: set[str] = set()
        """The names of modules that `%aimport -NAME` excludes."""

    def note(self) -> None:
        """Remember the modules that have been imported since the last call."""
        for name, _, path in self._modules():
            if name not in self._modified_ns:
                self._modified_ns[name] = _modification_ns(path)

    def reload(self, namespace: dict[str, object]) -> None:
        """Reload the remembered modules that have changed."""
        for name, module, path in self._modules():
            if name in self.excluded:
                continue
            modified_ns = _modification_ns(path)
            if name in self._modified_ns and modified_ns not in (0, self._modified_ns[name]):
                self._modified_ns[name] = modified_ns
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # raised by the module's code
                    reason = f"{type(error).__name__}: {error}"
                    print(f"{name} has changed, but cannot be reloaded: {reason}")
                else:
                    print(f"{name} has changed and was reloaded")

    def _modules(self) -> Iterator[tuple[str, ModuleType, str]]:
        """Yield the names, modules and files of the user's modules."""
        for name, module in list(sys.modules.items()):
            if name == "__main__" or not is_module(module):
                continue
            path = own_dict(module).get("__file__")
            if type(path) is not str or path.startswith((_STANDARD_LIBRARY, OUR_FOLDER)):
                continue
            if path.endswith(".py") and "site-packages" not in path:
                yield name, module, path


def _modification_ns(path: str) -> int:
    """Return when a file was modified, in nanoseconds; 0 if there is no such file."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, object]) -> None:
    """Load a module again, and give the names that cells imported from it what it has now."""
    # Otherwise bytecode would count as current after a change within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(cache_from_source(path))
    old_attributes = dict(own_dict(module))
    new_attributes = own_dict(importlib.reload(module))

    # Names that a cell has imported from the module get its new functions and classes.
    for name, value in list(namespace.items()):
        if variable_kind(value) not in ("function", "class"):
            continue
        # Of several attributes, that of the same name counts.
        attributes = list(old_attributes)
        if old_attributes.get(name) is value:
            attributes.insert(0, name)
        for attribute in attributes:
            if old_attributes[attribute] is value and attribute in new_attributes:
                namespace[name] = new_attributes[attribute]
                break


def set_reloading(text: str, caller: MagicContext) -> None:
    """`%autoreload`: reload now, or before each cell, or not any more."""
    mode = text.strip()
    if Reloading.reloader is None:
        Reloading.reloader = Reloader(automatic=False)
    reloader = Reloading.reloader
    if not mode:
        reloader.reload(caller.namespace)
    elif mode in ("0", "1", "2", "3"):
        reloader.automatic = mode != "0"
    else:
        raise ValueError("%autoreload takes 1, 2 or 3 (on), 0 (off), or nothing (reload now)")


def import_and_reload(text: str, caller: MagicContext) -> None:
    """`%aimport`: import modules, and reload them when their files change; do not reload those with a
    minus sign any more."""
    if Reloading.reloader is None:
        Reloading.reloader = Reloader()
    excluded = Reloading.reloader.excluded
    for name in text.replace(",", " ").split():
        if name.startswith("-"):
            excluded.add(name[1:])
            continue
        excluded.discard(name)
        importlib.import_module(name)
        package = name.partition(".")[0]
        caller.namespace[package] = sys.modules[package]
