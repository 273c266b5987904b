"""A value that is made when it is first wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes a value once, for whichever thread wants it first; the others wait for it. What `make`
    raises is raised to each who asks."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._values: list[T] = []

    @classmethod
    def of(cls, value: T) -> Lazy[T]:
        """Hold a value that is made already."""
        later = cls(lambda: value)
        later.get()
        return later

    @property
    def made(self) -> bool:
        return bool(self._values)

    def get(self) -> T:
        """Return the value; make it if nobody has wanted it before."""
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]
