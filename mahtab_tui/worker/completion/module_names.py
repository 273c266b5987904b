"""Names of modules that can be imported, and of what is in them, without importing them."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

from ..cells.compiling import bound_names
from ..values.objects import is_module, own_dict

MAX_SOURCE_BYTES = 2_000_000
"""Larger files are not read."""
_SUFFIXES = (".py", ".so", ".pyd", ".pyc")
_SPECIAL_NAMES = ("__init__", "__pycache__", "__main__")


def find_module_names(package: str) -> list[str]:
    """Return the names of modules in a package; those of top-level modules without one."""
    names: set[str] = set()
    if not package:
        names.update(sys.builtin_module_names, getattr(sys, "stdlib_module_names", ()))
        names.update(name for name in list(sys.modules) if "." not in name)
    for folder in _folders(package):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                name, dot, _ = entry.name.partition(".")
                is_package = not dot and _is_folder(entry)
                if entry.name.endswith(_SUFFIXES) or is_package:
                    names.add(name)
    return [name for name in names.difference(_SPECIAL_NAMES) if name.isidentifier()]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry leads to a folder; a link that leads to itself does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def module_members(module: object) -> dict[str, Any]:
    """Return what a loaded module has, and what it only announces in `__all__`."""
    names = {name: value for name, value in list(own_dict(module).items()) if type(name) is str}
    exported = own_dict(module).get("__all__")
    if isinstance(exported, (list, tuple)):
        for name in exported:
            if type(name) is str:
                names.setdefault(name, None)
    return names


def find_member_names(module: str) -> frozenset[str]:
    """Return the names that the source of a module binds; none if there is no source."""
    parent, _, name = module.rpartition(".")
    for folder in _folders(parent):
        for path in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
            if os.path.isfile(path):
                return _names_in_file(path)
    return frozenset()


def _names_in_file(path: str) -> frozenset[str]:
    try:
        with open(path, "rb") as file:
            source = file.read(MAX_SOURCE_BYTES + 1)
        if len(source) > MAX_SOURCE_BYTES:
            return frozenset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bound_names(ast.parse(source))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _folders(package: str) -> list[str]:
    """Return the folders in which the modules of a package are; those of `sys.path` without one."""
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    loaded_module = sys.modules.get(package)
    if is_module(loaded_module):
        try:
            return [str(entry) for entry in own_dict(loaded_module).get("__path__", ())]
        except Exception:  # a module may have put anything there
            return []
    parent, _, name = package.rpartition(".")
    folders = (os.path.join(folder, name) for folder in _folders(parent))
    return [folder for folder in folders if os.path.isdir(folder)]
