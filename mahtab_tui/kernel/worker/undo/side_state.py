"""State a fork does not preserve: positions in files, polars tables, the memory of tensors,
threads.

A fork shares the position in a file. Polars never changes the data of a column that two tables
share, so a second table keeps all of the first.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from ..library_types import as_library_type
from ..statics import address_of, descends, is_one_of, loaded, own_dict
from .part import Apply
from .side_effects import NotRestored


class Back(NamedTuple):
    """One thing that can be put back."""

    value: Any
    """The object."""
    apply: Apply
    take_back: Apply


class Beside:
    """The state of such objects at one time."""

    def __init__(self, values: Iterable[Any], files: bool = True) -> None:
        """files: whether to note files too."""
        self._files: list[tuple[weakref.ref[Any], Any]] = []
        self._tables: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[Any, Any]] = []
        self._threads = set(_threads())
        streams = _streams() if files else []
        tensor = loaded("torch", "Tensor")
        kinds: dict[int, str] = {}
        for value in values:
            cls = type(value)
            if (kind := kinds.get(address_of(cls))) is None:
                is_file = any(descends(cls, base) for base in streams)
                kind = (
                    "table"
                    if is_one_of(value, "polars", "DataFrame", "Series")
                    else "tensor"
                    if descends(cls, tensor)
                    else "file"
                    if is_file
                    else ""
                )
                kinds[address_of(cls)] = kind
            if kind == "table":
                self._tables.append((value, value.clone()))
            elif kind == "tensor":
                self._tensors.append((value, as_library_type(value).detach()))
            elif kind == "file":
                self._files.append((weakref.ref(value), _position(value)))
        held = [
            *(reference() for reference, _ in self._files),
            *(value for value, _ in (*self._tables, *self._tensors)),
        ]
        self.noted = frozenset(map(address_of, held))
        """The addresses of the objects."""

    def beyond(self, most: int) -> frozenset[int]:
        """Return the addresses of tables that are too large to compare so many bytes of all
        together, beginning with the smallest."""
        found = set()
        for size, value in sorted(
            ((value.estimated_size(), address_of(value)) for value, _ in self._tables)
        ):
            most -= size
            if most < 0:
                found.add(value)
        return frozenset(found)

    def different(
        self, without: frozenset[int] = frozenset()
    ) -> tuple[list[Back], list[tuple[Any, str]], list[NotRestored]]:
        """Return what can be put back, objects that cannot (with reasons), and threads that still
        run. without: tables to leave out."""
        tables = [(value, then) for value, then in self._tables if address_of(value) not in without]
        back = [
            found
            for found in (_table_back(value, then) for value, then in tables)
            if found is not None
        ]
        moved = [(value, then) for value, then in self._tensors if not _same_memory(value, then)]
        back += [
            Back(
                value,
                partial(setattr, value, "data", then),
                partial(setattr, value, "data", value.data),
            )
            for value, then in moved
        ]
        kept = []
        files = [
            (value, then) for reference, then in self._files if (value := reference()) is not None
        ]
        for value, then in files:
            now = _position(value)
            if now == then:
                continue
            if then is None or now is None or then[0] != now[0]:
                kept.append(
                    (
                        value,
                        "it was closed"
                        if now is not None and not now[0]
                        else "its position cannot be restored",
                    )
                )
            elif then[1] is not None and now[1] is not None:
                back.append(Back(value, _seek(value, then[1]), _seek(value, now[1])))
            else:
                kept.append((value, "what was written to a file stays"))
        started = [thread for number, thread in _threads().items() if number not in self._threads]
        return (
            back,
            kept,
            [
                NotRestored(thread.name, "this thread was started and is still running")
                for thread in started
            ],
        )


def _threads() -> dict[int, Any]:
    threading = sys.modules.get("threading")
    if threading is None:
        return {}
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not _is_ours(thread)
    }


def _is_ours(thread: Any) -> bool:
    """Return whether it is a thread of the program itself."""
    target = own_dict(thread).get("_target")
    function = target.__func__ if type(target) is types.MethodType else target
    package = __package__.rpartition(".")[0]
    found = (
        function.__globals__.get("__package__") if type(function) is types.FunctionType else None
    )
    return type(found) is str and f"{found}.".startswith(f"{package}.")


def _streams() -> list[Any]:
    return [
        loaded("_io", name)
        for name in (
            "TextIOWrapper",
            "BufferedReader",
            "BufferedWriter",
            "BufferedRandom",
            "FileIO",
        )
    ]


def _position(value: Any) -> Any:
    """Return whether a file is open, its position if it can be set, and for a file being written
    how far it got; None if that is not known."""
    cls = next(
        cls for cls in _streams() if descends(type(value), cls)
    )  # whose methods are used, whatever a derived class says
    try:
        if cls.closed.__get__(value):
            return (False, None, None)
        if not cls.seekable(value):
            return (True, None, None)
        if cls.writable(value):
            return (
                True,
                None,
                cls.buffer.__get__(value).tell() if hasattr(cls, "buffer") else cls.tell(value),
            )
        return (True, cls.tell(value), None)
    except (OSError, ValueError, AttributeError):
        return None


def _seek(value: Any, position: Any) -> Apply:
    return lambda: value.seek(position)


def _same_memory(tensor: Any, then: Any) -> bool:
    now, before = (
        (each.data_ptr(), each.shape, each.stride(), each.dtype) for each in (tensor, then)
    )
    return now == before


def _table_back(value: Any, then: Any) -> Back | None:
    field = "_df" if hasattr(value, "_df") else "_s"
    if _same_table(value, then):
        return None
    now = getattr(value, field)
    return Back(
        value,
        lambda: setattr(value, field, getattr(then.clone(), field)),
        lambda: setattr(value, field, now),
    )


def _same_table(value: Any, then: Any) -> bool:
    polars = sys.modules["polars"]
    try:
        if isinstance(value, polars.Series):
            return bool(
                value.dtype == then.dtype
                and value.name == then.name
                and value.equals(then, check_names=True, null_equal=True)
            )
        return bool(
            value.schema == then.schema
            and list(value.columns) == list(then.columns)
            and value.equals(then, null_equal=True)
        )
    except Exception:  # columns of Python objects do not compare
        return False
