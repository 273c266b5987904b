"""The descriptor by which the system tells the witness of calls, and waits for its answers.

The structures and requests are those of "user notification" in `linux/seccomp.h`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..sandbox.call_filter import ARCHITECTURES
from .calls import WatchedCall, watched_calls

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""`struct seccomp_notif`: its id, the thread, flags; the call's number, architecture, instruction and
arguments."""
_ANSWER = struct.Struct("=QqiI")
"""`struct seccomp_notif_resp`: the notification's id, what the call returns, its error number (negative),
flags."""
_ID = struct.Struct("=Q")

# Requests of `ioctl`
_RECEIVE_NOTIFICATION = 0xC0502100
_SEND_ANSWER = 0xC0182101
_IS_ID_VALID = 0x40082102
_SET_LISTENER_FLAGS = 0x40082104

_WAKE_ON_THIS_CPU = 1
"""The flag of a listener by which the witness answers on the processor of the call, which is quicker."""
_CONTINUE = 1
"""The flag of an answer that lets the system execute the call."""


class Notification(NamedTuple):
    """A call of a thread, which waits for the answer."""

    number: int
    """Identifies the notification."""
    thread: int
    """The number of the thread."""
    call: WatchedCall | None
    """None if it is one of another table than the processor's usual one."""
    call_number: int
    """The number of the call in its table."""
    arguments: Sequence[int]
    """The arguments as the registers have them: numbers, and addresses in the thread's memory."""


class CallListener:
    """Receives the calls of all processes that are watched, and answers them."""

    def __init__(self, fd: int) -> None:
        """Begin to receive calls.

        Args:
            fd: The descriptor that the system made for the filter.
        """
        self.fd = fd
        self.machine = os.uname().machine
        """The processor."""
        self._calls = watched_calls(self.machine)
        self._buffer = bytearray(_NOTIFICATION.size)
        with suppress(OSError):  # Linux 6.6
            fcntl.ioctl(fd, _SET_LISTENER_FLAGS, _WAKE_ON_THIS_CPU)

    def receive(self) -> Notification | None:
        """Return the next call; None if its thread has ended. Raises `EOFError` if none can be received
        any more."""
        # The system refuses a buffer that is not empty.
        self._buffer[:] = bytes(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE_NOTIFICATION, self._buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise EOFError(str(error)) from None
        fields = _NOTIFICATION.unpack(self._buffer)
        number, thread, _flags, call_number, architecture, _instruction, *arguments = fields
        call = None
        if architecture == ARCHITECTURES[self.machine]:
            call = self._calls.get(call_number)
        return Notification(number, thread, call, call_number, arguments)

    def is_waiting(self, notification: Notification) -> bool:
        """Return whether a thread still waits: else its number may be that of another one."""
        try:
            fcntl.ioctl(self.fd, _IS_ID_VALID, _ID.pack(notification.number))
        except OSError:
            return False
        return True

    def let_go_on(self, notification: Notification) -> None:
        """Let the system execute a call."""
        self._send(_ANSWER.pack(notification.number, 0, 0, _CONTINUE))

    def refuse(self, notification: Notification) -> None:
        """Let a call fail, as one that is not permitted."""
        self._send(_ANSWER.pack(notification.number, 0, -errno.EPERM, 0))

    def _send(self, answer: bytes) -> None:
        with suppress(OSError):  # its thread has ended
            fcntl.ioctl(self.fd, _SEND_ANSWER, answer)
