"""What a cell prints, on the host's side: decoded, joined to chunks, kept to a bound."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Callable

from mahtab_tui.kernel.base import OutputKind
from mahtab_tui.kernel.worker.capture import left_out

CHUNK = 8192
"""Characters that are handed on at once, or sooner after `DELAY` seconds."""
DELAY = 0.05

KEEP = 25_000_000
"""Characters that are kept of a cell's head, and as many of its tail."""

Kinds = tuple[tuple[OutputKind, int], ...]


class Chunks:
    """Joins output that comes in small pieces, and hands it on as text."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._size = 0
        self._last = 0.0

    def feed(self, data: bytes) -> None:
        """Take bytes; a character may be split between two calls."""
        text = self._decoder.decode(data)
        if not text:
            return
        self._pending.append(text)
        self._size += len(text)
        if self._size >= CHUNK or self.wait() == 0:
            self.flush()

    def wait(self) -> float | None:
        """Seconds until `flush` is due; None where nothing is pending."""
        if not self._pending:
            return None
        return max(0.0, self._last + DELAY - time.monotonic())

    def flush(self) -> None:
        """Hand on what is pending."""
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._size = 0
            self._hand_on(text)
            self._last = time.monotonic()

    def end(self) -> None:
        """A cell is over: hand on everything, an unfinished character too."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._pending.append(rest)
        self.flush()


class Output:
    """All that a cell printed; of very much, the head and the tail."""

    def __init__(self) -> None:
        self._head: list[tuple[OutputKind, str]] = []
        self._tail: deque[tuple[OutputKind, str]] = deque()
        self._room = KEEP
        self._tail_size = 0
        self._left_out = 0

    def add(self, kind: OutputKind, text: str) -> None:
        if self._room:
            self._head.append((kind, text[: self._room]))
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if not text:
            return
        self._tail.append((kind, text))
        self._tail_size += len(text)
        while self._tail_size > KEEP:
            kind, first = self._tail.popleft()
            surplus = self._tail_size - KEEP
            if surplus < len(first):
                self._tail.appendleft((kind, first[surplus:]))
            else:
                surplus = len(first)
            self._tail_size -= surplus
            self._left_out += surplus

    def text(self) -> tuple[str, Kinds]:
        """The text, and what its characters are."""
        pieces = list(self._head)
        if self._left_out:
            pieces.append(("stdout", left_out(self._left_out)))
        pieces += self._tail
        kinds: list[tuple[OutputKind, int]] = []
        for kind, text in pieces:
            if kinds and kinds[-1][0] == kind != "display":  # each of those stays by itself
                kinds[-1] = (kind, kinds[-1][1] + len(text))
            else:
                kinds.append((kind, len(text)))
        return "".join(text for _, text in pieces), tuple(kinds)
