"""Pickles states of objects for the way from a checkpoint to the kernel. Objects that live in both
are sent by address, all others by value."""

from __future__ import annotations

import io
from typing import Any, Callable

from ..statics import MISSING, address_of
from ..stdlib import late_import
from .in_fork import refuse
from .part import ATOMS
from .reducing import reduced

_MISSING, _NAMESPACE = 0, 1
"""Sent for them in place of an address."""


def dump_state(value: Any, alive: set[int], namespace: dict[str, Any]) -> bytes:
    """Pickle a value. alive: the addresses of the objects that live in both processes. Raises
    whatever an object that cannot be pickled raises."""
    pickle = late_import("pickle")
    harmless: dict[int, type] = {}

    class Pickler(pickle.Pickler):  # type: ignore[name-defined, misc]
        def persistent_id(self, thing: Any) -> int | None:
            if address_of(type(thing)) in ATOMS:
                return None
            if address_of(thing) in alive:
                return address_of(thing)
            if thing is MISSING:
                return _MISSING
            if thing is namespace:
                return _NAMESPACE
            if address_of(type(thing)) not in harmless:
                refuse(thing)
                harmless[address_of(type(thing))] = type(thing)
            return None

        def reducer_override(self, thing: Any) -> Any:
            return reduced(thing, namespace)

    buffer = io.BytesIO()
    Pickler(buffer, 4).dump(value)
    return buffer.getvalue()


def load_state(data: bytes, at: Callable[[int], Any], namespace: dict[str, Any]) -> Any:
    """Unpickle a value. at: returns the living object at an address. Raises whatever an object that
    cannot be created raises."""
    pickle = late_import("pickle")

    class Unpickler(pickle.Unpickler):  # type: ignore[name-defined, misc]
        def persistent_load(self, address: int) -> Any:
            if address == _MISSING:
                return MISSING
            return namespace if address == _NAMESPACE else at(address)

    return Unpickler(io.BytesIO(data)).load()
