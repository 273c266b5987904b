"""The state of objects that a forked checkpoint does not keep, such as the position in a file,
which it shares with the kernel."""

from __future__ import annotations

import os
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Callable, NamedTuple, Protocol

from ..stdlib import belongs_to_worker
from ..values.objects import (
    address_of,
    as_library_type,
    get_if_loaded,
    has_weak_references,
    is_subclass,
    own_dict,
)
from .actions import Action, Unrestored
from .connections import has_same_settings, is_connection, read_connection, unknown_reason
from .opaque import file_class

_KERNEL_PID = os.getpid()
"""The process that imported this module; in a checkpoint, it is not that of `os.getpid`."""


class _Kind(Protocol):
    """Reads, compares and restores the state of one kind of objects."""

    def read(self, value: Any) -> Any:
        """Return an object's state."""

    def is_same(self, old_state: object, new_state: object) -> bool:
        """Return whether an object has not changed between two states."""

    def restore_action(self, value: object, old_state: object, new_state: object) -> Action | None:
        """Return what gives an object its old state, and reverts that; None if this is
        impossible."""


class _TableKind:
    """Tables and series of polars. Their state is a clone, which shares the columns' memory."""

    def read(self, value: Any) -> Any:
        return value.clone()

    def is_same(self, old_state: object, new_state: object) -> bool:
        """Return whether two tables are equal. Tables that cannot be compared are not the same."""
        old_table = _to_frame(old_state)
        new_table = _to_frame(new_state)
        try:
            has_same_schema = list(new_table.schema.items()) == list(old_table.schema.items())
            return bool(has_same_schema and new_table.equals(old_table, null_equal=True))
        except Exception:  # columns of Python objects cannot be compared
            return False

    def restore_action(self, value: object, old_state: object, new_state: object) -> Action:
        write = partial(_write_table, value)
        return Action(partial(write, old_state), partial(write, new_state))


class _TensorKind:
    """Tensors of torch. Their state is an alias, which tells the memory that they refer to; the numbers
    in this memory are compared by `mutations`."""

    def read(self, value: Any) -> Any:
        return as_library_type(value).detach()

    def is_same(self, old_state: object, new_state: object) -> bool:
        return _tensor_layout(old_state) == _tensor_layout(new_state)

    def restore_action(self, value: object, old_state: object, new_state: object) -> Action:
        write = partial(setattr, value, "data")
        return Action(partial(write, old_state), partial(write, new_state))


class _FileKind:
    """Open files. Their state is their position, and the size of a file that may be written, which an
    undo does not put back."""

    def read(self, value: Any) -> tuple[int, int] | None:
        """Return how far a file is read or written, and its size. Both are -1 if it is closed, and
        the size is -1 if it cannot be written or is unknown. None if the position is unknown, as
        for pipes and for compressed files that are written."""
        position = self._read_position(value)
        if position is None:
            return None
        return position, _read_size(value)

    def _read_position(self, value: Any) -> int | None:
        """Return the position as `read` does."""
        # Its methods are used, whatever a derived class says.
        cls = file_class(type(value))
        try:
            if cls.closed.__get__(value):
                return -1
            if not cls.seekable(value):
                return None
            is_written_text = hasattr(cls, "buffer") and cls.writable(value)
            if not is_written_text:
                return int(cls.tell(value))
            return _read_text_position(value, cls)
        except (OSError, ValueError, AttributeError):
            return None

    def is_same(self, old_state: object, new_state: object) -> bool:
        return bool(old_state == new_state)

    def restore_action(self, value: object, old_state: object, new_state: object) -> None:
        return None


class _ConnectionKind:
    """SQLite connections. Their state is what SQLite tells of their settings and schemas."""

    def read(self, value: object) -> object:
        """Return the settings and the schema that `read_connection` reads."""
        return read_connection(value)

    def is_same(self, old_state: object, new_state: object) -> bool:
        return has_same_settings(old_state, new_state)

    def restore_action(self, value: object, old_state: object, new_state: object) -> None:
        return None


_CONNECTION = _ConnectionKind()
_TABLE = _TableKind()
_TENSOR = _TensorKind()
_FILE = _FileKind()


class _Entry(NamedTuple):
    """An object and its state at one time."""

    reference: Callable[[], Any]
    """Returns the object; None if it has ended."""
    kind: _Kind
    state: Any


class SideState:
    """The state of files, polars tables, tensors and threads at one time."""

    def __init__(self, values: Iterable[Any]) -> None:
        """Note the state of those of the values that have such a state."""
        self._entries: list[_Entry] = []
        self._threads = set(running_threads())
        addresses: list[int] = []
        kinds_by_type: dict[int, _Kind | None] = {}
        for value in values:
            type_address = address_of(type(value))
            if type_address not in kinds_by_type:
                kinds_by_type[type_address] = _find_kind(type(value))
            kind = kinds_by_type[type_address]
            if kind is not None:
                self._entries.append(_Entry(_reference(value), kind, kind.read(value)))
                addresses.append(address_of(value))
        self.addresses = frozenset(addresses)
        """Addresses of the objects whose state is noted."""
        self._earlier_descriptors = self._read_descriptors()

    def find_too_large(self, max_bytes: int) -> frozenset[int]:
        """Return the addresses of the largest tables, without which all others have at most
        `max_bytes` together."""
        tables = sorted(
            (old_state.estimated_size(), address_of(table))
            for reference, kind, old_state in self._entries
            if kind is _TABLE and (table := reference()) is not None
        )
        totals = accumulate(size for size, _ in tables)
        return frozenset(
            address for (_, address), total in zip(tables, totals) if total > max_bytes
        )

    def find_differences(
        self, without: frozenset[int] = frozenset()
    ) -> Iterator[tuple[object, Action | None]]:
        """Yield the changed objects, and how to put them back, if possible. without: addresses of
        tables."""
        for reference, kind, old_state in self._entries:
            value = reference()
            if value is None or address_of(value) in without:
                continue
            new_state = kind.read(value)
            if kind.is_same(old_state, new_state):
                continue
            yield value, kind.restore_action(value, old_state, new_state)

    def file_descriptors(self) -> set[int]:
        """Return the descriptors that the files compared here have, and had then."""
        return self._earlier_descriptors | self._read_descriptors()

    def _read_descriptors(self) -> set[int]:
        descriptors: set[int] = set()
        for reference, kind, _ in self._entries:
            if kind is _FILE and (value := reference()) is not None:
                # Closed, or in memory; a closed compressed file has no attribute to ask.
                with suppress(OSError, ValueError, AttributeError):
                    descriptors.add(file_class(type(value)).fileno(value))
        return descriptors

    def find_unknown_files(self) -> Iterator[object]:
        """Yield the open files that do not tell how far they are read or written."""
        for reference, kind, position in self._entries:
            if kind is _FILE and position is None and (value := reference()) is not None:
                yield value

    def find_unknown_connections(self) -> Iterator[tuple[Any, str]]:
        """Yield the connections whose settings were not compared, with the reason."""
        for reference, kind, old_state in self._entries:
            if kind is _CONNECTION and (value := reference()) is not None:
                reason = unknown_reason(old_state) or unknown_reason(kind.read(value))
                if reason:
                    yield value, reason

    def find_started_threads(self) -> list[Unrestored]:
        """Name the user's threads that run now and did not run then."""
        return [
            Unrestored(thread.name, "this thread was started and is still running")
            for number, thread in running_threads().items()
            if number not in self._threads
        ]


def find_library_files(holders: Iterable[object]) -> list[Any]:
    """Return the open files of libraries: those of log handlers, and those that are attributes.

    holders: The modules, classes and objects with these attributes.
    """
    values = [value for holder in holders for value in list(own_dict(holder).values())]
    handlers = own_dict(sys.modules.get("logging")).get("_handlerList")
    if type(handlers) is list:
        references = [item for item in handlers if type(item) is weakref.ref]
        values += [own_dict(reference()).get("stream") for reference in references]
    return [value for value in values if file_class(type(value)) is not None]


def file_label(file: Any) -> str:
    """Return what an open file is called that no variable leads to."""
    try:
        path = os.readlink(f"/proc/self/fd/{file_class(type(file)).fileno(file)}")
    except (OSError, ValueError, AttributeError):  # closed
        return "a file"
    return os.path.basename(path)


def _reference(value: object) -> Callable[[], object]:
    """Return a weak reference; a strong one if the object cannot have one."""
    if has_weak_references(type(value)):
        return weakref.ref(value)
    return lambda: value


def _find_kind(cls: type) -> _Kind | None:
    if any(cls is get_if_loaded("polars", name) for name in ("DataFrame", "Series")):
        return _TABLE
    if is_subclass(cls, get_if_loaded("torch", "Tensor")):
        return _TENSOR
    if file_class(cls) is not None:
        return _FILE
    if is_connection(cls):
        return _CONNECTION
    return None


def running_threads() -> dict[int, Any]:
    """Return the running threads of the user's code and of libraries, by their number."""
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not _is_ours(thread)
    }


def _is_ours(thread: object) -> bool:
    """Return whether a thread is the worker's own, by the function that it runs."""
    target = own_dict(thread).get("_target")
    function = target
    if type(target) is types.MethodType:
        function = target.__func__
    if type(function) is not types.FunctionType:
        return False
    return belongs_to_worker(function.__globals__.get("__package__"))


def _to_frame(table: object) -> Any:
    """Return a table; for a series, a table of this one column."""
    if hasattr(table, "to_frame"):
        return table.to_frame()
    return table


def _write_table(table: Any, state: Any) -> None:
    # polars has no public way to replace what an object contains: a DataFrame keeps it in `_df`, a
    # Series in `_s`.
    field = "_df" if hasattr(table, "_df") else "_s"
    setattr(table, field, getattr(state.clone(), field))


def _tensor_layout(tensor: Any) -> tuple[object, ...]:
    """Return what differs if a tensor refers to other memory, or to the same in another way."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _read_size(file: Any) -> int:
    """Return the bytes of a file that may be written; -1 for others."""
    cls = file_class(type(file))
    try:
        if cls.writable(file):
            return os.fstat(cls.fileno(file)).st_size
    except (OSError, ValueError, AttributeError):  # closed, or in memory
        pass
    return -1


def _read_text_position(file: Any, cls: Any) -> int | None:
    """Return how far a text file is written, in bytes; None if this is unknown. cls: its class of
    `io`."""
    buffer = cls.buffer.__get__(file)
    buffer_class = file_class(type(buffer))
    if buffer_class is None:
        return None
    # Nothing tells how much text waits in the file, so it is written; in a fork of the kernel it would
    # be written twice.
    if os.getpid() == _KERNEL_PID:
        cls.flush(file)
    return int(buffer_class.tell(buffer))
