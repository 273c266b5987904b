"""The life of a sandbox, from its fork to its end."""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import queue
import signal
import sys
import threading
from typing import Any

from ..frames import Frame, FrameReader, encode
from ..interrupts import Interrupts
from . import libc, lockdown, rlimits
from .connection import EngineConnection
from .names import make_names
from .parts import Source
from .read_tracker import ReadTracker
from .turns import Turns

_OUT_OF_THE_WAY = 64
_CHANNEL, _TEXT, _RULES = 3, 4, 5


def run(parent: int, channel: int, text: int, locks: lockdown.Locks) -> None:
    """Become a sandbox; returns only if that fails. channel: a socket; text: a file of UTF-8, which
    may have surrogates."""
    try:
        lockdown.leave_parent(parent)
        locks = _keep_only(channel, text, locks)
        channel = _CHANNEL
        context = _read(_TEXT)
        threading.stack_size(rlimits.THREAD_STACK)
        lockdown.lock(locks, sys.getsizeof(context))
    except (lockdown.LockdownError, OSError, MemoryError) as error:
        os.write(channel, encode({"op": "refused", "why": str(error) or type(error).__name__}))
        return
    _serve(context)


def _keep_only(channel: int, text: int, locks: lockdown.Locks) -> lockdown.Locks:
    """Close all other descriptors of the parent; the standard streams lead to /dev/null."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, _OUT_OF_THE_WAY) for fd in (channel, text, locks.rules)]
    for old, new in zip(moved, (_CHANNEL, _TEXT, _RULES)):
        os.dup2(old, new)
    os.dup2(0, 1)
    os.dup2(0, 2)
    libc.close_from(_RULES + 1)
    return locks._replace(rules=_RULES)


def _read(fd: int) -> Source:
    """Read the text of a file in memory without a second copy of its bytes."""
    size = os.fstat(fd).st_size
    if not size:
        os.close(fd)
        return Source()
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        os.close(fd)
        return Source.read(data)


def _serve(context: Source) -> None:
    gc.enable()
    interrupts = Interrupts()
    connection = EngineConnection(_CHANNEL, interrupts)
    jobs: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=_listen, args=(connection, jobs), daemon=True).start()
    about = jobs.get()
    parts = [tuple(part) for part in about["parts"]]
    touches, named = (
        ReadTracker(connection),
        {"contexts": about["contexts"], "tools": about["tools"]},
    )
    names: dict[str, Any] = make_names(
        context, about["kind"], parts, connection, about["answer"], touches=touches, **named
    )
    turns = Turns(names, connection, interrupts, touches)
    connection.ready()
    while True:
        job = jobs.get()
        connection.done(turns.run(job["turn"], job["code"]))


def _listen(connection: EngineConnection, jobs: queue.SimpleQueue[Frame]) -> None:
    """Read frames and hand them on, on a thread of its own. The process ends with the
    connection."""
    try:
        frames = FrameReader()
        buffer = memoryview(
            bytearray(65_536)
        )  # allocated now, since later there may be no memory left
        while size := os.readv(_CHANNEL, [buffer]):
            for frame in frames.feed(buffer[:size]):
                if frame["op"] == "reply":
                    connection.deliver(frame)
                else:
                    jobs.put(frame)
    finally:
        os._exit(1)
