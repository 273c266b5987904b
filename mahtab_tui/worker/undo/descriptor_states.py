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
from typing import NamedTuple

from ..link.descriptors import OWN_DESCRIPTORS, identify_file

_COUNTED_SOCKET = "counted socket"
"""A TCP socket: it knows how many bytes were read from it and sent."""
_SOCKETS = (_COUNTED_SOCKET, "socket")

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
        self._states = dict(_read_states())

    def find_changes(
        self, ignored_descriptors: Collection[int], mentioned_descriptors: Collection[int]
    ) -> list[tuple[str, str]]:
        """Return what has changed since then, which cannot be restored, as labels and reasons.

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
            if number in ignored_descriptors or (old_state.kind in _SOCKETS and not is_mentioned):
                continue
            label = f"descriptor {number}"
            if new_state is None or old_state.identity != new_state.identity:
                # The kernel has pipes of its own.
                if old_state.kind != "pipe":
                    changes.append((label, "it was closed, and is not opened again"))
                continue
            reason = old_state.describe_change(new_state, is_mentioned=is_mentioned)
            if reason and old_state.kind == "file":
                label = f"{label} ({_file_name(number)})"
            if reason:
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


class _DescriptorState(NamedTuple):
    """How far what a descriptor leads to is read and written."""

    identity: tuple[int, int]
    """The device and the number of its file."""
    kind: str
    """"file", "device" (or a folder), "pipe", or one of `_SOCKETS`."""
    flags: tuple[int, int]
    """Flags of the file, such as whether it blocks, and flags of the descriptor."""
    position: int = 0
    """Bytes from the start of a file, waiting in a pipe, or read from a counted socket, up to a
    constant; 0 for all others."""
    written: tuple[int, ...] = ()
    """Size and time of the last change of a file that may be written, or the bytes that a counted
    socket has sent, up to a constant."""

    @property
    def can_read(self) -> bool:
        """Whether the descriptor was opened for reading."""
        return self.flags[0] & os.O_ACCMODE != os.O_WRONLY

    def describe_change(self, new_state: _DescriptorState, *, is_mentioned: bool) -> str:
        """Return what does not come back of this state, as clauses; empty if nothing has changed.

        Args:
            new_state: That of the same file later.
            is_mentioned: Whether the code may have meant it.
        """
        clauses = [*self._describe_transfer(new_state)]
        # In a pipe, as much may have come as was read. Sockets that are not TCP do not count at all.
        hides_reading = self.kind in ("socket", "pipe") and self.can_read
        if not clauses and is_mentioned and hides_reading:
            clauses.append(_UNKNOWN_REASON)
        if not clauses and self.flags != new_state.flags:
            clauses.append("its flags were changed and stay so")
        noun = "socket" if self.kind in _SOCKETS else self.kind
        return "; ".join(clauses).format(noun=noun)

    def _describe_transfer(self, new_state: _DescriptorState) -> Iterator[str]:
        """Yield what was read and written since, as clauses."""
        is_moved = self.position != new_state.position
        is_written = self.written != new_state.written
        if self.kind == "file":
            if is_written:
                yield "the file has changed and stays so"
            if is_moved:
                yield "its position stays"
        elif self.kind == _COUNTED_SOCKET:
            if is_moved:
                yield _READ_REASON
            if is_written:
                yield _SENT_REASON
        elif is_moved:
            yield _READ_REASON if self.position > new_state.position else _ADDED_REASON


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
    device = _DescriptorState(identity, "device", flags)
    if stat.S_ISREG(status.st_mode):
        access_mode = flags[0] & os.O_ACCMODE
        written: tuple[int, ...] = ()
        if access_mode != os.O_RDONLY:
            written = (status.st_size, status.st_mtime_ns)
        position = os.lseek(number, 0, os.SEEK_CUR)
        return device._replace(kind="file", position=position, written=written)
    if stat.S_ISFIFO(status.st_mode):
        waiting_bytes = _count_waiting(number) if device.can_read else 0
        return device._replace(kind="pipe", position=waiting_bytes)
    if stat.S_ISSOCK(status.st_mode):
        transfer = _count_transfer(number)
        if transfer is None:
            return device._replace(kind="socket")
        read_bytes, sent_bytes = transfer
        return device._replace(kind=_COUNTED_SOCKET, position=read_bytes, written=(sent_bytes,))
    return device if _is_device_or_folder(status.st_mode) else None


def _is_device_or_folder(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)


def _count_waiting(number: int, request: int = termios.FIONREAD) -> int:
    """Return how many bytes wait in a pipe or a socket.

    Args:
        number: The descriptor.
        request: Those to be read, or to be sent.
    """
    return int(struct.unpack("i", fcntl.ioctl(number, request, bytes(4)))[0])


def _count_transfer(number: int) -> tuple[int, int] | None:
    """Return the bytes that were read from a TCP socket, and those written to it, both up to a
    constant; None if this socket does not count them."""
    statistics = ctypes.create_string_buffer(_TCP_INFO_BYTES)
    size = ctypes.c_uint(_TCP_INFO_BYTES)
    # A socket object of Python's would get its default timeout, and so would this socket.
    failure = _C_LIBRARY.getsockopt(number, _IPPROTO_TCP, _TCP_INFO, statistics, ctypes.byref(size))
    if failure or size.value < _TCP_INFO_BYTES:  # not TCP, or an old system
        return None
    acknowledged, received = struct.unpack_from("QQ", statistics, _ACKNOWLEDGED_OFFSET)
    waiting = _count_waiting(number)
    unsent = _count_waiting(number, termios.TIOCOUTQ)
    return received - waiting, acknowledged + unsent


# Those that are open when this module is loaded, before the first cell, are the kernel's.
OWN_DESCRIPTORS.update(_identities())
