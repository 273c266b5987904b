"""Pickles objects on their way from a fork to the kernel, and says how pickles recreate objects.

An undo reads the earlier state of an object in a fork (`dump_state`), and the kernel restores it
(`load_state`). What the kernel still has is not copied: its address stands in the pickle.
`reduce_object` also serves the files of saved variables (`saving.pickling`).

Saved pickles name `_function`, `_set_function`, `_code`, `_set_cell`, `_read_only`, `_view` and
`_refs`, which must keep their names and parameters. `worker/former_names.py` lists the names that
the module had.
"""

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

# Persistent ids. All others are addresses of objects.
_MISSING_ID = 0
"""Stands for `MISSING` in a state."""
_NAMESPACE_ID = 1
"""Stands for the user's namespace in a state."""


class PythonVersionError(Exception):
    """Bytecode of another version of Python."""


def dump_state(value: object, alive: set[int], namespace: dict[str, object]) -> bytes:
    """Pickle a value in a fork, for the kernel.

    Args:
        value: The value.
        alive: The addresses of the objects that the kernel also has.
        namespace: The user's namespace.

    Raises:
        UnpicklableError: An object in the value cannot be restored.
        BaseException: What an object raises.
    """
    buffer = io.BytesIO()
    _StatePickler(buffer, alive, namespace).dump(value)
    return buffer.getvalue()


def load_state(
    data: bytes, find_object: Callable[[int], object], namespace: dict[str, object]
) -> Any:
    """Unpickle in the kernel what `dump_state` has returned in a fork.

    Args:
        data: The pickle.
        find_object: Returns the living object at an address.
        namespace: The user's namespace.
    """
    return _StateUnpickler(io.BytesIO(data), find_object, namespace).load()


class _StatePickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, alive: set[int], namespace: dict[str, object]) -> None:
        """The parameters are those of `dump_state`."""
        super().__init__(file, _PICKLE_PROTOCOL)
        self._alive = alive
        self._namespace = namespace
        self._harmless_classes: dict[int, type] = {}
        """By address; kept alive, so that no other class gets the address of one."""

    def persistent_id(self, item: object) -> int | None:
        """Return what stands for an object in the pickle; None for objects that are pickled."""
        cls = type(item)
        if address_of(cls) in ATOMS:
            return None
        if address_of(item) in self._alive:
            return address_of(item)
        if item is MISSING:
            return _MISSING_ID
        if item is self._namespace:
            return _NAMESPACE_ID
        if address_of(cls) not in self._harmless_classes:
            kind = opaque_kind(cls)
            if kind is not None:
                raise UnpicklableError(f"{kind.noun} cannot be restored")
            self._harmless_classes[address_of(cls)] = cls
        return None

    def reducer_override(self, item: object) -> Any:
        return reduce_object(item, self._namespace)


class _StateUnpickler(pickle.Unpickler):
    def __init__(
        self,
        file: io.BytesIO,
        find_object: Callable[[int], object],
        namespace: dict[str, object],
    ) -> None:
        """The parameters are those of `load_state`."""
        super().__init__(file)
        self._find_object = find_object
        self._namespace = namespace

    def persistent_load(self, persistent_id: int) -> object:
        if persistent_id == _MISSING_ID:
            return MISSING
        if persistent_id == _NAMESPACE_ID:
            return self._namespace
        return self._find_object(persistent_id)


def reduce_object(value: Any, namespace: dict[str, object]) -> Any:
    """Return how a pickle recreates an object.

    Args:
        value: The object.
        namespace: The user's namespace.

    Returns:
        What `reducer_override` may return: a function and its arguments, and perhaps a state that is
        set later. `NotImplemented` for objects that pickle reduces well by itself.
    """
    cls = type(value)
    if cls is types.FunctionType and value.__globals__ is namespace:
        return _reduce_function(value, namespace)
    if cls is types.CodeType:
        return _code, (_bytecode_version(), marshal.dumps(value))
    if cls is types.CellType:
        # Its contents are set later, because they may be the function that has the cell.
        return types.CellType, (), tuple(read_cell_contents(value)), None, None, _set_cell
    if cls is get_if_loaded("numpy", "ndarray"):
        return _reduce_array(value)
    if cls is get_if_loaded("pandas._libs.internals", "BlockValuesRefs"):
        holders = [reference() for reference in value.referenced_blocks]
        return _refs, ([holder for holder in holders if holder is not None],)
    if cls is get_if_loaded("pandas._libs.internals", "BlockPlacement"):
        return cls, (value.indexer,)
    return NotImplemented


# Functions of cells, their code, and the cells of their closures


def _reduce_function(
    function: types.FunctionType, namespace: dict[str, object]
) -> tuple[object, ...]:
    arguments = (function.__code__, namespace, function.__name__, function.__closure__)
    attributes = {
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "__annotations__": function.__annotations__,
    }
    # Set later, because they may contain the function itself.
    fields = (function.__defaults__, function.__kwdefaults__, function.__dict__, attributes)
    return _function, arguments, fields, None, None, _set_function


def _function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: Any
) -> types.FunctionType:
    """Recreate a function, without its fields."""
    return types.FunctionType(code, namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: tuple[Any, Any, Any, Any]) -> None:
    """Set the fields of a function, as `_reduce_function` has read them."""
    defaults, keyword_defaults, own_attributes, attributes = fields
    function.__defaults__ = defaults
    function.__kwdefaults__ = keyword_defaults
    function.__dict__.update(own_attributes)
    for name, value in attributes.items():
        setattr(function, name, value)


def _bytecode_version() -> bytes:
    return bytes(MAGIC_NUMBER)


def _code(bytecode_version: bytes, data: bytes) -> Any:
    """Recreate a code object. Raises `PythonVersionError` if another Python has saved it."""
    # The bytecode of another version can crash the interpreter.
    if bytecode_version != _bytecode_version():
        raise PythonVersionError
    return marshal.loads(data)


def _set_cell(cell: types.CellType, contents: tuple[Any]) -> None:
    """Set the contents of a closure's cell, unless it was empty."""
    if contents[0] is not MISSING:
        cell.cell_contents = contents[0]


# Arrays of NumPy


def _reduce_array(array: Any) -> Any:
    """Reduce a view so that it stays a view, and a read-only array so that it stays read-only, which
    pickle does not do."""
    owner = array.base
    is_view = type(owner) is type(array)
    if not is_view or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        if array.flags.writeable:
            return NotImplemented
        # The copy is writeable, so pickle reduces it by itself.
        return _read_only, (array.copy(order="K"),)
    offset_bytes = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    is_writeable = array.flags.writeable
    return _view, (owner, array.shape, array.dtype, offset_bytes, array.strides, is_writeable)


def _read_only(array: Any) -> Any:
    """Make a recreated array read-only."""
    array.flags.writeable = False
    return array


def _view(owner: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool) -> Any:
    """Recreate a view of an array, which begins `offset` bytes behind the array's first item."""
    # A buffer must be contiguous in the order of C. The transpose has the same memory.
    buffer = owner if owner.flags.c_contiguous else owner.T
    view = get_if_loaded("numpy", "ndarray")(shape, dtype, buffer, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view


# Tables of pandas


def _refs(holders: list[Any]) -> Any:
    """Recreate pandas' record of the blocks and indexes that share their data, by which it copies
    the data before one of them is changed."""
    references = get_if_loaded("pandas._libs.internals", "BlockValuesRefs")()
    block_class = get_if_loaded("pandas._libs.internals", "Block")
    for holder in holders:
        if is_subclass(type(holder), block_class):
            references.add_reference(holder)
        else:
            references.add_index_reference(holder)
    return references
