"""States of objects on their way from a checkpoint to the living process. Objects that live on both sides go by address, all others by value."""

from __future__ import annotations

import io
import types
from typing import Any, Callable

from ..statics import MISSING
from ..stdlib import late_import
from .isolated import refuse
from .part import ATOMS

_MISSING, _NAMESPACE = 0, 1
"""What stands for them, where an address would."""


def packed(value: Any, alive: set[int] | dict[int, Any], namespace: dict[str, Any], cloudpickle: str = "") -> bytes:
    """A value as bytes; `alive`: the addresses of what lives on both sides. Raises whatever an object raises that cannot be carried."""
    pickle = late_import("pickle")
    if not cloudpickle:
        return _dumped(value, pickle.Pickler, alive, namespace)
    return _dumped(value, _cloudpickle(cloudpickle).Pickler, alive, namespace)


def unpacked(data: bytes, at: Callable[[int], Any], namespace: dict[str, Any]) -> Any:
    """The value again; `at`: the living object of an address. Raises whatever an object raises that cannot be made."""
    pickle = late_import("pickle")

    class Unpickler(pickle.Unpickler):  # type: ignore[name-defined, misc]
        def persistent_load(self, address: int) -> Any:
            if address == _MISSING:
                return MISSING
            return namespace if address == _NAMESPACE else at(address)

    return Unpickler(io.BytesIO(data)).load()


def _dumped(value: Any, base: Any, alive: set[int] | dict[int, Any], namespace: dict[str, Any]) -> bytes:
    harmless: dict[int, type] = {}

    class Pickler(base):  # type: ignore[misc]
        def persistent_id(self, thing: Any) -> int | None:
            if id(type(thing)) in ATOMS:
                return None
            if id(thing) in alive:
                return id(thing)
            if thing is MISSING:
                return _MISSING
            if thing is namespace:
                return _NAMESPACE
            if id(type(thing)) not in harmless:
                refuse(thing)
                harmless[id(type(thing))] = type(thing)
            return None

        def reducer_override(self, thing: Any) -> Any:
            if type(thing) is types.FunctionType and thing.__globals__ is namespace:
                fields = (thing.__defaults__, thing.__kwdefaults__, thing.__dict__)
                return _function, (_code_bytes(thing.__code__), namespace, thing.__name__, thing.__closure__), fields, None, None, _set_function
            if type(thing) is types.CellType:
                try:
                    contents = thing.cell_contents
                except ValueError:
                    contents = MISSING
                return types.CellType, (), (contents,), None, None, _set_cell
            inherited = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(thing)

    buffer = io.BytesIO()
    Pickler(buffer, 4).dump(value)
    return buffer.getvalue()


def _code_bytes(code: types.CodeType) -> bytes:
    return bytes(late_import("marshal").dumps(code))


def _function(code: bytes, namespace: dict[str, Any], name: str, closure: Any) -> types.FunctionType:
    return types.FunctionType(late_import("marshal").loads(code), namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: Any) -> None:
    function.__defaults__, function.__kwdefaults__ = fields[0], fields[1]
    function.__dict__.update(fields[2])


def _set_cell(cell: Any, contents: Any) -> None:
    if contents[0] is not MISSING:
        cell.cell_contents = contents[0]


def _cloudpickle(folder: str) -> Any:
    """The package in this folder, which the user's environment need not have."""
    import sys

    if "cloudpickle" in sys.modules:
        return sys.modules["cloudpickle"]
    path = sys.path
    sys.path = [folder, *path]
    try:
        return late_import("importlib").import_module("cloudpickle")
    finally:
        sys.path = path
