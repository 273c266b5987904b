"""Reads what a kernel prints: from its pipe, or from the spool, where it stays until it is
stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from mahtab_tui.kernel.worker.holding.spool import PIECE, Spool, in_pipe, left_out

MUCH = 2**20
"""Bytes from which on it is worth freeing their memory."""


class Output(Protocol):
    """Output of a kernel. `read` is called when its pipe has something."""

    def read(self) -> bytes | None:
        """Return the next bytes; none at the end, None if there are none now."""

    def waiting(self) -> Iterator[bytes]:
        """Yield what is there now, and no more: a thread of the user's may print without end."""


class SeekableOutput(Output, Protocol):
    """Output that another host can read again. An offset in it is the number of a byte."""

    @property
    def at(self) -> int:
        """The offset of the next byte to be read."""

    def go_to(self, offset: int) -> None:
        """Leave out what lies before an offset, if that is not read yet."""

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, as far as they were printed."""

    def stored(self, offset: int) -> bool:
        """Note that output before an offset is stored, and need not stay. Returns whether that was
        much."""


class PipeOutput:
    """Output that is gone once it is read."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def read(self) -> bytes | None:
        return os.read(self._pipe, PIECE)

    def waiting(self) -> Iterator[bytes]:
        left = in_pipe(self._pipe)
        while left > 0 and (data := os.read(self._pipe, min(left, PIECE))):
            yield data
            left -= len(data)


class SpooledOutput:
    """The `SeekableOutput` of a kernel of this machine. Bytes go from the pipe to the spool, and
    are read there."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.at = 0

    def go_to(self, offset: int) -> None:
        self.at = max(self.at, offset)

    def read(self, most: int = PIECE) -> bytes | None:
        try:
            if self.at >= self._spool.size and self._spool.move() == 0:
                return b""
        except BlockingIOError:
            return None
        if data := self._spool.read(self.at, most):
            self.at += len(data)
            return data
        start, self.at = self.at, max(self.at, self._spool.next_byte(self.at))
        return left_out(self.at - start)

    def waiting(self) -> Iterator[bytes]:
        return self.until(self._spool.printed())

    def until(self, end: int) -> Iterator[bytes]:
        while self.at < end and (data := self.read(min(end - self.at, PIECE))):
            yield data

    def stored(self, offset: int) -> bool:
        if offset - self._spool.start < MUCH:
            return False
        self._spool.release(offset)
        return True
