"""How far files, pipes and sockets are read and written, judged by the open descriptors.

None of this can be undone. An undo compares the states before and after a cell, and names what stays
as it is. The kernel's own descriptors (`link.descriptors.OWN_DESCRIPTORS`) are left out.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
import termios
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Union

from ..link.descriptors import OWN_DESCRIPTORS, identify_file

# Reasons why something is not restored, as the user reads them.
_READ_REASON = "what was read from this {noun} does not come back"
_ADDED_REASON = "what has come into this {noun} stays in it, and nothing that was read comes back"
_SENT_REASON = "what this {noun} has sent stays so"
_UNKNOWN_REASON = "not compared: what was read from this {noun} or written to it stays so"

# As in `socket`, whose import would delay the start of a kernel.
_IPPROTO_TCP = 6
_TCP_INFO = 11
# Of `struct tcp_info` in `linux/tcp.h`.
_TCP_INFO_BYTES = 136
_ACKNOWLEDGED_OFFSET = 120
"""Where the number of the bytes is that the other side has acknowledged. After it comes the number of
the bytes that were received."""

_C_LIBRARY = ctypes.CDLL(None)


class DescriptorStates:
    """The states of the open descriptors at one time."""

    def __init__(self) -> None:
        """Note the states, except those of the kernel's own descriptors."""
        self._states = dict(_read_states())

    def find_changes(
        self, ignored_descriptors: Collection[int], mentioned_descriptors: Collection[int]
    ) -> list[tuple[str, str]]:
        """Return the labels of the descriptors that have changed since, each with what does not come back.

        Args:
            ignored_descriptors: Descriptors of files that are compared in another way.
            mentioned_descriptors: Descriptors that the code may mean. Other sockets are ignored,
                because they may be the kernel's own.
        """
        changes: list[tuple[str, str]] = []
        new_states = dict(_read_states())
        for number, old_state in self._states.items():
            new_state = new_states.get(number)
            is_mentioned = number in mentioned_descriptors
            if number in ignored_descriptors or (old_state.noun == "socket" and not is_mentioned):
                continue
            label = f"descriptor {number}"
            if new_state is None or old_state.identity != new_state.identity:
                # The kernel has pipes of its own.
                if old_state.noun != "pipe":
                    changes.append((label, "it was closed, and is not opened again"))
                continue
            reason = old_state.describe_change(new_state, is_mentioned=is_mentioned)
            if not reason:
                continue
            if old_state.noun == "file":
                label = f"{label} ({_file_name(number)})"
            changes.append((label, reason))
        return changes


@contextmanager
def opening_own_descriptors() -> Iterator[None]:
    """Count the descriptors that the block opens as the kernel's."""
    earlier_descriptors = dict(_identities())
    yield
    for number, identity in _identities():
        if earlier_descriptors.get(number) != identity:
            OWN_DESCRIPTORS[number] = identity


class _FileProgress(NamedTuple):
    """How far a regular file is read or written."""

    position: int
    """Bytes from the start of the file."""
    written: tuple[int, int] | None
    """The size, and when the file was changed last, in nanoseconds; None if it is open for reading only."""

    def describe_change(self, new: _FileProgress) -> Iterator[str]:
        """Yield what does not come back, as clauses."""
        if self.written != new.written:
            yield "the file has changed and stays so"
        if self.position != new.position:
            yield "its position stays"


class _PipeProgress(NamedTuple):
    """What is in a pipe. As much may have come into it as was read."""

    waiting_bytes: int
    """0 if the pipe is open for writing only."""

    def describe_change(self, new: _PipeProgress) -> Iterator[str]:
        """Yield what does not come back, as a clause."""
        if self.waiting_bytes > new.waiting_bytes:
            yield _READ_REASON
        elif self.waiting_bytes < new.waiting_bytes:
            yield _ADDED_REASON


class _SocketProgress(NamedTuple):
    """How far a TCP socket is read and written. Both numbers are off by a constant."""

    read_bytes: int
    sent_bytes: int

    def describe_change(self, new: _SocketProgress) -> Iterator[str]:
        """Yield what does not come back, as clauses."""
        if self.read_bytes != new.read_bytes:
            yield _READ_REASON
        if self.sent_bytes != new.sent_bytes:
            yield _SENT_REASON


_Progress = Union[_FileProgress, _PipeProgress, _SocketProgress]


class _DescriptorState(NamedTuple):
    """What a descriptor leads to, and how far it is read and written."""

    identity: tuple[int, int]
    """The device and the number of its file."""
    noun: str
    """"file", "device" (or a folder), "pipe" or "socket"."""
    flags: tuple[int, int]
    """Flags of the file, such as whether it blocks, and flags of the descriptor."""
    progress: _Progress | None = None
    """None if nothing counts it, as for a socket that is not TCP."""

    @property
    def can_read(self) -> bool:
        """Whether the descriptor was opened for reading."""
        return self.flags[0] & os.O_ACCMODE != os.O_WRONLY

    @property
    def hides_reading(self) -> bool:
        """Whether something may have been read although the progress is the same."""
        is_uncounted_socket = self.noun == "socket" and self.progress is None
        return self.can_read and (self.noun == "pipe" or is_uncounted_socket)

    def describe_change(self, new_state: _DescriptorState, *, is_mentioned: bool) -> str:
        """Return what does not come back of this state, as clauses; empty if nothing has changed.

        Args:
            new_state: The state of the same file later.
            is_mentioned: Whether the code may have meant it.
        """
        clauses = self._describe_progress(new_state)
        if not clauses and is_mentioned and self.hides_reading:
            clauses = [_UNKNOWN_REASON]
        if not clauses and self.flags != new_state.flags:
            clauses = ["its flags were changed and stay so"]
        return "; ".join(clauses).format(noun=self.noun)

    def _describe_progress(self, new_state: _DescriptorState) -> list[str]:
        """Return what was read and written since, as clauses."""
        if type(self.progress) is not type(new_state.progress):
            # A socket that is not counted any more, or only now.
            return [_UNKNOWN_REASON]
        if self.progress is None:
            return []
        describe: Any = self.progress.describe_change
        return list(describe(new_state.progress))


def _file_name(number: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        return "unknown"


# Reading the states


def _identities() -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the open descriptors, each with the device and the number of its file."""
    for number in _list_descriptors():
        with suppress(OSError):  # closed meanwhile
            yield number, identify_file(number)


def _list_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []


def _read_states() -> Iterator[tuple[int, _DescriptorState]]:
    """Yield the open descriptors that are not the kernel's, with their states."""
    for number, identity in _identities():
        if OWN_DESCRIPTORS.get(number) == identity:
            continue
        try:
            state = _read_state(number, identity)
        except OSError:  # closed meanwhile
            continue
        if state is not None:
            yield number, state


def _read_state(number: int, identity: tuple[int, int]) -> _DescriptorState | None:
    """Return the state of a descriptor; None if it is of a kind without one, such as a timer.

    Raises:
        OSError: The descriptor is closed.
    """
    status = os.fstat(number)
    flags = (fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD))
    if stat.S_ISREG(status.st_mode):
        is_written = flags[0] & os.O_ACCMODE != os.O_RDONLY
        written = (status.st_size, status.st_mtime_ns) if is_written else None
        position = os.lseek(number, 0, os.SEEK_CUR)
        return _DescriptorState(identity, "file", flags, _FileProgress(position, written))
    if stat.S_ISFIFO(status.st_mode):
        pipe = _DescriptorState(identity, "pipe", flags)
        waiting_bytes = _count_waiting(number) if pipe.can_read else 0
        return pipe._replace(progress=_PipeProgress(waiting_bytes))
    if stat.S_ISSOCK(status.st_mode):
        return _DescriptorState(identity, "socket", flags, _read_socket_progress(number))
    if _is_device_or_folder(status.st_mode):
        return _DescriptorState(identity, "device", flags)
    return None


def _is_device_or_folder(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)


def _count_waiting(number: int, request: int = termios.FIONREAD) -> int:
    """Return how many bytes wait in a pipe or a socket.

    Args:
        number: The descriptor.
        request: Those to be read, or to be sent.
    """
    return int(struct.unpack("i", fcntl.ioctl(number, request, bytes(4)))[0])


def _read_socket_progress(number: int) -> _SocketProgress | None:
    """Return how far a TCP socket is read and written; None for others, which do not count it."""
    statistics = ctypes.create_string_buffer(_TCP_INFO_BYTES)
    size = ctypes.c_uint(_TCP_INFO_BYTES)
    # A socket object of Python's would get its default timeout, and so would this socket.
    failure = _C_LIBRARY.getsockopt(number, _IPPROTO_TCP, _TCP_INFO, statistics, ctypes.byref(size))
    if failure or size.value < _TCP_INFO_BYTES:  # not TCP, or an old system
        return None
    acknowledged, received = struct.unpack_from("QQ", statistics, _ACKNOWLEDGED_OFFSET)
    waiting = _count_waiting(number)
    unsent = _count_waiting(number, termios.TIOCOUTQ)
    return _SocketProgress(read_bytes=received - waiting, sent_bytes=acknowledged + unsent)


# Those that are open when this module is loaded, before the first cell, are the kernel's.
OWN_DESCRIPTORS.update(_identities())
