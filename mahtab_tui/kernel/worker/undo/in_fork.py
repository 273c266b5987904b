"""Writes objects in another forked process, because this may run the user's code, which may raise,
hang, print, start threads, or end the process."""

from __future__ import annotations

import os
import select
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NoReturn

from .checkpoint import die_with_parent, fork_uninterrupted, read_exactly
from .opaque import opaque_kind

_HEAD = struct.Struct("!BQ")
_GOOD, _BAD = 1, 0
ALL = 10.0
"""Seconds for writing all objects at once."""
EACH = 2.0
"""Seconds for writing one object, if writing all at once failed."""
TOGETHER = 20.0
"""Seconds for writing all of them one by one."""

Write = Callable[[Any], bytes]


def dump_in_fork(things: Sequence[Any], write: Write) -> tuple[bytes | None, list[str]]:
    """Return all objects together as bytes; or None, and for each one why it could not be written,
    which is empty if it could."""
    (whole,) = run_in_fork([list(things)], write, ALL, ALL)
    if isinstance(whole, bytes):
        return whole, []
    return None, [
        each if isinstance(each, str) else "" for each in run_in_fork(things, write, EACH, TOGETHER)
    ]


def run_in_fork(
    things: Sequence[Any],
    write: Write,
    each: float,
    together: float,
    progress: Callable[[], int] = lambda: 0,
) -> Iterator[bytes | str]:
    """For each thing its bytes, or why there are none.

    each: seconds that a thing may take without progress, which is a number that grows. together:
    seconds for all of them. What `write` knows is copied when a process is forked: at the
    beginning, and after each thing that hangs or ends the process.
    """
    until = time.monotonic() + together
    done = 0
    while done < len(things):
        if time.monotonic() > until:
            yield from ["there was no time to examine it"] * (len(things) - done)
            return
        for result in _run(things[done:], write, each, until, progress):
            done += 1
            yield result


def _run(
    things: Sequence[Any], write: Write, each: float, until: float, progress: Callable[[], int]
) -> Iterator[bytes | str]:
    """Return the results up to the first object that hangs or ends the process."""
    out, into = os.pipe()
    pid = fork_uninterrupted()
    if pid == 0:
        _write_all(things, write, into)
    os.close(into)
    try:
        for _ in things:
            try:
                _wait_for_progress(out, each, until, progress)
                kind, size = _HEAD.unpack(read_exactly(out, _HEAD.size, until))
                data = read_exactly(out, size, until)
            except TimeoutError:
                yield f"writing it took longer than {each:.0f} s"
                return
            except ConnectionResetError:
                yield "writing it crashed the process"
                return
            yield data if kind == _GOOD else data.decode("utf-8", "replace")
    finally:
        os.close(out)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _write_all(things: Sequence[Any], write: Write, into: int) -> NoReturn:
    try:
        die_with_parent()
        for thing in things:
            try:
                kind, data = _GOOD, write(thing)
            except BaseException as error:  # the user's own code
                kind, data = _BAD, _why(error).encode("utf-8", "replace")
            view = memoryview(_HEAD.pack(kind, len(data)) + data)
            while view:
                view = view[os.write(into, view) :]
    finally:
        os._exit(0)


class NotWrittenError(Exception):
    """An object is not written; the message says why."""


def refuse(value: Any) -> None:
    """Raise if an object cannot be carried over, whatever its class says."""
    kind = opaque_kind(type(value))
    if kind is not None:
        raise NotWrittenError(kind.reason)


def _why(error: BaseException) -> str:
    if isinstance(error, NotWrittenError):
        return str(error)
    try:
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    except BaseException:  # its text is the user's own code
        return f"it cannot be pickled ({type(error).__name__})"


def _wait_for_progress(fd: int, each: float, until: float, progress: Callable[[], int]) -> None:
    """Wait for an answer, or for its process's end. Raises `TimeoutError`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    before = progress()
    while not poll.poll(max(0.0, min(until, time.monotonic() + each) - time.monotonic()) * 1000):
        now = progress()
        if now == before or time.monotonic() > until:
            raise TimeoutError
        before = now
