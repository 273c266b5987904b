"""Output of a kernel elsewhere, as it comes over the wire."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator

from mahtab_tui.kernel.seekable_output import MUCH
from mahtab_tui.kernel.worker.holding.spool import PIECE, in_pipe, left_out


class FarOutput:
    """The `seekable_output.SeekableOutput` of a kernel elsewhere. The wire's thread writes to it, the
    thread that reads the kernel reads it."""

    def __init__(self, tell_stored: Callable[[int], None]) -> None:
        """tell_stored: tells the station up to which offset output is stored."""
        self.pipe, self._write_end = os.pipe()
        self.at = 0
        self._tell_stored = tell_stored
        self._written = self._read = 0
        """Bytes that went through the pipe."""
        self._next = 0
        """The offset of the next byte in the pipe."""
        self._skips: deque[tuple[int, int]] = deque()
        """After how many bytes in the pipe which offset comes next; noted before those bytes are
        written."""
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Pieces read from the pipe and not yet delivered, with offsets."""
        self._stored = 0

    # The wire's thread.

    def skip_to(self, offset: int) -> None:
        """Set the offset at which the following output was printed."""
        self._skips.append((self._written, offset))

    def write(self, data: bytes) -> None:
        """Write what has come; nothing if nobody reads it any more."""
        self._written += len(data)
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._write_end, view) :]

    def end(self) -> None:
        """Nothing more comes."""
        os.close(self._write_end)

    # The thread that reads.

    def read(self) -> bytes | None:
        return (self._give() or None) if self._take() else b""

    def waiting(self) -> Iterator[bytes]:
        left = self._read + in_pipe(self.pipe)
        while self._pieces or (self._read < left and self._take()):
            yield self._give()

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset; those that have not come yet are waited for."""
        while self.at < end and (self._pieces or self._take()):
            yield self._give(end)

    def go_to(self, offset: int) -> None:
        self.at = max(self.at, offset)

    def stored(self, offset: int) -> bool:
        if offset - self._stored < MUCH:
            return False
        self._stored = offset
        self._tell_stored(offset)
        return True

    def _take(self) -> bool:
        """Read from the pipe, and wait if there is nothing; returns False at its end."""
        data = rest = os.read(self.pipe, PIECE)
        while rest:
            while self._skips and self._skips[0][0] <= self._read:
                self._next = self._skips.popleft()[1]
            count = min(len(rest), self._skips[0][0] - self._read) if self._skips else len(rest)
            self._pieces.append((self._next, rest[:count]))
            self._read, self._next, rest = self._read + count, self._next + count, rest[count:]
        return bool(data)

    def _give(self, end: int | None = None) -> bytes:
        """Return what was read, and say what is missing before it. end: only what was printed
        before this offset."""
        given = b""
        while self._pieces and (end is None or self.at < end):
            offset, data = self._pieces.popleft()
            data = data[max(0, self.at - offset) :]
            if not data:
                continue
            if offset > self.at:
                given += left_out(offset - self.at)
                self.at = offset
            if end is not None and len(data) > max(0, end - self.at):
                count = max(0, end - self.at)
                self._pieces.appendleft((self.at + count, data[count:]))
                data = data[:count]
            self.at += len(data)
            given += data
        return given
