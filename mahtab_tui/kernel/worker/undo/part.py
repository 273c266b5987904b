"""A part of a kind of object: how its values are read, and how they are put back."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..statics import address_of

ATOMS = frozenset(
    map(address_of, (int, float, complex, bool, str, bytes, type(None), type(Ellipsis)))
)
"""Types, by identity, whose objects are compared by value."""

Values = list[Any]
Apply = Callable[[], object]
Prepare = Callable[[Any, Values], Apply]


class UncomparableError(Exception):
    """The state of an object cannot be read."""


class Part(NamedTuple):
    """One part of a kind of object."""

    name: str
    read: Callable[[Any], Values]
    prepare: Prepare | None
    """Makes what puts values back into an object; None where an object of this kind never changes.
    Code of the user's classes (the hash of a key) runs in here, and not in what it returns."""
    ordered: bool = True
    size: Callable[[Any], int] | None = None
    """How many values there are, where that may be very many; eight bytes count as one."""
    costly: bool = False
    """Not read where only the objects inside are wanted; it has none."""


def prepared(make: Callable[[Values], Any]) -> Callable[[Callable[[Any, Any], object]], Prepare]:
    """Decorate a function that puts values back, as the `prepare` of a part. make: prepares the
    values."""

    def decorate(put: Callable[[Any, Any], object]) -> Prepare:
        def prepare(value: Any, values: Values) -> Apply:
            wanted = make(values)
            return lambda: put(value, wanted)

        return prepare

    return decorate


later = prepared(lambda values: values)
"""Like `prepared`, for parts for which nothing needs to be prepared."""


def put_fields(*names: str) -> Prepare:
    """Make the `prepare` of a part whose values are these attributes."""

    def put(value: Any, values: Values) -> None:
        for name, wanted in zip(names, values):
            setattr(value, name, wanted)

    return later(put)
