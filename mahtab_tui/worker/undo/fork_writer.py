"""Turns objects into bytes in a fork, because that may run the user's code, hang or crash."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NoReturn

from ..link.held_signals import HeldSignals
from .forks import Reply, die_with_parent, receive_reply, send_reply, wait_for_fd

Write = Callable[[Any], bytes]
"""Returns an object as bytes. May raise anything."""
CountProgress = Callable[[], int]
"""Returns a number that changes while an object is written."""


class UnpicklableError(Exception):
    """An object cannot be pickled. The message is a clause that gives the reason."""


def run_in_fork(
    values: Sequence[object],
    write: Write,
    timeout_each_s: float,
    timeout_all_s: float,
    progress: CountProgress = lambda: 0,
) -> Iterator[Reply]:
    """Write objects in a fork of this process. It is forked again after an object that hangs or kills
    it.

    Args:
        values: The objects.
        write: Writes one of them.
        timeout_each_s: Seconds without progress for one object.
        timeout_all_s: Seconds for all.
        progress: Called in this process.

    Yields:
        For each object, its bytes, or the reason why there are none, as a clause.
    """
    deadline = time.monotonic() + timeout_all_s
    written_count = 0
    while written_count < len(values):
        if time.monotonic() > deadline:
            yield from ["there was no time to examine it"] * (len(values) - written_count)
            return
        remaining_values = values[written_count:]
        for reply in _write_until_crash(
            remaining_values, write, timeout_each_s, deadline, progress
        ):
            written_count += 1
            yield reply


def _write_until_crash(
    values: Sequence[object],
    write: Write,
    timeout_s: float,
    deadline: float,
    progress: CountProgress,
) -> Iterator[Reply]:
    """Yield the replies up to the first object that hangs or kills the fork."""
    reader, writer = os.pipe()
    # Only checkpoints do this, and they ignore interrupts.
    with HeldSignals() as held:
        pid = held.fork(lambda: _write_all(values, write, writer))
    os.close(writer)
    try:
        for _ in values:
            try:
                _wait_for_progress(reader, timeout_s, deadline, progress)
                reply = receive_reply(reader, deadline)
            except TimeoutError:
                yield f"writing it took longer than {timeout_s:.0f} s"
                return
            except ConnectionResetError:
                yield "writing it crashed the process"
                return
            yield reply
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # code of the user's waits for all children
            os.waitpid(pid, 0)


def _wait_for_progress(fd: int, timeout_s: float, deadline: float, progress: CountProgress) -> None:
    """Wait until there is something to read.

    Raises `TimeoutError` after the deadline, or after `timeout_s` seconds without progress.
    """
    last_progress = progress()
    while True:
        try:
            return wait_for_fd(fd, select.POLLIN, min(deadline, time.monotonic() + timeout_s))
        except TimeoutError:
            new_progress = progress()
            if new_progress == last_progress or time.monotonic() > deadline:
                raise
            last_progress = new_progress


def _write_all(values: Sequence[object], write: Write, fd: int) -> NoReturn:
    """Write all objects, in the fork, and end it."""
    try:
        die_with_parent()
        for value in values:
            try:
                reply: Reply = write(value)
            except BaseException as error:
                reply = _failure_reason(error)
            send_reply(fd, reply)
    finally:
        os._exit(0)


def _failure_reason(error: BaseException) -> str:
    if isinstance(error, UnpicklableError):
        return str(error)
    try:
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    except BaseException:  # its text comes from user code
        return f"it cannot be pickled ({type(error).__name__})"
