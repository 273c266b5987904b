"""Forks of the kernel, and the frames in which they answer it.

A frame has a head, which says whether its data are an answer or the reason for having none."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import sys
import time
from typing import Union

_HEAD = struct.Struct("!?Q")
"""Whether the data are an answer, and their length in bytes."""
_WRITTEN_BYTES = 2**16
"""Bytes that are written at once."""
_READ_BYTES = 2**20
"""Bytes that are read at once."""
_FOREVER = float("inf")

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61

Reply = Union[bytes, str]
"""An answer as bytes, or the reason for having none."""


def die_with_parent() -> None:
    """End this process when the thread that forked it ends."""
    signal_when_parent_ends(signal.SIGKILL)


def signal_when_parent_ends(number: int) -> None:
    """Have Linux send a signal to this process when the thread that forked it ends."""
    _call_prctl(_PR_SET_PDEATHSIG, number)


def let_parent_read_memory() -> None:
    """Let the process that forked this one read its memory."""
    _call_prctl(_PR_SET_PTRACER, os.getppid())


def _call_prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def send_reply(fd: int, reply: Reply, deadline: float = _FOREVER) -> None:
    """Send a frame.

    Args:
        fd: A socket or a pipe.
        reply: An answer, or the reason for having none.
        deadline: On the clock of `time.monotonic`, in seconds.

    Raises:
        TimeoutError: The other process did not read it in time.
        OSError: The other process has ended.
    """
    data = reply.encode("utf-8", "replace") if isinstance(reply, str) else reply
    head = _HEAD.pack(isinstance(reply, bytes), len(data))
    for part in (head, data):
        unwritten = memoryview(part)
        while unwritten:
            wait_for_fd(fd, select.POLLOUT, deadline)
            written_bytes = os.write(fd, unwritten[:_WRITTEN_BYTES])
            unwritten = unwritten[written_bytes:]


def receive_reply(fd: int, deadline: float = _FOREVER) -> Reply:
    """Receive what `send_reply` has sent, with the same arguments and errors."""
    is_answer, size = _HEAD.unpack(read_exactly(fd, _HEAD.size, deadline))
    data = read_exactly(fd, size, deadline)
    if is_answer:
        return data
    return data.decode("utf-8", "replace")


def read_exactly(fd: int, size: int, deadline: float) -> bytes:
    """Read so many bytes.

    Raises `TimeoutError`, and `ConnectionResetError` if there will be no more.
    """
    received = bytearray()
    while len(received) < size:
        wait_for_fd(fd, select.POLLIN, deadline)
        data = os.read(fd, min(size - len(received), _READ_BYTES))
        if not data:
            raise ConnectionResetError("nobody is there")
        received += data
    return bytes(received)


def wait_for_fd(fd: int, event: int, deadline: float) -> None:
    """Wait for an event of `select.poll`.

    Raises `TimeoutError` if it does not come before the deadline.
    """
    if deadline == _FOREVER:
        return
    poll = select.poll()
    poll.register(fd, event)
    remaining_s = max(0.0, deadline - time.monotonic())
    if not poll.poll(remaining_s * 1000):
        raise TimeoutError
