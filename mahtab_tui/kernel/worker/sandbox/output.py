"""What a turn prints: its head and its tail, and how long it was."""

from __future__ import annotations

import codecs
import io
from typing import Any, NamedTuple

from ..capture import left_out

HEAD, TAIL = 5_000, 3_000
"""Characters that are kept."""


class TurnOutput(NamedTuple):
    """The output of a turn."""

    text: str
    chars: int
    """Of all that was printed."""


class Ends:
    """Takes any number of bytes of UTF-8 and keeps the first and the last characters."""

    def __init__(self) -> None:
        self._head = self._tail = ""
        self._chars = 0
        self._begin()

    def add(self, data: bytes, final: bool = False) -> None:
        text = self._decoder.decode(data, final)
        self._chars += len(text)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail = (self._tail + text[-TAIL:])[-TAIL:]

    def take(self) -> TurnOutput:
        """What has come since the last time."""
        self.add(b"", final=True)
        dropped = self._chars - len(self._head) - len(self._tail)
        between = left_out(dropped) if dropped else ""
        printed = TurnOutput(self._head + between + self._tail, self._chars)
        self._begin()
        return printed

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = self._tail = ""
        self._chars = 0


class _Raw(io.RawIOBase):
    """What lies under a stream: hands on to the ends."""

    def __init__(self, ends: Ends) -> None:
        super().__init__()
        self._ends = ends

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        block = bytes(data)
        self._ends.add(block)
        return len(block)


class Streams:
    """`sys.stdout` and `sys.stderr` of the code: one stream, so that what was printed stands in its order."""

    def __init__(self) -> None:
        self._ends = Ends()
        self._stream = self._open()

    def stream(self) -> io.TextIOWrapper:
        """The stream; a new one where the code has closed or taken apart the last."""
        try:
            self._stream.flush()
        except ValueError:
            self._stream = self._open()
        return self._stream

    def take(self) -> TurnOutput:
        """What was printed since the last time."""
        self.stream()
        return self._ends.take()

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BufferedWriter(_Raw(self._ends), 65_536), encoding="utf-8", errors="backslashreplace", newline="\n")
