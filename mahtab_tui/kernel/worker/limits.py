"""Runs an object's code with a time limit."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable

GRACE = 0.2
"""Seconds that a thread gets to stop."""


class TimeLimitError(Exception):
    """The time limit has passed."""


class _Stop(BaseException):
    """Raised in a thread that has taken too long."""


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of `work`, or raise its exception. Raises `TimeLimitError` after the limit; code that does not stop is abandoned."""
    result: Any = None
    failure: BaseException | None = None
    done = threading.Event()

    def run() -> None:
        nonlocal result, failure
        try:
            result = work()
        except BaseException as error:  # the thread's outermost frame, around an object of the user's
            failure = error
        finally:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not done.wait(seconds):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stop))
        done.wait(GRACE)
        raise TimeLimitError
    if failure is not None:
        raise failure
    return result
