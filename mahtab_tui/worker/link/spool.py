"""Keeps the output of a kernel in a file until a host has stored it, so that a killed host loses nothing.

A host moves the output itself while it is there (`kernel.spooled_output`). Without one, the holder or the station
moves it. `backlog.EventBacklog` notes what cells have done meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .descriptors import is_readable

HEAD_BYTES = 32 * 2**20
"""Bytes to keep of the beginning of output that no host has stored."""
TAIL_BYTES = 16 * 2**20
"""Bytes to keep of its end."""

PIECE_BYTES = 65_536
"""Bytes that are moved or read at once."""

_PAGE_BYTES = 4096
"""Only whole pages can become holes."""
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_NONBLOCK = 0x02  # SPLICE_F_NONBLOCK
_INT = struct.Struct("i")
"""The `int` of C, in which the system counts the bytes in a pipe."""


def format_omission(count: int) -> bytes:
    """Return the line in place of bytes that were dropped."""
    return f"\n… {count:,} bytes left out …\n".encode()


def pending_bytes(pipe: int) -> int:
    """Return how many bytes a pipe holds."""
    (count,) = _INT.unpack(fcntl.ioctl(pipe, termios.FIONREAD, bytes(_INT.size)))
    return int(count)


class Spool:
    """Output in a file, by its offset from the kernel's start.

    What a host has stored, and the middle of what none has, are holes in the file. Only one process
    at a time may move the output.
    """

    def __init__(self, pipe: int, file: int) -> None:
        """Use a file that may have output already.

        Args:
            pipe: The descriptor from which the output comes.
            file: The descriptor of the file.
        """
        self.pipe = pipe
        self.file = file
        self._start: int | None = None
        """What `start` returns, once it is known."""
        self._omitted_until = self.start + HEAD_BYTES
        """Up to this offset, output after the head was dropped."""
        self._c_library: Any = None
        """Loaded when the first hole is made."""

    @property
    def size(self) -> int:
        """The offset of the end of what was moved to the file, in bytes."""
        # Quicker than fstat, and every read and write has its own offset.
        return os.lseek(self.file, 0, os.SEEK_END)

    def printed_size(self) -> int:
        """Return the offset of the end of the output, also that in the pipe.

        Another process may move it meanwhile.
        """
        while True:
            size_before = self.size
            total = size_before + pending_bytes(self.pipe)
            if self.size == size_before:
                return total

    def move(self) -> int:
        """Move output from the pipe to the file.

        Returns:
            The number of bytes; 0 once nothing can print any more.

        Raises:
            BlockingIOError: Nothing was printed.
        """
        size = self.size
        moved_bytes = _splice(self.pipe, self.file, size)
        head_end = self.start + HEAD_BYTES
        tail_start = size + moved_bytes - TAIL_BYTES
        # Rarely, because making a hole takes longer than moving a piece.
        if tail_start - self._omitted_until >= TAIL_BYTES and tail_start > head_end:
            self._punch(head_end, tail_start)
            self._omitted_until = tail_start
        return moved_bytes

    def move_all(self) -> None:
        """Move what is in the pipe now."""
        pending_count = pending_bytes(self.pipe)
        with suppress(BlockingIOError):
            while pending_count > 0 and (moved := self.move()):
                pending_count -= moved

    @property
    def start(self) -> int:
        """The offset of the first byte that is kept."""
        if self._start is None:
            self._start = self.next_byte(0)
        return self._start

    def next_byte(self, offset: int) -> int:
        """Return the offset of the first byte from `offset` on that is not in a hole."""
        try:
            return os.lseek(self.file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size

    def read(self, offset: int, max_bytes: int = PIECE_BYTES) -> bytes:
        """Return output from an offset on; nothing at the end and in a hole.

        Args:
            offset: Where to begin.
            max_bytes: How much to return at most.
        """
        try:
            hole = os.lseek(self.file, offset, os.SEEK_HOLE)
        except OSError:
            return b""
        return os.pread(self.file, min(max_bytes, hole - offset), offset)

    def iter_from(self, offset: int) -> Iterator[bytes]:
        """Yield the output from an offset on, with a line for each hole."""
        while offset < self.size:
            if piece := self.read(offset):
                offset += len(piece)
                yield piece
            else:
                start = offset
                offset = self.next_byte(offset)
                yield format_omission(offset - start)

    def release(self, offset: int) -> None:
        """Drop the output before an offset."""
        if offset > self.start:
            self._punch(self.start // _PAGE_BYTES * _PAGE_BYTES, offset)
            self._start = offset
            self._omitted_until = max(self._omitted_until, offset + HEAD_BYTES)

    def _punch(self, start: int, end: int) -> None:
        """Make a hole of the whole pages between two offsets, where the system can."""
        first_page_start = -(-start // _PAGE_BYTES) * _PAGE_BYTES
        last_page_end = end // _PAGE_BYTES * _PAGE_BYTES
        if first_page_start < last_page_end and sys.platform == "linux":
            if self._c_library is None:
                self._c_library = ctypes.CDLL(None)
            size = last_page_end - first_page_start
            hole = ctypes.c_int64(first_page_start), ctypes.c_int64(size)
            self._c_library.fallocate(self.file, _PUNCH_HOLE, *hole)


def _splice(pipe: int, file: int, offset: int) -> int:
    """Move a piece from a pipe to a file's offset; return its bytes. Raises `BlockingIOError`."""
    if hasattr(os, "splice"):
        return os.splice(pipe, file, PIECE_BYTES, offset_dst=offset, flags=_NONBLOCK)
    # Python 3.9, and systems other than Linux.
    if not is_readable(pipe):
        raise BlockingIOError(errno.EAGAIN, "nothing was printed")
    return os.pwrite(file, os.read(pipe, PIECE_BYTES), offset)
