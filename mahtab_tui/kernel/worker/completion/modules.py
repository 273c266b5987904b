"""Finds modules and their members without importing any."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..statics import is_module, own_dict
from ..variables import bound_names
from .candidates import Candidate, doc_line, fixed, named

LARGEST = 2_000_000
"""Larger source files (in bytes) are not searched for names."""

_SUFFIXES = (".py", ".so", ".pyd", ".pyc")


def module_names(package: str) -> Iterator[Candidate]:
    """Yield the modules in a package; without a package, all top-level modules."""
    names: set[str] = set()
    if not package:
        names.update(sys.builtin_module_names, getattr(sys, "stdlib_module_names", ()))
        names.update(name for name in list(sys.modules) if "." not in name)
    for folder in _folders(package):
        names.update(_modules_in(folder))
    for name in names:
        if name.isidentifier() and name != "__main__":
            yield Candidate(name, _described(f"{package}.{name}" if package else name))


def member_names(module: str) -> Iterator[Candidate]:
    """Yield what can be imported from a module, including submodules."""
    found = sys.modules.get(module)
    if found is not None:
        yield from (named(name, value) for name, value in module_members(found).items())
    else:
        for name in _names_in_source(module):
            yield Candidate(name, fixed("data", f"of {module}"))
    yield from (candidate._replace(order=2) for candidate in module_names(module))


def module_members(module: object) -> dict[str, Any]:
    """Return the names of a loaded module; those in `__all__` that are not loaded yet have the
    value None."""
    own = own_dict(module)
    names: dict[str, Any] = {name: value for name, value in list(own.items()) if type(name) is str}
    exported = own.get("__all__")
    if isinstance(exported, (list, tuple)):
        names.update((name, None) for name in exported if type(name) is str and name not in names)
    return names


def _described(name: str) -> Any:
    return lambda: ("module", doc_line(sys.modules.get(name)))


def _folders(package: str) -> list[str]:
    """Return the folders of a package's modules; without a package, the import path."""
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    found = sys.modules.get(package)
    if is_module(found):
        path = own_dict(found).get("__path__", ())
        try:
            return [str(entry) for entry in path]
        except Exception:  # a module may have put anything there
            return []
    parent, _, name = package.rpartition(".")
    folders = (os.path.join(folder, name) for folder in _folders(parent))
    return [folder for folder in folders if os.path.isdir(folder)]


def _modules_in(folder: str) -> frozenset[str]:
    try:
        return _listed(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(512)
def _listed(folder: str, changed: int) -> frozenset[str]:
    """List the modules in a folder. changed: the folder's modification time, a key of the cache."""
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name, dot, _ = entry.name.partition(".")
            if (not dot and entry.is_dir() and name != "__pycache__") or entry.name.endswith(
                _SUFFIXES
            ):
                names.add(name)
    names.discard("__init__")
    return frozenset(names)


def _names_in_source(module: str) -> list[str]:
    parent, _, name = module.rpartition(".")
    for folder in _folders(parent):
        for path in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
            if os.path.isfile(path):
                return _top_level(path)
    return []


def _top_level(path: str) -> list[str]:
    """Return the names that a source file binds at its top level."""
    try:
        if os.path.getsize(path) > LARGEST:
            return []
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(bound_names(ast.parse(file.read())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
