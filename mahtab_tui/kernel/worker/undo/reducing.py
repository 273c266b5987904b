"""How objects are pickled that pickle itself would copy, or refuse: functions of cells, closures,
and arrays that share memory.

The namespace itself must be given to the pickler by a persistent id: functions keep it as their
globals.
"""

from __future__ import annotations

import types
from typing import Any

from ..statics import MISSING, descends, loaded
from ..stdlib import late_import
from .parts import contents_of


class PythonVersionError(Exception):
    """The bytecode was compiled by another version of Python."""


def reduced(thing: Any, namespace: dict[str, Any]) -> Any:
    """Return the result of a `reducer_override` for an object; `NotImplemented` for most."""
    cls = type(thing)
    if cls is types.FunctionType and thing.__globals__ is namespace:
        described = {
            name: getattr(thing, name) for name in ("__qualname__", "__doc__", "__annotations__")
        }
        fields = (thing.__defaults__, thing.__kwdefaults__, thing.__dict__, described)
        return (
            _function,
            (thing.__code__, namespace, thing.__name__, thing.__closure__),
            fields,
            None,
            None,
            _set_function,
        )
    if cls is types.CodeType:
        return _code, (_magic(), late_import("marshal").dumps(thing))
    if cls is types.CellType:
        return types.CellType, (), tuple(contents_of(thing)), None, None, _set_cell
    if cls is loaded("numpy", "ndarray"):
        return _array_parts(thing)
    if cls is loaded("pandas._libs.internals", "BlockValuesRefs"):
        return _refs, (
            [
                holder
                for holder in (found() for found in thing.referenced_blocks)
                if holder is not None
            ],
        )
    if cls is loaded("pandas._libs.internals", "BlockPlacement"):
        return cls, (thing.indexer,)
    return NotImplemented


def _magic() -> bytes:
    return bytes(late_import("importlib.util").MAGIC_NUMBER)


def _code(magic: bytes, data: bytes) -> Any:
    if magic != _magic():  # the bytecode of another version can crash the interpreter
        raise PythonVersionError
    return late_import("marshal").loads(data)


def _function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: Any
) -> types.FunctionType:
    return types.FunctionType(code, namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: Any) -> None:
    function.__defaults__, function.__kwdefaults__ = fields[0], fields[1]
    function.__dict__.update(fields[2])
    for name, value in fields[3].items():
        setattr(function, name, value)


def _refs(holders: list[Any]) -> Any:
    """Notes of pandas about blocks and indexes that share their data."""
    made = loaded("pandas._libs.internals", "BlockValuesRefs")()
    for holder in holders:
        is_block = descends(type(holder), loaded("pandas._libs.internals", "Block"))
        (made.add_reference if is_block else made.add_index_reference)(holder)
    return made


def _set_cell(cell: Any, fields: Any) -> None:
    if fields[0] is not MISSING:
        cell.cell_contents = fields[0]


def _array_parts(array: Any) -> Any:
    """How an array is made again: over the memory of the array that it is a view of, so that it
    stays one."""
    owner = array.base
    if type(owner) is not type(array) or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return NotImplemented if array.flags.writeable else (_read_only, (array.copy(order="K"),))
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return _view, (owner, array.shape, array.dtype, offset, array.strides, array.flags.writeable)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _view(owner: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool) -> Any:
    made = loaded("numpy", "ndarray")(
        shape, dtype, owner if owner.flags.c_contiguous else owner.T, offset, strides
    )
    if not writeable:
        made.flags.writeable = False
    return made
