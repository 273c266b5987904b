"""Lines of text over the standard streams, read and written in the event loop.

Passing each line to a thread and back would take longer than most calls."""

from __future__ import annotations

import os
import select
from collections import deque

import anyio

READ_BYTES = 65_536


class LineReader:
    """Yields the lines of a pipe, a socket or a file, without line ends.

    The last one may have none.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        """Lines that are complete, and not returned yet."""
        self._pieces: list[bytes] = []
        """The beginning of the next line."""
        self._can_wait = True
        """Whether the event loop can wait for data, which it cannot for a regular file."""

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            data = await self._read()
            if not data:
                last_line = b"".join(self._pieces)
                self._pieces.clear()
                if not last_line:
                    raise StopAsyncIteration
                return last_line.decode("utf-8", "replace")
            self._split(data)
        return self._lines.popleft().decode("utf-8", "replace")

    def _split(self, data: bytes) -> None:
        """Add data to the beginning of the next line; each line's end in it completes a line."""
        first_piece, *later_pieces = data.split(b"\n")
        self._pieces.append(first_piece)
        for piece in later_pieces:
            self._lines.append(b"".join(self._pieces))
            self._pieces = [piece]

    async def _read(self) -> bytes:
        """Return some data; empty at the end."""
        if self._can_wait:
            try:
                await anyio.wait_readable(self._descriptor)
            except PermissionError:  # of epoll, for a regular file
                self._can_wait = False
            else:
                return os.read(self._descriptor, READ_BYTES)
        return await anyio.to_thread.run_sync(os.read, self._descriptor, READ_BYTES)


class LineWriter:
    """Writes to a pipe, a socket or a file.

    A thread writes what the other side does not accept at once.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._pending = b""

    async def write(self, text: str) -> None:
        """Keep a text until `flush`."""
        self._pending += text.encode("utf-8", "replace")

    async def flush(self) -> None:
        """Write everything. Raises `OSError`."""
        data = self._pending
        self._pending = b""
        # A pipe that is ready accepts up to PIPE_BUF bytes without blocking.
        if len(data) <= select.PIPE_BUF and self._poll.poll(0):
            written_bytes = os.write(self._descriptor, data)
            data = data[written_bytes:]
        if data:
            await anyio.to_thread.run_sync(self._write_all, data)

    def _write_all(self, data: bytes) -> None:
        unwritten = memoryview(data)
        while unwritten:
            written_bytes = os.write(self._descriptor, unwritten)
            unwritten = unwritten[written_bytes:]
