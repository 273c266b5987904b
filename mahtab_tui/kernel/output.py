"""The host's side of a cell's output: decodes it, joins it to chunks, and limits what is kept."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Callable

from mahtab_tui.bus.terminal_screen import Screen, rewrites, split_unfinished
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.kernel.worker.capture import left_out

CHUNK = 8192
"""Characters after which a chunk is handed on; or after `DELAY` seconds."""
DELAY = 0.05

KEEP = 25_000_000
"""Characters that are kept of the output's head, and of its tail."""

Kinds = tuple[tuple[OutputKind, int], ...]


class Chunks:
    """Joins small pieces of output and hands them on as text."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._size = 0
        self._last = 0.0

    def feed(self, data: bytes) -> None:
        """Add bytes; a character may be split between two calls."""
        text = self._decoder.decode(data)
        if not text:
            return
        self._pending.append(text)
        self._size += len(text)
        if self._size >= CHUNK or self.wait() == 0:
            self.flush()

    def wait(self) -> float | None:
        """Return the seconds until `flush` is due; None if nothing is pending."""
        if not self._pending:
            return None
        return max(0.0, self._last + DELAY - time.monotonic())

    def flush(self) -> None:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._size = 0
            self._hand_on(text)
            self._last = time.monotonic()

    def end(self) -> None:
        """Hand on everything at the end of a cell, even an incomplete character."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._pending.append(rest)
        self.flush()


_RECENT = 128_000
"""Characters at the end of plain text that the cursor may still reach, if they are fewer than
`overwrite.HEIGHT` lines."""
_BULK = 4_000
"""From so many characters of plain text on, it is worth dropping the screen."""


class TerminalOutput:
    """A cell's output as a terminal would finally show it; of very long output, head and tail."""

    def __init__(self) -> None:
        self.rewritten = False
        """Whether text was overwritten."""
        self._screen: Screen | None = None
        """The end of the output, once the cursor has moved in it."""
        self._recent: list[str] = []
        """The end of the output while there is no screen."""
        self._size = 0
        self._unfinished = ""
        self._head: list[tuple[OutputKind, str]] = []
        self._tail: deque[tuple[OutputKind, str]] = deque()
        self._room = KEEP
        self._tail_size = 0
        self._left_out = 0

    def add(self, kind: OutputKind, text: str) -> None:
        if kind == "stdout":
            self._print(text)
        else:
            self._end_prints()
            self._keep(kind, text)

    def _print(self, text: str) -> None:
        text, self._unfinished = split_unfinished(self._unfinished + text)
        moves = rewrites(text)
        if self._screen is not None and not moves and len(text) >= _BULK and self._screen.goes_on:
            self._recent, self._size, self._screen = [self._screen.text()], 0, None
        if self._screen is None and not moves:
            self._recent.append(text)
            self._size += len(text)
            if self._size > 2 * _RECENT:
                self._keep_all_but_recent()
            return
        if self._screen is None:
            self._screen = Screen()
            self._screen.feed("".join(self._recent))
            self._recent, self._size = [], 0
            self.rewritten = True
        self._screen.feed(text)
        self._keep("stdout", self._screen.take_above())

    def _keep_all_but_recent(self) -> None:
        text = "".join(self._recent)
        cut = text.find("\n", len(text) - _RECENT) + 1 or len(text) - _RECENT
        self._keep("stdout", text[:cut])
        self._recent, self._size = [text[cut:]], len(text) - cut

    def _end_prints(self) -> None:
        """Fix the text so far, since other output follows."""
        if self._unfinished:
            (self._recent.append if self._screen is None else self._screen.feed)(self._unfinished)
        if self._screen is not None:
            text = self._screen.text()
            self._recent = [text if not self._screen.above or text.endswith("\n") else text + "\n"]
        self._keep("stdout", "".join(self._recent))
        self._screen, self._recent, self._size, self._unfinished = None, [], 0, ""

    def _keep(self, kind: OutputKind, text: str) -> None:
        if not text:
            return
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
        """Return the whole text and the kinds of its characters. Nothing may be added
        afterwards."""
        self._end_prints()
        pieces = list(self._head)
        if self._left_out:
            pieces.append(("stdout", left_out(self._left_out)))
        pieces += self._tail
        kinds: list[tuple[OutputKind, int]] = []
        for kind, text in pieces:
            if kinds and kinds[-1][0] == kind != "display":  # displays are not joined
                kinds[-1] = (kind, kinds[-1][1] + len(text))
            else:
                kinds.append((kind, len(text)))
        return "".join(text for _, text in pieces), tuple(kinds)
