"""The worker's view of the standard library: neither a file in the working directory nor a cell can
replace what the worker uses.

`bind_library` runs before the first cell. It copies the modules that are loaded, and has the
worker's own modules refer to the copies. What the worker imports afterwards is copied as well:
`_OwnLoader` gives its modules a builtin `__import__` that does so. `late_import` and `own_module`
load modules that are needed later, from the folders that `sys.path` had at the start."""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, ModuleType
from typing import Any, ClassVar

_PATH = [entry for entry in sys.path if entry]
"""Folders of modules, as they were at the start, without the working directory and PYTHONPATH."""

_OURS = __name__.rpartition(".")[0] + "."
"""What the full names of the worker's modules begin with."""

_UNSHARED = ("ast", "json", "json.decoder", "json.encoder", "json.scanner", "traceback")
"""The user's code gets other copies, because these functions look each other up by name."""
_SHARED = ("__main__", "builtins", "linecache", "warnings")
"""Modules whose state the worker shares with the user's code."""
_bound: dict[str, ModuleType] = {}
"""Our copies of modules by name; empty if our modules see the library like everybody else."""
_builtins: dict[str, Any] = {}
"""Our builtins, once the library is bound."""
_own_modules: dict[str, ModuleType] = {}
"""Our loaded modules, which code may remove from `sys.modules`."""
_import = builtins.__import__
"""How everybody else imports."""


class _ThreadFinder(threading.local):
    """Finds our modules, and lets one thread import from other folders while cells use `sys.path`."""

    name = __name__.partition(".")[0]
    """Used to remove the finder from a Jupyter kernel."""
    path: list[str] | None = None
    """The folders for this thread; None for `sys.path`."""
    package_folders: ClassVar[dict[str, str]] = {}
    """By the names of packages, for all threads: folders that need not be on any path."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of ours, one of `package_folders`, or a top-level one if this thread imports from
        other folders; None for all others. The parameters are those of finders in `sys.meta_path`.

        Raises:
            ModuleNotFoundError: The folders of this thread do not have it. `sys.path` is not searched.
        """
        if _bound and name.startswith(_OURS):
            return _find_own_module(name, path)
        if name in self.package_folders:
            return _find_package(name, self.package_folders[name])
        is_inner_module = path is not None
        if self.path is None or is_inner_module:
            return None
        spec = self._find_in_own_path(name, target)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec

    def _find_in_own_path(self, name: str, target: Any) -> Any:
        """Ask the other finders, with the folders of this thread in place of `sys.path`."""
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            folders = None
            if finder is importlib.machinery.PathFinder:
                folders = self.path
            spec = finder.find_spec(name, folders, target)
            if spec is not None:
                return spec
        return None


def _find_own_module(name: str, path: Any) -> Any:
    """Return the spec of a module of ours, which gets our builtins; None if there is none."""
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is not None:
        spec.loader = _OwnLoader(name, str(spec.origin))
    return spec


def _find_package(name: str, folder: str) -> importlib.machinery.ModuleSpec:
    """Return the spec of a package in a folder that need not be on any path."""
    file = os.path.join(folder, "__init__.py")
    loader = importlib.machinery.SourceFileLoader(name, file)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=file, is_package=True)
    spec.submodule_search_locations = [folder]
    spec.has_location = True
    return spec


_FINDER = _ThreadFinder()


class _OwnLoader(importlib.machinery.SourceFileLoader):
    """Runs a module of ours with our builtins."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = _builtins
        super().exec_module(module)


class _BoundSys(ModuleType):
    """`sys` with the functions that it had. Everything else is as it is now."""

    def __getattr__(self, name: str) -> object:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(sys, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(sys, name)


def bind_library() -> None:
    """Bind the library's state for our modules, before the user's code can replace anything."""
    own_modules: list[ModuleType] = []
    for name, module in list(sys.modules.items()):
        if type(module) is not ModuleType:
            continue
        if name.startswith(_OURS):
            own_modules.append(module)
        elif name not in _SHARED:
            _bound[name] = copy_module(module)
    _bound["sys"] = _bind_sys()
    for module in [*own_modules, *_bound.values()]:
        _refer_to_bound(module)
    for name in _UNSHARED:
        sys.modules.pop(name, None)
    _note_own_modules()
    _builtins.update(vars(builtins), __import__=_import_bound)
    sys.meta_path.insert(0, _FINDER)


def _bind_sys() -> ModuleType:
    """Return our `sys`."""
    bound_sys = _BoundSys("sys")
    for key, value in vars(sys).items():
        if type(value) is BuiltinFunctionType and not key.endswith("hook"):
            vars(bound_sys)[key] = value
    vars(bound_sys)["modules"] = sys.modules
    return bound_sys


def _refer_to_bound(module: ModuleType) -> None:
    """Replace the modules that a module has imported by our copies."""
    for key, value in list(vars(module).items()):
        is_bound = type(value) is ModuleType and value.__name__ in _bound
        # This module itself needs the real `sys`.
        if is_bound and (module.__name__, key) != (__name__, "sys"):
            vars(module)[key] = _bound[value.__name__]


def copy_module(module: ModuleType) -> ModuleType:
    """Return a module with the same variables, which nobody else replaces."""
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module))
    return copy


def _import_bound(
    name: str, names: Any = None, local_names: Any = None, wanted_names: Any = (), level: int = 0
) -> ModuleType:
    """Import for our modules, which get a library as it was when the first of them used it. The
    parameters are those of `__import__`."""
    if level == 0 and name in _bound:
        # `import a.b` binds `a`, and `from a.b import c` looks into `a.b`.
        return _bound[name if wanted_names else name.partition(".")[0]]
    module = _import(name, names, local_names, wanted_names or (), level)
    is_own_module = level > 0  # ours are imported relative to each other
    is_shared = type(module) is not ModuleType or name in _SHARED
    if is_own_module or is_shared or module.__name__ != name:
        return module
    _bound[name] = copy_module(module)
    return _bound[name]


def _is_loading(module: object) -> bool:
    """Return whether another thread is still loading a module."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def late_import(name: str) -> ModuleType:
    """Import a module that takes too long at the start (asyncio: 40 ms, 8 MiB)."""
    loaded = sys.modules.get(name)
    if loaded is not None and not _is_loading(loaded):
        return loaded
    with importing_from(_PATH):
        return importlib.import_module(name)


def leave_user_path() -> None:
    """Import only from the folders that `sys.path` had at the start, from now on. This is for a process
    that runs none of the user's code."""
    sys.path[:] = _PATH


def own_module(name: str) -> Any:
    """Return a module of the worker, also if code has removed it from `sys.modules`."""
    full_name = _OURS + name
    worker_module = _own_modules.get(full_name)
    if worker_module is not None:
        return worker_module
    # A second copy of a module would have other classes and constants than the first.
    for loaded_name, loaded in _own_modules.items():
        sys.modules.setdefault(loaded_name, loaded)
    module = late_import(full_name)
    _note_own_modules()
    return module


def _note_own_modules() -> None:
    """Remember our modules that are loaded completely."""
    for name, module in list(sys.modules.items()):
        if belongs_to_worker(name) and not _is_loading(module):
            _own_modules[name] = module


def belongs_to_worker(module_name: object) -> bool:
    """Return whether a module is the worker's, by what the user's code calls its full name."""
    return type(module_name) is str and f"{module_name}.".startswith(_OURS)


def load_package(name: str, folder: str) -> ModuleType:
    """Return a package whose folder need not be on any path, once it is loaded completely.

    Args:
        name: Under which it is loaded, whatever the folder's own name.
        folder: The folder of its `__init__.py`.
    """
    _FINDER.package_folders[name] = folder
    return late_import(name)


@contextmanager
def importing_from(path: list[str]) -> Iterator[None]:
    """Import modules from these folders, not from `sys.path`, on this thread."""
    if _FINDER not in sys.meta_path:
        # Never removed: a thread that iterates over the list would skip a finder.
        sys.meta_path.insert(0, _FINDER)
    old_path = _FINDER.path
    _FINDER.path = path
    try:
        yield
    finally:
        _FINDER.path = old_path


def is_ours(name: str) -> bool:
    """Return whether the user's import of a module gives the same one as ours."""
    our_spec = importlib.machinery.PathFinder.find_spec(name, _PATH)
    user_spec = importlib.machinery.PathFinder.find_spec(name)
    if our_spec is None or user_spec is None:
        return False
    return our_spec.origin == user_spec.origin
