"""Finds the user's own modules. Their state is undone like the namespace; that of libraries is not, since much of it must stay."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import ModuleType
from typing import Any

from ..statics import is_module, own_dict


def own_modules() -> dict[str, ModuleType]:
    """Return the modules, by name, that are neither in the standard library nor among installed packages."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = tuple(os.path.join(place, "") for place in {*places, *map(os.path.realpath, places), ours} if place)
    return {name: module for name, module in list(sys.modules.items()) if is_module(module) and _is_own(module, foreign)}


def _is_own(module: Any, foreign: tuple[str, ...]) -> bool:
    names = own_dict(module)
    file = names.get("__file__")
    if type(file) is not str or not file.endswith(".py") or names.get("__name__") == "__main__":
        return False
    return not os.path.abspath(file).startswith(foreign) and "site-packages" not in file and "dist-packages" not in file
