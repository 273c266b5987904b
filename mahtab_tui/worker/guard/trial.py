"""Tries in a forked process whether work on data from an untrusted process ends in time: a few
bytes can name a million large copies, or keys of a dict that all collide."""

from __future__ import annotations

import os
import select
import signal
from contextlib import ExitStack, suppress
from typing import Callable

from ..link.held_signals import HeldSignals
from . import read_only

TIMEOUT_S = 15.0


def ends_within_limits(work: Callable[[], object]) -> bool:
    """Return whether work ends, also with an error, before it takes too much time or memory.

    Raises `OSError` if no process can be forked. The fork has only this thread.
    """
    parent_pid = os.getpid()
    with HeldSignals() as held, ExitStack() as own_ends:
        reader, writer = os.pipe()
        own_ends.callback(os.close, reader)
        try:
            pid = held.fork(lambda: _report_end(work, writer, parent_pid))
        finally:
            os.close(writer)
        try:
            with held.passed_on():
                poll = select.poll()
                poll.register(reader, select.POLLIN)
                return bool(poll.poll(TIMEOUT_S * 1000)) and bool(os.read(reader, 1))
        finally:
            # A thread of the user's may have waited for all children.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _report_end(work: Callable[[], object], writer: int, parent_pid: int) -> None:
    """Do the work, and write a byte unless it takes too much memory."""
    read_only.leave_parent(parent_pid)
    read_only.limit_resources()
    try:
        work()
    except MemoryError:
        return
    except Exception:  # it will be raised again where it is handled
        pass
    os.write(writer, b".")
