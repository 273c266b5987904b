"""Runs an object's code with a time limit."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Generic, TypeVar

T = TypeVar("T")

GRACE = 0.2
"""Seconds that a thread gets to stop."""


class TimeLimitError(Exception):
    """The time limit has passed."""


class _Stop(BaseException):
    """Raised in a thread that has taken too long."""


class _Work(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # the thread's outermost frame, around an object of the user's
            self.error = error
        finally:
            self.done.set()


def within(seconds: float, work: Callable[[], T]) -> Any:
    """Return the result of `work`, or raise its exception. Raises `TimeLimitError` after the limit; code that does not stop is abandoned."""
    job = _Work(work)
    thread = threading.Thread(target=job.run, daemon=True)
    thread.start()
    if not job.done.wait(seconds):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stop))
        job.done.wait(GRACE)
        raise TimeLimitError
    if job.error is not None:
        raise job.error
    return job.result
