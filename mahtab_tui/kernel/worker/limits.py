"""Runs an object's code with a time limit, and makes representations of limited size, however big
the object is."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable

GRACE = 0.2
"""Seconds that a thread gets to stop."""
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}
_DEPTH = 50


class TimeLimitError(Exception):
    """The time limit has passed."""


class _Stop(BaseException):
    """Raised in a thread that has taken too long."""


def run_with_timeout(seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of `work`, or raise its exception. Raises `TimeLimitError` after the limit;
    code that does not stop is abandoned."""
    result: Any = None
    failure: BaseException | None = None
    done = threading.Event()

    def run() -> None:
        nonlocal result, failure
        try:
            result = work()
        except (
            BaseException
        ) as error:  # the thread's outermost frame, around an object of the user's
            failure = error
        finally:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not done.wait(seconds):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stop)
        )
        done.wait(GRACE)
        raise TimeLimitError
    if failure is not None:
        raise failure
    return result


class _LimitReached(Exception):
    """The limit has been reached."""


class _Writer:
    def __init__(self, limit: int, write_object: Callable[[Any], str]) -> None:
        self._left = limit
        self._write_object = write_object
        self.pieces: list[str] = []
        self._open: set[int] = set()

    def put(self, text: str) -> None:
        self.pieces.append(text[: self._left])
        self._left -= len(text)
        if self._left < 0:
            raise _LimitReached

    def write(self, value: Any, depth: int = 0) -> None:
        cls = type(value)
        if cls in (str, bytes, bytearray) and len(value) > self._left:
            # Cut before it is copied, since a representation is never shorter than its text.
            self.put(repr(value[: self._left + 1]))
            raise _LimitReached
        if cls not in _BRACKETS or not value or depth > _DEPTH:
            self.put(self._write_object(value))
        elif id(value) in self._open:
            self.put("…")
        else:
            self._open.add(id(value))
            self._container(value, depth + 1)
            self._open.discard(id(value))

    def _container(self, value: Any, depth: int) -> None:
        opening, closing = _BRACKETS[type(value)]
        self.put(opening)
        is_dict = type(value) is dict
        for place, item in enumerate(value.items() if is_dict else value):
            if place:
                self.put(", ")
            self.write(item[0] if is_dict else item, depth)
            if is_dict:
                self.put(": ")
                self.write(item[1], depth)
        self.put(("," if type(value) is tuple and len(value) == 1 else "") + closing)


def _repr(value: Any) -> str:
    return str.__str__(repr(value))


def limited_repr(
    value: Any, limit: int, write_object: Callable[[Any], str] = _repr
) -> tuple[str, bool]:
    """Return the representation up to `limit` characters, and whether it was cut. Raises what a
    `__repr__` raises.

    write_object: writes what is neither a container of Python's own nor too long a text.
    """
    writer = _Writer(limit, write_object)
    try:
        writer.write(value)
    except _LimitReached:
        return "".join(writer.pieces), True
    return "".join(writer.pieces), False
