"""Tells the user's own modules from those of the standard library and of installed packages, by their files.

Undo compares the objects in the former like variables; the latter only as far as code can change them through the
names that it mentions (`libraries`).
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types

from ..values.objects import is_module, own_dict

_LIBRARY_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
"""Names of `sysconfig` for the folders of the standard library and of installed packages."""
_OUR_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
"""Names of folders of installed packages, wherever they are."""


def user_modules() -> dict[str, types.ModuleType]:
    """Return the modules that are neither in the standard library nor in installed packages."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if is_module(module) and _is_user_module(module)
    }


@functools.lru_cache(maxsize=1)
def _foreign_folders() -> tuple[str, ...]:
    """Return the folders of the standard library, of installed packages and of this one."""
    folders = {sysconfig.get_path(name) for name in _LIBRARY_FOLDERS}
    return tuple(
        os.path.join(folder, "")
        for folder in {*folders, *map(os.path.realpath, folders), _OUR_FOLDER}
    )


def is_of_library(file: str) -> bool:
    """Return whether a file of code is of the standard library, an installed package or this one."""
    if file.startswith(("<frozen ", *_foreign_folders())):
        return True
    return any(folder in file for folder in _PACKAGE_FOLDERS)


def _is_user_module(module: types.ModuleType) -> bool:
    """Return whether a module was read from a file of the user's."""
    names = own_dict(module)
    file = names.get("__file__")
    if type(file) is not str or not file.endswith(".py") or names.get("__name__") == "__main__":
        return False
    return not is_of_library(os.path.abspath(file))
