"""The output of a kernel on another machine."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mahtab_tui.kernel.process_parts import RELEASE_SIZE
from mahtab_tui.worker.link.spool import PIECE_BYTES, format_omission, pending_bytes


class _Skip(NamedTuple):
    """A place in the pipe behind which output is missing."""

    pipe_bytes: int
    """How many bytes were written to the pipe before."""
    offset: int
    """The offset of what follows."""


class _OutputPiece(NamedTuple):
    """Output that belongs together."""

    offset: int
    """The offset of its first byte."""
    data: bytes


class RemoteOutput:
    """The output of a remote kernel, in a pipe.

    The connection's thread writes to it, and the kernel's reader thread reads it. Offsets count the
    bytes that the kernel has printed; some of them may not arrive.
    """

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        """
        Args:
            acknowledge: Tells the other machine that output before an offset is stored.
        """
        self.pipe, self._write_end = os.pipe()
        self.position = 0
        """The offset of the next byte to return."""
        self._acknowledge = acknowledge
        self._written_bytes = 0
        """Bytes written to the pipe."""
        self._read_bytes = 0
        """Bytes read from it."""
        self._read_offset = 0
        """The offset of the next byte in the pipe."""
        self._skips: deque[_Skip] = deque()
        """Where the offsets of what is in the pipe skip."""
        self._pieces: deque[_OutputPiece] = deque()
        """What was read from the pipe, but not returned."""
        self._acknowledged_offset = 0
        """Output before it is stored, as the other machine knows."""

    # Called by the connection's thread

    def skip_to(self, offset: int) -> None:
        """Note that what is written next has this offset, because output is missing."""
        self._skips.append(_Skip(self._written_bytes, offset))

    def write(self, data: bytes) -> None:
        """Write output, and wait until it fits into the pipe."""
        self._written_bytes += len(data)
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._write_end, view) :]

    def end(self) -> None:
        """Note that no more output comes."""
        os.close(self._write_end)

    # Called by the reader thread

    def read(self) -> bytes | None:
        """Return the next output, waiting for it.

        Empty at its end, None if all of it was returned before.
        """
        if not (self._pieces or self._fill()):
            return b""
        return self._next_output() or None

    def available(self) -> Iterator[bytes]:
        """Yield the output that is here."""
        return self._through(self._read_bytes + pending_bytes(self.pipe))

    def _through(self, end: int) -> Iterator[bytes]:
        """Yield what the first bytes of the pipe contain.

        Args:
            end: Their number.
        """
        while self._pieces or (self._read_bytes < end and self._fill()):
            yield self._next_output()

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, waiting for those that have not arrived."""
        while self.position < end and (self._pieces or self._fill()):
            yield self._next_output(end)

    def go_to(self, offset: int) -> None:
        """Continue at an offset, if it was not reached yet."""
        self.position = max(self.position, offset)

    def release(self, offset: int) -> None:
        """Note that output before an offset is stored, once that is worth a message."""
        if offset - self._acknowledged_offset >= RELEASE_SIZE:
            self._acknowledged_offset = offset
            self._acknowledge(offset)

    def _fill(self) -> bool:
        """Read from the pipe, waiting if it is empty; returns False at its end."""
        data = os.read(self.pipe, PIECE_BYTES)
        start = 0
        while start < len(data):
            while self._skips and self._skips[0].pipe_bytes <= self._read_bytes:
                self._read_offset = self._skips.popleft().offset
            # A piece ends where the offsets skip.
            end = len(data)
            if self._skips:
                end = min(end, start + self._skips[0].pipe_bytes - self._read_bytes)
            self._pieces.append(_OutputPiece(self._read_offset, data[start:end]))
            self._read_bytes += end - start
            self._read_offset += end - start
            start = end
        return bool(data)

    def _next_output(self, end: int | None = None) -> bytes:
        """Return the pieces that are here, up to an offset, with a note for each gap."""
        output = b""
        while self._pieces and (end is None or self.position < end):
            offset, data = self._pieces.popleft()
            # The beginning may have been returned before the connection was lost.
            data = data[max(0, self.position - offset) :]
            if not data:
                continue
            if offset > self.position:
                output += format_omission(offset - self.position)
                self.position = offset
            if end is not None:
                max_bytes = max(0, end - self.position)
                if len(data) > max_bytes:
                    rest = _OutputPiece(self.position + max_bytes, data[max_bytes:])
                    self._pieces.appendleft(rest)
                    data = data[:max_bytes]
            self.position += len(data)
            output += data
        return output
