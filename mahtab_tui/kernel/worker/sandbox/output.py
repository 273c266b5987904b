"""Captures what a turn prints: head, tail and length."""

from __future__ import annotations

import codecs
import io
from typing import Any, NamedTuple

from ..capture import left_out

HEAD, TAIL = 5_000, 3_000
"""Characters that are kept of each."""


class TurnOutput(NamedTuple):
    """The output of a turn."""

    text: str
    chars: int
    """Length of all that was printed."""


class Ends:
    """Takes any amount of UTF-8 and keeps the first and the last characters."""

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
        """Return what has come since the last call."""
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
    """The raw stream below a text stream, which writes to `Ends`."""

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
    """`sys.stdout` and `sys.stderr` of the code: one stream, which keeps the order of what is
    printed."""

    def __init__(self) -> None:
        self._ends = Ends()
        self._stream = self._open()

    def stream(self) -> io.TextIOWrapper:
        """Return the stream; a new one if the code has closed or detached the last."""
        try:
            self._stream.flush()
        except ValueError:
            self._stream = self._open()
        return self._stream

    def take(self) -> TurnOutput:
        """Return what was printed since the last call."""
        self.stream()
        return self._ends.take()

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(
            io.BufferedWriter(_Raw(self._ends), 65_536),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
        )
