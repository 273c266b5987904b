"""Tries in a forked process whether work on data from an untrusted process ends in time: a few bytes
can name a million large copies, or keys of a dict that all collide."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Callable

from ..undo.forks import fork_uninterrupted
from . import read_only

TIMEOUT_S = 15.0


def ends_within_limits(work: Callable[[], object]) -> bool:
    """Return whether work ends, also with an error, before it takes too much time or memory. Raises
    `OSError` if no process can be forked. The fork has only this thread."""
    reader, writer = os.pipe()
    try:
        pid = fork_uninterrupted()
        if pid == 0:
            try:
                _report_end(work, writer)
            finally:
                os._exit(0)
        try:
            os.close(writer)
            writer = -1
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            return bool(poll.poll(TIMEOUT_S * 1000)) and bool(os.read(reader, 1))
        finally:
            # A thread of the user's may have waited for all children.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def _report_end(work: Callable[[], object], writer: int) -> None:
    """Do the work, and write a byte unless it takes too much memory."""
    read_only.limit_resources()
    try:
        work()
    except MemoryError:
        return
    except Exception:  # it will be raised again where it is handled
        pass
    os.write(writer, b".")
