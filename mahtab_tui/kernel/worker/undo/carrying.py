"""States of objects on their way from a checkpoint to the living process. Objects that live on both sides go by address, all others by value."""

from __future__ import annotations

import io
import types
from typing import Any, Callable

from ..statics import MISSING, loaded
from ..stdlib import late_import
from .isolated import refuse
from .part import ATOMS

_MISSING, _NAMESPACE = 0, 1
"""What stands for them, where an address would."""


def packed(value: Any, alive: set[int], namespace: dict[str, Any]) -> bytes:
    """A value as bytes; `alive`: the addresses of what lives on both sides. Raises whatever an object raises that cannot be carried."""
    pickle = late_import("pickle")
    harmless: dict[int, type] = {}

    class Pickler(pickle.Pickler):  # type: ignore[name-defined, misc]
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
            cls = type(thing)
            if cls is types.FunctionType and thing.__globals__ is namespace:
                fields = (thing.__defaults__, thing.__kwdefaults__, thing.__dict__)
                return _function, (_code_bytes(thing.__code__), namespace, thing.__name__, thing.__closure__), fields, None, None, _set_function
            if cls is types.CellType:
                return types.CellType, (), (_contents(thing),), None, None, _set_cell
            if cls is loaded("numpy", "ndarray"):
                return _array_parts(thing)
            if cls is loaded("pandas._libs.internals", "BlockValuesRefs"):
                return _refs, ([block for block in (found() for found in thing.referenced_blocks) if block is not None],)
            return NotImplemented

    buffer = io.BytesIO()
    Pickler(buffer, 4).dump(value)
    return buffer.getvalue()


def unpacked(data: bytes, at: Callable[[int], Any], namespace: dict[str, Any]) -> Any:
    """The value again; `at`: the living object of an address. Raises whatever an object raises that cannot be made."""
    pickle = late_import("pickle")

    class Unpickler(pickle.Unpickler):  # type: ignore[name-defined, misc]
        def persistent_load(self, address: int) -> Any:
            if address == _MISSING:
                return MISSING
            return namespace if address == _NAMESPACE else at(address)

    return Unpickler(io.BytesIO(data)).load()


def _code_bytes(code: types.CodeType) -> bytes:
    return bytes(late_import("marshal").dumps(code))


def _function(code: bytes, namespace: dict[str, Any], name: str, closure: Any) -> types.FunctionType:
    return types.FunctionType(late_import("marshal").loads(code), namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: Any) -> None:
    function.__defaults__, function.__kwdefaults__ = fields[0], fields[1]
    function.__dict__.update(fields[2])


def _refs(blocks: list[Any]) -> Any:
    """What pandas notes about blocks that share their data."""
    made = loaded("pandas._libs.internals", "BlockValuesRefs")()
    for block in blocks:
        made.add_reference(block)
    return made


def _set_cell(cell: Any, contents: Any) -> None:
    if contents is not MISSING:
        cell.cell_contents = contents


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _array_parts(array: Any) -> Any:
    """How an array is made again: over the memory of the array that it is a view of, so that it stays one."""
    owner = array.base
    if type(owner) is not type(array) or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return NotImplemented if array.flags.writeable else (_read_only, (array.copy(order="K"),))
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return _view, (owner, array.shape, array.dtype, offset, array.strides, array.flags.writeable)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _view(owner: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool) -> Any:
    made = loaded("numpy", "ndarray")(shape, dtype, owner if owner.flags.c_contiguous else owner.T, offset, strides)
    if not writeable:
        made.flags.writeable = False
    return made
