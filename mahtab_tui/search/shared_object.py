"""An object that calls share, and that is closed when nobody has used it for a while."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What can be shared."""

    def close(self) -> None:
        """End what the object has started."""


T = TypeVar("T", bound=Closable)


class SharedObject(Generic[T]):
    """Makes an object for the first call that needs one. A fork of the process makes its own."""

    def __init__(self, make: Callable[[], T], idle_close_s: float) -> None:
        """Make nothing yet.

        Args:
            make: Makes the object.
            idle_close_s: Seconds after the last use, or up to twice as many, after which the object is
                closed.
        """
        self._make = make
        self._idle_close_s = idle_close_s
        self._lock = threading.Lock()
        self._object: T | None = None
        self._process_id = 0
        """The process that has made the object."""
        self._user_count = 0
        """Calls that use it now."""
        self._use_count = 0
        """Calls that have used it so far."""

    @contextlib.contextmanager
    def borrow(self) -> Iterator[T]:
        """Provide the object for a block. Any thread may call it."""
        with self._lock:
            if self._object is None or self._process_id != os.getpid():
                self._object = self._make()
                self._process_id = os.getpid()
                self._user_count = 0
                closing = partial(self._close_unused, self._object)
                threading.Thread(target=closing, name="close-unused", daemon=True).start()
            shared_object = self._object
            self._user_count += 1
            self._use_count += 1
        try:
            yield shared_object
        finally:
            with self._lock:
                if shared_object is self._object:
                    self._user_count -= 1

    def close(self) -> None:
        """Close the object now, unless somebody uses it."""
        with self._lock:
            if self._user_count or self._object is None:
                return
            shared_object = self._object
            self._object = None
        shared_object.close()

    def _close_unused(self, shared_object: T) -> None:
        """Close an object after it was not used for a while. Runs on a thread."""
        last_use_count = -1
        while True:
            with self._lock:
                if self._object is not shared_object:
                    return
                if not self._user_count and last_use_count == self._use_count:
                    self._object = None
                    break
                last_use_count = self._use_count
            time.sleep(self._idle_close_s)
        shared_object.close()
