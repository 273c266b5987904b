"""Reloads changed modules before a cell: `Reloader`, %autoreload and %aimport."""

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
from ..tracebacks import HERE
from . import magics

_STANDARD = os.path.join(os.path.dirname(os.__file__), "")


class Reloader:
    """Remembers the modification times of loaded modules, and reloads those whose file has
    changed."""

    def __init__(self, *, everywhere: bool = False, automatic: bool = True) -> None:
        """everywhere: also modules outside the working directory, but no installed packages.
        automatic: reload before each cell."""
        self._seen: dict[str, int] = {}
        self._everywhere = everywhere
        self.automatic = automatic

    def note(self) -> None:
        """Remember the files of modules that were loaded since the last call."""
        for name, _, path in _own_modules(everywhere=self._everywhere):
            if name not in self._seen:
                self._seen[name] = _changed(path)

    def reload(self, namespace: dict[str, Any]) -> None:
        """Reload changed modules and replace their functions and classes in the namespace. Failures
        are printed."""
        for name, module, path in _own_modules(everywhere=self._everywhere):
            now = _changed(path)
            if name in self._seen and now and now != self._seen[name]:
                self._seen[name] = now
                try:
                    _reload(module, path, namespace)
                except Exception as error:  # raised by the module's code
                    print(
                        f"{name} has changed, but cannot be reloaded: {type(error).__name__}: {error}"
                    )
                else:
                    print(f"{name} has changed and was reloaded")


def autoreload(rest: str, caller: magics.Caller) -> None:
    """Turn reloading on or off, or reload changed modules once, as the extension of IPython
    does."""
    mode = rest.strip().lower()
    loaded = magics.Reloading.reloader
    reloader = (
        loaded
        if isinstance(loaded, Reloader) and loaded._everywhere
        else Reloader(everywhere=True, automatic=False)
    )
    if mode in ("", "now"):
        reloader.reload(caller.namespace)
    elif mode in ("0", "off", "1", "explicit", "2", "complete", "3", "all"):
        reloader.automatic = mode not in ("0", "off")
    else:
        raise ValueError("%autoreload takes 2 (on), 0 (off), or nothing (reload now)")
    magics.Reloading.reloader = reloader


def load_ext(rest: str, caller: magics.Caller) -> None:
    """Begin to watch modules for %autoreload; other extensions are not there."""
    if rest.strip() == "autoreload":
        magics.Reloading.reloader = magics.Reloading.reloader or Reloader(
            everywhere=True, automatic=False
        )
    else:
        print(
            f"\x1b[2m%load_ext {rest.strip()} does nothing here: extensions are a feature of IPython.\x1b[22m"
        )


reload_ext = load_ext


def aimport(rest: str, caller: magics.Caller) -> None:
    """Import modules, which are reloaded like all others when their file has changed."""
    for name in filter(None, rest.replace(",", " ").split()):
        if not name.startswith("-"):
            importlib.import_module(name)
            caller.namespace[name.partition(".")[0]] = sys.modules[name.partition(".")[0]]
    magics.Reloading.reloader = magics.Reloading.reloader or Reloader(everywhere=True)


def _own_modules(*, everywhere: bool) -> Iterator[tuple[str, ModuleType, str]]:
    try:
        project = "" if everywhere else os.path.join(os.path.realpath(os.getcwd()), "")
    except OSError:  # the working directory was deleted
        return
    for name, module in list(sys.modules.items()):
        path = (
            own_dict(module).get("__file__") if is_module(module) and name != "__main__" else None
        )
        if (
            type(path) is not str
            or not path.endswith(".py")
            or "site-packages" in path
            or path.startswith((_STANDARD, HERE))
        ):
            continue
        if os.path.realpath(path).startswith(project):
            yield name, module, path


def _changed(path: str) -> int:
    """Return a file's modification time in nanoseconds; 0 if it is gone."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reload(module: ModuleType, path: str, namespace: dict[str, Any]) -> None:
    # Otherwise bytecode would be taken for current if the source has the same size and was changed
    # within the same second.
    with suppress(OSError, NotImplementedError):
        os.unlink(importlib.util.cache_from_source(path))
    before = dict(own_dict(module))
    after = own_dict(importlib.reload(module))
    for name, value in list(namespace.items()):
        for attribute in (name, *(other for other, old in before.items() if old is value)):
            if (
                before.get(attribute) is value
                and kind_of(value) in ("function", "class")
                and attribute in after
            ):
                namespace[name] = after[attribute]
                break
