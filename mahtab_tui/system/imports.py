"""Importing beside the main thread, and values that are made when they are first wanted.

Python locks each module while it imports it. Where a package imports a part of itself and another
thread imports that part, each holds what the other one wants; one of them then fails with
`_DeadlockError`, wherever it is. Three rules exclude that:

1. What the screen needs after its first picture, the main thread imports itself, a module between
   two messages (`tui/late_imports.py`).
2. Other threads import the models' libraries in their `turn`: one thread at a time, and not before
   the main thread has what it needs.
3. What the main thread imports later is of no library that other threads import; our own modules
   import one another in no circle."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class ImportOrder:
    """Who may import when. There is one in a process, as there is one `sys.modules`."""

    def __init__(self) -> None:
        self._screen_is_done = threading.Event()
        self._screen_is_done.set()  # without a screen nobody waits for one
        self._screen_thread: int | None = None
        self._lock = threading.RLock()

    def screen_begins(self) -> None:
        """The main thread has modules to import: others wait from now on."""
        self._screen_thread = threading.get_ident()
        self._screen_is_done.clear()

    def screen_ends(self) -> None:
        """The main thread has its modules."""
        self._screen_is_done.set()

    def wait_for_screen(self) -> None:
        """Wait until the main thread has its modules, which itself does not wait."""
        if threading.get_ident() != self._screen_thread:
            self._screen_is_done.wait()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While a thread imports a large library. Waits for its turn; not for the main thread of a
        screen."""
        self.wait_for_screen()
        with self._lock, _gc_paused():
            yield


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Garbage is not looked for meanwhile: modules make hundreds of thousands of objects, which all
    stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


IMPORTS = ImportOrder()
