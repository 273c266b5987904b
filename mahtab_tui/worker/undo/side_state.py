"""The state of objects that a forked checkpoint does not keep, such as the position in a file,
which it shares with the kernel."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, Callable, NamedTuple, Protocol

from ..values.objects import (
    address_of,
    as_library_type,
    get_if_loaded,
    has_weak_references,
    is_subclass,
)
from .actions import Action, Unrestored
from .connections import has_same_settings, is_connection, read_connection, unknown_reason
from .opaque import file_class
from .open_files import read_descriptor, read_file_state
from .user_threads import ThreadSnapshot


class _Kind(Protocol):
    """Reads, compares and restores the state of the objects of one kind."""

    def read(self, value: Any) -> Any:
        """Return an object's state, which stays as it is when the object changes."""

    def is_same(self, old_state: object, new_state: object) -> bool:
        """Return whether an object has not changed between two states."""

    def restore_action(self, value: object, old_state: object, new_state: object) -> Action | None:
        """Return what gives an object its old state, and what gives it the new one again; None if an undo
        cannot put this state back."""


class _TableKind:
    """Tables and series of polars.

    Their state is a clone. It shares the memory of the columns: polars copies a column before it
    changes it, if anything else has it.
    """

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
    """Tensors of torch.

    Their state is another tensor that refers to the same memory in the same way. The numbers in
    this memory are compared by `mutations`.
    """

    def read(self, value: Any) -> Any:
        return as_library_type(value).detach()

    def is_same(self, old_state: object, new_state: object) -> bool:
        return _tensor_layout(old_state) == _tensor_layout(new_state)

    def restore_action(self, value: object, old_state: object, new_state: object) -> Action:
        write = partial(setattr, value, "data")
        return Action(partial(write, old_state), partial(write, new_state))


class _FileKind:
    """Open files.

    Their state is a `FileState`, or None if their position is unknown. To read it writes the text
    that waits in a text file of the user's to disk; `open_files` says why.
    """

    def read(self, value: Any) -> Any:
        return read_file_state(value)

    def is_same(self, old_state: object, new_state: object) -> bool:
        return bool(old_state == new_state)

    def restore_action(self, value: object, old_state: object, new_state: object) -> None:
        return None


class _ConnectionKind:
    """SQLite connections. Their state is what `read_connection` returns of their settings and schemas."""

    def read(self, value: object) -> object:
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
    """An object with the state that was noted."""

    reference: Callable[[], Any]
    """Returns the object; None if it has been freed."""
    kind: _Kind
    state: Any
    """What `kind.read` returned."""


class SideState:
    """The state of files, polars tables, tensors and SQLite connections when this object was created, and
    which threads of the user's ran then. Its methods compare it with the present."""

    def __init__(self, values: Iterable[Any]) -> None:
        """Note the state of the values; those of other kinds are left out."""
        self._entries: list[_Entry] = []
        self._threads = ThreadSnapshot()
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
        """The addresses of the objects whose state was noted."""
        self._earlier_descriptors = self._read_descriptors()

    def find_tables_beyond(self, max_bytes: int) -> frozenset[int]:
        """Return the addresses of the tables that are too large to be compared.

        The smallest are compared as long as they have at most `max_bytes` together: of tables of 1,
        2 and 9 GB, the last is too large for 10 GB.
        """
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
        self, skipped_addresses: frozenset[int] = frozenset()
    ) -> Iterator[tuple[object, Action | None]]:
        """Yield the objects whose state differs now, each with what gives it the noted state; None if this
        state cannot be put back. Objects that have been freed are left out.

        Args:
            skipped_addresses: The addresses of objects that are not compared.
        """
        for reference, kind, old_state in self._entries:
            value = reference()
            if value is None or address_of(value) in skipped_addresses:
                continue
            new_state = kind.read(value)
            if kind.is_same(old_state, new_state):
                continue
            yield value, kind.restore_action(value, old_state, new_state)

    def file_descriptors(self) -> set[int]:
        """Return the descriptors that the noted files have now, and those that they had when their state
        was noted."""
        return self._earlier_descriptors | self._read_descriptors()

    def _read_descriptors(self) -> set[int]:
        """Return the descriptors that the noted files have now."""
        descriptors: set[int] = set()
        for reference, kind, _ in self._entries:
            if kind is _FILE and (file := reference()) is not None:
                descriptor = read_descriptor(file)
                if descriptor is not None:
                    descriptors.add(descriptor)
        return descriptors

    def find_unknown_files(self) -> Iterator[object]:
        """Yield the files whose position was unknown when it was noted."""
        for reference, kind, old_state in self._entries:
            if kind is _FILE and old_state is None and (file := reference()) is not None:
                yield file

    def find_unknown_connections(self) -> Iterator[tuple[Any, str]]:
        """Yield the connections of which not everything was or can be read, each with the reason as a
        clause."""
        for reference, kind, old_state in self._entries:
            if kind is _CONNECTION and (connection := reference()) is not None:
                reason = unknown_reason(old_state) or unknown_reason(kind.read(connection))
                if reason:
                    yield connection, reason

    def find_started_threads(self) -> list[Unrestored]:
        """Return the user's threads that were started after the state was noted and still run."""
        return [
            Unrestored(thread.name, "this thread was started and is still running")
            for thread in self._threads.find_started_threads()
        ]


def _reference(value: object) -> Callable[[], object]:
    """Return a weak reference; a strong one if the object cannot have one."""
    if has_weak_references(type(value)):
        return weakref.ref(value)
    return lambda: value


def _find_kind(cls: type) -> _Kind | None:
    """Return the kind of the objects of a class; None if they have no such state."""
    if any(cls is get_if_loaded("polars", name) for name in ("DataFrame", "Series")):
        return _TABLE
    if is_subclass(cls, get_if_loaded("torch", "Tensor")):
        return _TENSOR
    if file_class(cls) is not None:
        return _FILE
    if is_connection(cls):
        return _CONNECTION
    return None


def _to_frame(table: object) -> Any:
    """Return a table of polars; of a series, a table with this one column."""
    if hasattr(table, "to_frame"):
        return table.to_frame()
    return table


def _write_table(table: Any, clone: Any) -> None:
    """Let a table or series of polars contain what a clone of it contains."""
    # polars has no public way to replace what an object contains: a DataFrame keeps it in `_df`, a
    # Series in `_s`.
    field = "_df" if hasattr(table, "_df") else "_s"
    setattr(table, field, getattr(clone.clone(), field))


def _tensor_layout(tensor: Any) -> tuple[object, ...]:
    """Return the memory that a tensor refers to, and in which way.

    Two tensors with the same layout are the same numbers.
    """
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
