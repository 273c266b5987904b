"""The spool: a file in memory that keeps what a kernel has printed until a host has stored it. An
offset in it is the number of a byte.

Whoever is attached moves the bytes there from the kernel's pipe, so that none is lost when a host
is killed between reading and storing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

HEAD = 32 * 2**20
TAIL = 16 * 2**20
"""Bytes that are kept of what no host has stored: its beginning, and at least so many at its end.
What is between them is left out."""

PIECE = 65536

_PAGE = 4096
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_NONBLOCK = 0x02  # SPLICE_F_NONBLOCK


def left_out(count: int) -> bytes:
    """Say how many bytes are left out here."""
    return f"\n… {count:,} bytes left out …\n".encode()


def in_pipe(pipe: int) -> int:
    """How many bytes wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


class Spool:
    """A kernel's pipe, and the file to which its bytes are moved. One process at a time may move
    them."""

    def __init__(self, pipe: int, file: int) -> None:
        self.pipe = pipe
        self.file = file
        self._start: int | None = None
        """Offset of the first byte that is still there."""
        self._left_out = self.start + HEAD
        """The end of what was left out last."""
        self._library: Any = None

    @property
    def size(self) -> int:
        """How many bytes have been moved so far, those included that are gone."""
        return os.lseek(
            self.file, 0, os.SEEK_END
        )  # quicker than fstat, and every read and write has its own offset

    def printed(self) -> int:
        """How many bytes have been printed so far. Any process may ask; another may move bytes
        meanwhile."""
        while True:
            before = self.size
            total = before + in_pipe(self.pipe)
            if self.size == before:
                return total

    def move(self) -> int:
        """Move bytes that wait in the pipe; returns how many, and 0 once nobody can print any more.
        Raises `BlockingIOError` if none wait."""
        size = self.size
        count = _splice(self.pipe, self.file, size)
        end = size + count - TAIL
        if end - self._left_out >= TAIL and end > self.start + HEAD:
            self._punch(self.start + HEAD, end)
            self._left_out = end
        return count

    def move_all(self) -> None:
        """Move what waits in the pipe now, and no more."""
        left = in_pipe(self.pipe)
        with suppress(BlockingIOError):
            while left > 0 and (moved := self.move()):
                left -= moved

    @property
    def start(self) -> int:
        """Offset of the first byte that is still there."""
        if self._start is None:
            self._start = self.next_byte(0)
        return self._start

    def next_byte(self, offset: int) -> int:
        """Return the next offset at which there is a byte, or will be one; what lies before it was
        left out."""
        try:
            return os.lseek(self.file, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.size

    def read(self, offset: int, most: int = PIECE) -> bytes:
        """Return bytes from an offset on; none at the end."""
        try:
            hole = os.lseek(self.file, offset, os.SEEK_HOLE)
        except OSError:  # at the end
            return b""
        return os.pread(self.file, min(most, hole - offset), offset)

    def rest(self, offset: int) -> Iterator[bytes]:
        """Yield the bytes from an offset on, and say where some are left out."""
        while offset < self.size:
            if piece := self.read(offset):
                offset += len(piece)
                yield piece
            else:
                start, offset = offset, self.next_byte(offset)
                yield left_out(offset - start)

    def release(self, offset: int) -> None:
        """Free the memory of the bytes before an offset: a host has stored them."""
        if offset > self.start:
            self._punch(self.start // _PAGE * _PAGE, offset)
            self._start = offset
            self._left_out = max(self._left_out, offset + HEAD)

    def _punch(self, start: int, end: int) -> None:
        if sys.platform != "linux":  # the file stays as large as it is
            return
        start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if start < end:
            if self._library is None:
                self._library = ctypes.CDLL(None)
            self._library.fallocate(
                self.file, _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(end - start)
            )


def _splice(pipe: int, file: int, offset: int) -> int:
    if sys.platform != "linux":
        if not select.select([pipe], [], [], 0)[0]:
            raise BlockingIOError(errno.EAGAIN, "nothing was printed")
        return os.pwrite(file, os.read(pipe, PIECE), offset)
    if hasattr(os, "splice"):
        return os.splice(pipe, file, PIECE, offset_dst=offset, flags=_NONBLOCK)
    place = ctypes.c_int64(offset)  # Python 3.9
    library = ctypes.CDLL(None, use_errno=True)
    count = int(
        library.splice(pipe, None, file, ctypes.byref(place), ctypes.c_size_t(PIECE), _NONBLOCK)
    )
    if count < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return count
