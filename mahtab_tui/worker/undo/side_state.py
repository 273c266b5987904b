"""The state of objects that a forked checkpoint does not keep, such as the position in a file, which
it shares with the kernel."""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Callable, NamedTuple

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
from .parts import file_class

_KERNEL_PID = os.getpid()
"""The process that imported this module; in a checkpoint, it is not that of `os.getpid`."""


class _SideKind(NamedTuple):
    """Objects whose state a fork does not keep, or does not show."""

    read: Callable[[Any], Any]
    """Returns an object's state."""
    is_same: Callable[[Any, Any], bool]
    """Compares an earlier and a later state."""
    write: Callable[[Any, Any], object] | None
    """Gives an object a state; None if this is impossible."""


class _Entry(NamedTuple):
    """An object and its state at one time."""

    reference: Callable[[], Any]
    """Returns the object; None if it has ended."""
    kind: _SideKind
    state: Any


class SideState:
    """The state of files, polars tables, tensors and threads at one time."""

    def __init__(self, values: Iterable[Any]) -> None:
        """Note the state of those of the values that have such a state."""
        self._entries: list[_Entry] = []
        self._threads = set(_running_threads())
        addresses: list[int] = []
        kinds_by_type: dict[int, _SideKind | None] = {}
        for value in values:
            type_address = address_of(type(value))
            if type_address not in kinds_by_type:
                kinds_by_type[type_address] = _find_side_kind(type(value))
            kind = kinds_by_type[type_address]
            if kind is not None:
                self._entries.append(_Entry(_reference(value), kind, kind.read(value)))
                addresses.append(address_of(value))
        self.addresses = frozenset(addresses)
        """Those of the objects whose state is noted."""

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
    ) -> Iterator[tuple[Any, Action | None]]:
        """Yield the changed objects, and how to put them back, if possible. without: addresses of
        tables."""
        for reference, kind, old_state in self._entries:
            value = reference()
            if value is None or address_of(value) in without:
                continue
            new_state = kind.read(value)
            if kind.is_same(old_state, new_state):
                continue
            action = None
            if kind.write is not None:
                write = partial(kind.write, value)
                action = Action(partial(write, old_state), partial(write, new_state))
            yield value, action

    def file_descriptors(self) -> set[int]:
        """Return the descriptors of the files that are compared here."""
        descriptors: set[int] = set()
        for reference, kind, _ in self._entries:
            if kind is _FILE and (value := reference()) is not None:
                with suppress(OSError, ValueError):  # closed, or in memory
                    descriptors.add(file_class(type(value)).fileno(value))
        return descriptors

    def find_unknown_files(self) -> Iterator[Any]:
        """Yield the open files that do not tell how far they are read or written."""
        for reference, kind, position in self._entries:
            if kind is _FILE and position is None and (value := reference()) is not None:
                yield value

    def find_started_threads(self) -> list[Unrestored]:
        """Name the user's threads that run now and did not run then."""
        return [
            Unrestored(thread.name, "this thread was started and is still running")
            for number, thread in _running_threads().items()
            if number not in self._threads
        ]


def _reference(value: Any) -> Callable[[], Any]:
    """Return a weak reference; a strong one if the object cannot have one."""
    if has_weak_references(type(value)):
        return weakref.ref(value)
    return lambda: value


def _find_side_kind(cls: type) -> _SideKind | None:
    if any(cls is get_if_loaded("polars", name) for name in ("DataFrame", "Series")):
        return _TABLE
    if is_subclass(cls, get_if_loaded("torch", "Tensor")):
        return _TENSOR
    return None if file_class(cls) is None else _FILE


def _running_threads() -> dict[int, Any]:
    """Return the running threads of the user's code and of libraries, by their number."""
    threading = sys.modules.get("threading")
    if threading is None:
        return {}
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not _is_ours(thread)
    }


def _is_ours(thread: Any) -> bool:
    """Return whether a thread is the worker's own, by the function that it runs."""
    target = own_dict(thread).get("_target")
    function = target
    if type(target) is types.MethodType:
        function = target.__func__
    if type(function) is not types.FunctionType:
        return False
    return belongs_to_worker(function.__globals__.get("__package__"))


def _read_position(value: Any) -> int | None:
    """Return how far a file is read or written; -1 if it is closed; None if this is unknown, as for
    pipes and for compressed files that are written."""
    cls = file_class(type(value))  # whose methods are used, whatever a derived class says
    try:
        if cls.closed.__get__(value):
            return -1
        if not cls.seekable(value):
            return None
        if not hasattr(cls, "buffer") or not cls.writable(value):
            return int(cls.tell(value))
        buffer = cls.buffer.__get__(value)
        buffer_class = file_class(type(buffer))
        if buffer_class is None:
            return None
        # Nothing tells how much text waits in the file, so it is written; in a fork of the kernel it
        # would be written twice.
        if os.getpid() == _KERNEL_PID:
            cls.flush(value)
        return int(buffer_class.tell(buffer))
    except (OSError, ValueError, AttributeError):
        return None


def _tensor_layout(tensor: Any) -> tuple[Any, ...]:
    """Return what differs if a tensor refers to other memory, or to the same in another way."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _same_table(old_table: Any, new_table: Any) -> bool:
    """Compare two tables or series of polars. Those that cannot be compared are not the same."""
    old_frame = _to_frame(old_table)
    new_frame = _to_frame(new_table)
    try:
        has_same_schema = list(new_frame.schema.items()) == list(old_frame.schema.items())
        return bool(has_same_schema and new_frame.equals(old_frame, null_equal=True))
    except Exception:  # columns of Python objects cannot be compared
        return False


def _to_frame(table: Any) -> Any:
    """Return a table; for a series, a table of this one column."""
    if hasattr(table, "to_frame"):
        return table.to_frame()
    return table


def _put_table(table: Any, state: Any) -> None:
    # polars has no public way to replace what an object contains: a DataFrame keeps it in `_df`, a
    # Series in `_s`.
    field = "_df" if hasattr(table, "_df") else "_s"
    setattr(table, field, getattr(state.clone(), field))


_TABLE = _SideKind(lambda table: table.clone(), _same_table, _put_table)

_TENSOR = _SideKind(
    lambda tensor: as_library_type(tensor).detach(),
    lambda old, new: _tensor_layout(old) == _tensor_layout(new),
    lambda tensor, data: setattr(tensor, "data", data),
)

_FILE = _SideKind(_read_position, lambda old, new: bool(old == new), None)
