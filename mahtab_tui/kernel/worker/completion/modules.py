"""Modules and their members, without importing any."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..statics import is_module, own_dict
from .candidates import Candidate, fixed
from .describing import describe, doc_line

LARGEST = 2_000_000
"""Bytes of a source file that is read for its names."""

_SUFFIXES = (".py", ".so", ".pyd", ".pyc")


def module_names(package: str) -> Iterator[Candidate]:
    """The modules in a package, or all that can be imported by one name."""
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
    """What can be imported from a module, its own modules included."""
    found = sys.modules.get(module)
    if found is not None:
        yield from _members(found)
    else:
        for name in _names_in_source(module):
            yield Candidate(name, fixed("data", f"of {module}"))
    yield from (candidate._replace(order=2) for candidate in module_names(module))


def module_members(module: object) -> dict[str, Any]:
    """The names of a module that is loaded, those that it promises in `__all__` included (None: not loaded yet)."""
    own = own_dict(module)
    names: dict[str, Any] = {name: value for name, value in list(own.items()) if type(name) is str}
    promised = own.get("__all__")
    if isinstance(promised, (list, tuple)):
        names.update((name, None) for name in promised if type(name) is str and name not in names)
    return names


def _members(module: object) -> Iterator[Candidate]:
    for name, value in module_members(module).items():
        yield Candidate(name, lambda name=name, value=value: describe(name, value))  # type: ignore[misc]


def _described(name: str) -> Any:
    return lambda: ("module", doc_line(sys.modules.get(name)))


def _folders(package: str) -> list[str]:
    """Where the modules of a package are; of the empty one, where imports are looked for."""
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    found = sys.modules.get(package)
    if is_module(found):
        path = own_dict(found).get("__path__", ())
        try:
            return [str(entry) for entry in path]
        except Exception:  # whatever a module has put there
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
    """The modules in a folder, as it was at a time (a key of the cache: the folder's own time of change)."""
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name, dot, _ = entry.name.partition(".")
            if (not dot and entry.is_dir() and name != "__pycache__") or entry.name.endswith(_SUFFIXES):
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
    """The names that a source file binds at its own level."""
    from ..marks import bound_names

    try:
        if os.path.getsize(path) > LARGEST:
            return []
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(bound_names(ast.parse(file.read())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
