"""Lets processes that `multiprocessing` starts find the functions and classes of cells, which are
in no file."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from ..stdlib import late_import
from ..values.objects import is_subclass
from .cloudpickle_copy import load_cloudpickle

_LOAD_DEFINITIONS = """
import importlib.util, pickle, sys
sys.path[:] = path
spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
package = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.modules["__main__"].__dict__.update(pickle.loads(definitions))
"""
"""Code that the new process runs."""


class _Definitions:
    """Loads functions and classes into `__main__` of another process."""

    def __init__(self, definitions: bytes, package: Any) -> None:
        """Note what the other process needs.

        Args:
            definitions: The functions and classes by name, pickled by cloudpickle.
            package: Cloudpickle, which the other process loads from the same folder.
        """
        self._names = {
            "path": list(sys.path),
            "name": package.__name__,
            "folder": package.__path__[0],
            "definitions": definitions,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (_LOAD_DEFINITIONS, self._names)


def install(namespace: dict[str, object], folder: str) -> None:
    """Send definitions of `__main__` with each process from now on, and raise an audit event for it.

    Args:
        namespace: The user's namespace.
        folder: The folder of cloudpickle; empty if unknown.
    """
    spawn: Any = late_import("multiprocessing.spawn")
    original_function = spawn.get_preparation_data
    # Several imports lead here, so that it may be wrapped already. An undo may bring another copy of
    # the module, in which it is not.
    if original_function.__module__ == __name__:
        return

    def get_preparation_data(name: str) -> dict[str, Any]:
        # Python raises no event for a process that multiprocessing spawns. It prepares the server
        # from which it forks others in the same way.
        if sys._getframe(1).f_globals.get("__name__") != "multiprocessing.forkserver":
            sys.audit("mahtab_tui.process", name)
        data: dict[str, Any] = original_function(name)
        package = _find_cloudpickle(folder)
        if package is None:
            return data
        definitions = _pickle_definitions(namespace, package)
        if definitions:
            data["definitions"] = _Definitions(definitions, package)
        return data

    spawn.get_preparation_data = get_preparation_data


def _find_cloudpickle(folder: str) -> object:
    """Return cloudpickle, without a folder that of the user; None if there is none."""
    if not folder:
        spec = late_import("importlib.util").find_spec("cloudpickle")
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = spec.submodule_search_locations[0]
    return load_cloudpickle(folder)


def _pickle_definitions(namespace: dict[str, object], package: Any) -> bytes:
    """Return the functions and classes of cells as bytes, as far as they can be pickled: the new
    process reports the others as missing. Empty if there are none."""
    definitions = {
        name: value for name, value in list(namespace.items()) if _is_cell_definition(value)
    }
    if not definitions:
        return b""
    try:
        return bytes(package.dumps(definitions))
    except Exception:  # a value that a function uses, or a class of the user's
        transferable = {
            name: value for name, value in definitions.items() if _can_be_pickled(value, package)
        }
        return bytes(package.dumps(transferable))


def _is_cell_definition(value: object) -> bool:
    if type(value) is not FunctionType and not is_subclass(type(value), type):
        return False
    try:
        return bool(value.__module__ == "__main__")
    except Exception:  # raised by a metaclass of the user's
        return False


def _can_be_pickled(value: object, package: Any) -> bool:
    try:
        package.dumps(value)
    except Exception:
        return False
    return True
