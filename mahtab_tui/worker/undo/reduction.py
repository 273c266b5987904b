"""Objects on their way between the kernel and its forks, and into the files of saved variables.

Saved pickles name the functions of this module, which must keep their names and parameters.
`worker/former_names.py` lists the names that the module had."""

from __future__ import annotations

import io
import marshal
import pickle
import types
from importlib.util import MAGIC_NUMBER
from typing import Any, Callable

from ..values.objects import ATOMS, MISSING, address_of, get_if_loaded, is_subclass
from .fork_writer import UnpicklableError
from .opaque import opaque_kind
from .parts import read_cell_contents

_PICKLE_PROTOCOL = 4
_MISSING_ID = 0
"""Stands for `MISSING` in a state."""
_NAMESPACE_ID = 1
"""Stands for the namespace in a state. All other persistent ids are addresses."""


class PythonVersionError(Exception):
    """Bytecode of another version of Python."""


def dump_state(value: object, alive: set[int], namespace: dict[str, object]) -> bytes:
    """Pickle a value of a fork, with addresses in place of objects that the kernel has, too.

    Args:
        value: The value.
        alive: The addresses of these objects.
        namespace: The user's.

    Raises:
        UnpicklableError: An object in it cannot be restored.
        BaseException: What an object raises.
    """
    harmless_classes: dict[int, type] = {}
    """By address; kept alive, so that no other class gets the address of one."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, item: object) -> int | None:
            cls = type(item)
            if address_of(cls) in ATOMS:
                return None
            if address_of(item) in alive:
                return address_of(item)
            if item is MISSING:
                return _MISSING_ID
            if item is namespace:
                return _NAMESPACE_ID
            if address_of(cls) not in harmless_classes:
                kind = opaque_kind(cls)
                if kind is not None:
                    raise UnpicklableError(f"{kind.noun} cannot be restored")
                harmless_classes[address_of(cls)] = cls
            return None

        def reducer_override(self, item: object) -> Any:
            return reduce_object(item, namespace)

    buffer = io.BytesIO()
    Pickler(buffer, _PICKLE_PROTOCOL).dump(value)
    return buffer.getvalue()


def load_state(
    data: bytes, find_object: Callable[[int], object], namespace: dict[str, object]
) -> Any:
    """Unpickle in the kernel what `dump_state` has returned in a fork.

    Args:
        data: The pickle.
        find_object: Returns the living object at an address.
        namespace: The user's.
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, persistent_id: int) -> object:
            if persistent_id == _MISSING_ID:
                return MISSING
            if persistent_id == _NAMESPACE_ID:
                return namespace
            return find_object(persistent_id)

    return Unpickler(io.BytesIO(data)).load()


def reduce_object(value: Any, namespace: dict[str, object]) -> Any:
    """Return how a pickle recreates an object, as `reducer_override` does; `NotImplemented` for
    objects that pickle reduces well by itself."""
    cls = type(value)
    if cls is types.FunctionType and value.__globals__ is namespace:
        return _reduce_function(value, namespace)
    if cls is types.CodeType:
        return _code, (_bytecode_version(), marshal.dumps(value))
    if cls is types.CellType:
        return types.CellType, (), tuple(read_cell_contents(value)), None, None, _set_cell
    if cls is get_if_loaded("numpy", "ndarray"):
        return _reduce_array(value)
    if cls is get_if_loaded("pandas._libs.internals", "BlockValuesRefs"):
        holders = [reference() for reference in value.referenced_blocks]
        return _refs, ([holder for holder in holders if holder is not None],)
    if cls is get_if_loaded("pandas._libs.internals", "BlockPlacement"):
        return cls, (value.indexer,)
    return NotImplemented


# Functions


def _reduce_function(
    function: types.FunctionType, namespace: dict[str, object]
) -> tuple[object, ...]:
    attributes = {
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "__annotations__": function.__annotations__,
    }
    # Set later, because they may contain the function itself.
    fields = (function.__defaults__, function.__kwdefaults__, function.__dict__, attributes)
    arguments = (function.__code__, namespace, function.__name__, function.__closure__)
    return _function, arguments, fields, None, None, _set_function


def _function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: Any
) -> types.FunctionType:
    return types.FunctionType(code, namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: tuple[Any, Any, Any, Any]) -> None:
    defaults, keyword_defaults, own_attributes, attributes = fields
    function.__defaults__ = defaults
    function.__kwdefaults__ = keyword_defaults
    function.__dict__.update(own_attributes)
    for name, value in attributes.items():
        setattr(function, name, value)


def _bytecode_version() -> bytes:
    return bytes(MAGIC_NUMBER)


def _code(bytecode_version: bytes, data: bytes) -> Any:
    # The bytecode of another version can crash the interpreter.
    if bytecode_version != _bytecode_version():
        raise PythonVersionError
    return marshal.loads(data)


def _set_cell(cell: types.CellType, contents: tuple[Any]) -> None:
    if contents[0] is not MISSING:
        cell.cell_contents = contents[0]


# Arrays


def _reduce_array(array: Any) -> Any:
    """Reduce a view so that it stays a view."""
    owner = array.base
    is_view = type(owner) is type(array)
    if not is_view or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        if array.flags.writeable:
            return NotImplemented
        return _read_only, (array.copy(order="K"),)
    # Bytes from the start of its owner's memory.
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    is_writeable = array.flags.writeable
    return _view, (owner, array.shape, array.dtype, offset, array.strides, is_writeable)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _view(owner: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool) -> Any:
    buffer = owner if owner.flags.c_contiguous else owner.T
    view = get_if_loaded("numpy", "ndarray")(shape, dtype, buffer, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view


def _refs(holders: list[Any]) -> Any:
    """Make pandas' notes about blocks and indexes that share their data."""
    references = get_if_loaded("pandas._libs.internals", "BlockValuesRefs")()
    block_class = get_if_loaded("pandas._libs.internals", "Block")
    for holder in holders:
        if is_subclass(type(holder), block_class):
            references.add_reference(holder)
        else:
            references.add_index_reference(holder)
    return references
