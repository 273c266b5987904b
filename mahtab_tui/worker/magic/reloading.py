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

_NO_FILE = 0
"""Stands for the time at which a file that does not exist was modified."""
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    """Reloads modules of the user whose files have changed.

    A module of the user is one with a Python file that belongs neither to the standard library nor to
    `site-packages` nor to this program. It is reloaded if its file has changed since the end of the cell
    that imported it, or since it was reloaded.
    """

    def __init__(self, *, automatic: bool) -> None:
        """
        Args:
            automatic: Whether changed modules are reloaded before each cell.
        """
        self._modified_ns: dict[str, int] = {}
        """When the files of the remembered modules were modified, in nanoseconds, by the name of the
        module; `_NO_FILE` if there was none."""
        self.automatic = automatic
        """Whether the caller of `reload` calls it before each cell."""
        self.excluded: set[str] = set()
        """The names of the modules that `%aimport -NAME` excludes."""

    def remember_new_modules(self) -> None:
        """Remember the modules that have been imported since the last call, and when their files were
        modified. It is called after each cell, so that later changes of the files are noticed."""
        for name, _, path in self._modules():
            if name not in self._modified_ns:
                self._modified_ns[name] = _modification_ns(path)

    def reload(self, namespace: dict[str, object]) -> None:
        """Reload the remembered modules whose files have changed, and print which. A module whose code
        raises an error is not tried again until its file changes once more.

        Args:
            namespace: The namespace of the cells. Functions and classes that were imported from a reloaded
                module are replaced in it.
        """
        for name, module, path in self._modules():
            if name in self.excluded:
                continue
            if name not in self._modified_ns:
                continue
            modified_ns = _modification_ns(path)
            if modified_ns in (_NO_FILE, self._modified_ns[name]):
                continue
            self._modified_ns[name] = modified_ns
            try:
                _reload(module, path, namespace)
            except Exception as error:  # raised by the module's code
                reason = f"{type(error).__name__}: {error}"
                print(f"{name} has changed, but cannot be reloaded: {reason}")
            else:
                print(f"{name} has changed and was reloaded")

    def _modules(self) -> Iterator[tuple[str, ModuleType, str]]:
        """Yield the user's modules, each with its name and the path of its file."""
        for name, module in list(sys.modules.items()):
            if name == "__main__" or not is_module(module):
                continue
            path = own_dict(module).get("__file__")
            if type(path) is not str or path.startswith((_STANDARD_LIBRARY, OUR_FOLDER)):
                continue
            if path.endswith(".py") and "site-packages" not in path:
                yield name, module, path


def _modification_ns(path: str) -> int:
    """Return when a file was modified, in nanoseconds; `_NO_FILE` if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return _NO_FILE


def _reload(module: ModuleType, path: str, namespace: dict[str, object]) -> None:
    """Run the code of a module again, and replace the functions and classes that cells have imported from
    it: after `from tools import clean as c`, `c` becomes the new `tools.clean`.

    Args:
        path: The file of the module.
        namespace: The namespace of the cells.
    """
    # Python takes its compiled code for current if the file's size and the second of its change are the
    # same as before.
    with suppress(OSError, NotImplementedError):
        os.unlink(cache_from_source(path))
    old_attributes = dict(own_dict(module))
    new_attributes = own_dict(importlib.reload(module))

    for name, value in list(namespace.items()):
        if variable_kind(value) not in ("function", "class"):
            continue
        old_names = [
            attribute
            for attribute, old_value in old_attributes.items()
            if old_value is value and attribute in new_attributes
        ]
        if old_names:
            # The module may have had one object under several names, which are now different objects.
            attribute = name if name in old_names else old_names[0]
            namespace[name] = new_attributes[attribute]


def set_reloading(text: str, caller: MagicContext) -> None:
    """`%autoreload`: reload changed modules now (no argument), before each cell (1, 2 or 3), or not any
    more (0). Raises ValueError for other arguments."""
    mode = text.strip()
    if Reloading.reloader is None:
        # A new one reloads nothing yet: it knows what has changed from now on.
        Reloading.reloader = Reloader(automatic=False)
    reloader = Reloading.reloader
    if not mode:
        reloader.reload(caller.namespace)
    elif mode in ("0", "1", "2", "3"):
        reloader.automatic = mode != "0"
    else:
        raise ValueError("%autoreload takes 1, 2 or 3 (on), 0 (off), or nothing (reload now)")


def import_and_reload(text: str, caller: MagicContext) -> None:
    """`%aimport NAME, …`: import modules, and reload them when their files change. A module with a minus
    sign before its name is not reloaded any more. Raises what an import raises."""
    if Reloading.reloader is None:
        # `%aimport` asks for reloading whenever files change, so it switches that on.
        Reloading.reloader = Reloader(automatic=True)
    excluded = Reloading.reloader.excluded
    for name in text.replace(",", " ").split():
        if name.startswith("-"):
            excluded.add(name[1:])
            continue
        excluded.discard(name)
        importlib.import_module(name)
        package = name.partition(".")[0]
        caller.namespace[package] = sys.modules[package]
