"""Gives the functions and classes of cells to processes that `multiprocessing` starts with an empty
`__main__` (spawn, forkserver)."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from .keeping.pickling import load_cloudpickle
from .statics import descends
from .stdlib import late_import

_LOAD = """
import importlib.util, pickle, sys
sys.path[:] = path
spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
package = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.modules["__main__"].__dict__.update(pickle.loads(definitions))
"""
"""Runs in the child before it reads its task."""


class _Definitions:
    """Loads functions and classes into `__main__` of the process that unpickles this."""

    def __init__(self, definitions: bytes, package: Any) -> None:
        names = {
            "path": list(sys.path),
            "name": package.__name__,
            "folder": package.__path__[0],
            "definitions": definitions,
        }
        self._code = _LOAD, names

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, self._code


def install(namespace: dict[str, Any], folder: str) -> None:
    """Send the definitions with each process from now on. namespace: of `__main__`. folder: of
    cloudpickle; empty if it is not known."""
    spawn: Any = late_import("multiprocessing.spawn")
    plain = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = plain(name)
        package = _find_cloudpickle(folder)
        if package is not None and (definitions := _pickled(namespace, package)):
            data["definitions"] = _Definitions(definitions, package)
        return data

    spawn.get_preparation_data = get_preparation_data


def _find_cloudpickle(folder: str) -> Any:
    if not folder:
        spec = late_import("importlib.util").find_spec("cloudpickle")
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = spec.submodule_search_locations[0]
    return load_cloudpickle(folder)


def _pickled(namespace: dict[str, Any], package: Any) -> bytes:
    """Pickle what cells have defined; without what cannot be pickled, of which the child says that
    it is missing."""
    found = {name: value for name, value in list(namespace.items()) if _is_of_cells(value)}
    if not found:
        return b""
    try:
        return bytes(package.dumps(found))
    except Exception:  # a value that a function uses, or a class of the user's
        return bytes(
            package.dumps(
                {name: value for name, value in found.items() if _can_be_pickled(value, package)}
            )
        )


def _is_of_cells(value: object) -> bool:
    if type(value) is not FunctionType and not descends(type(value), type):
        return False
    try:
        return bool(value.__module__ == "__main__")
    except Exception:  # of a metaclass of the user's
        return False


def _can_be_pickled(value: object, package: Any) -> bool:
    try:
        package.dumps(value)
    except Exception:
        return False
    return True
