"""Finding a regular expression in a text of any length, line by line, in a process that is ended where it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.patterns import TOO_SLOW
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, TextSource

START = 10.0
"""Seconds that the process may take to start and to read the pattern."""
PART = 2.0
"""Seconds that one block may take."""
WHOLE = 20.0
"""Seconds that a search may take."""
_WORKER = Path(__file__).with_name("pattern_worker.py")


def find_pattern(source: TextSource, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
    """Where it is next from a place on, or was last before it; goes on from the other end. Waits. Raises `KernelError`.

    A match stands in one line, and in one block where a line is longer than that.
    """
    until = time.monotonic() + WHOLE
    with _Worker(words) as worker:
        for block, first, last in _places(source.size, start, backwards=backwards):
            if time.monotonic() > until:
                raise KernelError(f"It was not found within {WHOLE:.0f} s; the text is very long.")
            text, begin = _lines(source, block)
            found = worker.ask([text, max(0, first - begin), max(0, last - begin), backwards], PART)
            if found is not None:
                return begin + found[0], begin + found[1]
    return None


def _places(size: int, start: int, *, backwards: bool) -> Iterator[tuple[int, int, int]]:
    """Blocks in the order in which they are searched, each with the places between which a match may begin."""
    count, here = -(-size // BLOCK), min(start, max(0, size - 1)) // BLOCK
    if backwards:
        yield from ((block, 0, start) for block in range(here, -1, -1))
        yield from ((block, start, size) for block in range(count - 1, here - 1, -1))
    else:
        yield from ((block, start, size) for block in range(here, count))
        yield from ((block, 0, start) for block in range(here + 1))


def _lines(source: TextSource, block: int) -> tuple[str, int]:
    """The lines that begin in a block, whole, and where they begin; of a line that is longer than a block, the block."""
    text, begin = source.fetch(block).text, block * BLOCK
    if block and not source.fetch(block - 1).text.endswith("\n") and "\n" in text:
        cut = text.index("\n") + 1
        text, begin = text[cut:], begin + cut
    if not text.endswith("\n") and begin + len(text) < source.size:
        rest, newline, _ = source.fetch(block + 1).text.partition("\n")
        text += rest if newline else ""
    return text, begin


class _Worker:
    """The process. Raises `KernelError` where the pattern is none, or takes too long."""

    def __init__(self, words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._words = words

    def __enter__(self) -> _Worker:
        try:
            wrong = self.ask(self._words, START)
        except BaseException:
            self.__exit__()
            raise
        if wrong is not None:
            self.__exit__()
            raise KernelError(f"This is no regular expression: {wrong}.")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, what: Any, seconds: float) -> Any:
        """Tell it something, and wait so long for its answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(what).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise KernelError("The search ended by itself.") from None
        with DefaultSelector() as selector:
            selector.register(stdout, EVENT_READ)
            if not selector.select(seconds):
                raise KernelError(TOO_SLOW)
        answer = stdout.readline()
        if not answer:
            raise KernelError("The search ended by itself.")
        return json.loads(answer)
