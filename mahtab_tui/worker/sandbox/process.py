"""The process of a sandbox: locks itself down, gets its text, and runs the code of turns.

A sandbox and the engine exchange frames over the sandbox's socket:

    {"op": "text", "kind", "parts", "contexts", "max_answer_chars", "tools"}
                                      from the engine, first: how code gets the text (`make_names`)
    {"op": "ready"}                   from the sandbox when it is locked down and can run code
    {"op": "refused", "reason"}       from the sandbox instead, with a clause
    {"op": "run", "turn", "code"}     from the engine: run the code of a turn
    {"op": "done", "turn", ...}       from the sandbox: how the turn has ended (`Turns.run`)

During a turn, its code calls the engine (`EngineConnection`). The process is forked by `server`, and
ends with it.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import gc
import mmap
import os
import queue
import signal
import socket
import sys
import threading
from typing import NoReturn

from ..link.frames import Frame, FrameReader, encode
from ..link.interrupts import Interrupts
from . import confinement, system_calls
from .names import SandboxText, make_names
from .pieces import Source
from .turns import EngineConnection, Turns

CHANNEL_FD = 3
"""The descriptor of the socket, once `keep_only` has moved it."""
_RULES_FD = 4
_LAST_FD = 0xFFFFFFFF
_RECEIVED_BYTES = 65_536
"""Bytes of frames that are read at once."""


def run_sandbox(parent: int, channel: int, text: Source | None, locks: confinement.Locks) -> None:
    """Become a sandbox; returns only if that fails.

    Args:
        parent: The process that has forked this one.
        channel: A socket that leads to the engine.
        text: None if its file comes over the socket, perhaps much later.
        locks: Made by the parent.
    """
    try:
        confinement.leave_parent(parent)
        locks = keep_only(channel, locks)
        channel = CHANNEL_FD
        threading.stack_size(confinement.THREAD_STACK_BYTES)
        confinement.share_heap()
        confinement.deny_files(locks.rules)
        context = receive_text() if text is None else text
        confinement.limit_resources(sys.getsizeof(context))
        confinement.restrict_system_calls(locks.filter, confinement.ATTEMPTS)
    except (confinement.LockdownError, OSError, MemoryError) as error:
        reason = f"Sandboxing is not supported on this system: {error}"
        if confinement.is_shortage(error):
            reason = f"A sandbox cannot be started: {error_clause(error)}"
        os.write(channel, encode({"op": "refused", "reason": reason}))
        return
    _run_turns(context)


def keep_only(channel: int, locks: confinement.Locks) -> confinement.Locks:
    """Close all other descriptors of the parent; the standard streams lead to /dev/null.

    The channel becomes `CHANNEL_FD`. Returns the locks with the present descriptor.
    """
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, _RULES_FD + 1) for fd in (channel, locks.rules)]
    for old, new in zip(moved, (CHANNEL_FD, _RULES_FD)):
        os.dup2(old, new)
    os.dup2(0, 1)
    os.dup2(0, 2)
    system_calls.syscall(system_calls.CLOSE_RANGE, _RULES_FD + 1, _LAST_FD, 0)
    return locks._replace(rules=_RULES_FD)


def receive_text() -> Source:
    """Read a text, which may have surrogates, from a file received over the channel. The file is
    released before the text is copied. The process ends with the channel."""
    with socket.socket(fileno=os.dup(CHANNEL_FD)) as channel:
        received, fds, *_ = socket.recv_fds(channel, 1, 1)
    if not received:
        os._exit(0)
    if not fds:  # the limit of descriptors
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    (fd,) = fds
    size = os.fstat(fd).st_size
    text = ""
    if size:
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
            text = str(data, "utf-8", "surrogatepass")
    os.close(fd)
    return Source(text)


def error_clause(error: BaseException) -> str:
    """Return why the system or the memory was not enough, as a clause."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "no memory"


def _run_turns(context: Source) -> NoReturn:
    """Run the code of turns, until the engine closes the channel."""
    gc.enable()
    interrupts = Interrupts()
    connection = EngineConnection(CHANNEL_FD, interrupts)
    jobs: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Starting a `Thread` would wait until it runs.
    _thread.start_new_thread(_listen, (connection, jobs))
    text_frame = jobs.get()
    parts = [tuple(part) for part in text_frame["parts"]]
    text = SandboxText(context, text_frame["kind"], parts, text_frame["contexts"])
    names = make_names(text, connection, text_frame["max_answer_chars"], text_frame["tools"])
    turns = Turns(names, connection, interrupts)
    connection.ready()
    while True:
        job = jobs.get()
        connection.done(turns.run(job["turn"], job["code"]))


def _listen(connection: EngineConnection, jobs: queue.SimpleQueue[Frame]) -> None:
    """Pass frames on; the process ends with the connection."""
    try:
        frames = FrameReader()
        # Allocated now, because later there may be no memory left.
        buffer = memoryview(bytearray(_RECEIVED_BYTES))
        while size := os.readv(CHANNEL_FD, [buffer]):
            for frame in frames.feed(buffer[:size]):
                if frame["op"] == "answer":
                    connection.deliver(frame)
                else:
                    jobs.put(frame)
    finally:
        os._exit(1)
