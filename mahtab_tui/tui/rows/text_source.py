"""Texts of any length, of which only parts are read, and the search in them.

`TextWindow` lays out such a text as rows, and `LongTextView` shows it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.sandbox.searched_text import TextSpan

BLOCK_CHARS = 65_536
"""Texts are fetched, searched and counted in blocks of this many characters."""
SEARCH_TIMEOUT_S = 20.0
"""After this time, a search in a very long text gives up."""


class PartMissing(Exception):
    """A part of the text must be fetched first."""

    def __init__(self, fetch: Callable[[], Any], add: Callable[[Any], None]) -> None:
        """
        Args:
            fetch: Returns the part; called on a thread.
            add: Adds it, on the main thread.
        """
        super().__init__()
        self.fetch = fetch
        self.add = add


class TextSource(Protocol):
    """A text of any length, which need not be in this process. Offsets are in characters."""

    size: int
    """The characters of the text."""

    def part(self, start: int, end: int) -> str:
        """Return the part between two offsets. Raises `PartMissing`."""

    def read(self, start: int, end: int) -> str:
        """Return the part between two offsets; waits for it. Raises `KernelError`."""

    def line_number(self, offset: int) -> int:
        """Return the number of the line that contains an offset, from 1. Raises `PartMissing`."""


class PagedText:
    """A text whose parts can be read at any time."""

    def __init__(self, read: Callable[[int, int], str], size: int, first_line: int = 1) -> None:
        """
        Args:
            read: Returns the part between two offsets.
            size: The characters of the text.
            first_line: The number of its first line.
        """
        self.part = self.read = read
        self.size = size
        self._block_lines = [first_line]
        """The number of the line at the start of each block, as far as the lines were counted."""

    def line_number(self, offset: int) -> int:
        while len(self._block_lines) * BLOCK_CHARS <= offset:
            start = (len(self._block_lines) - 1) * BLOCK_CHARS
            line_breaks = self.part(start, start + BLOCK_CHARS).count("\n")
            self._block_lines.append(self._block_lines[-1] + line_breaks)
        block = offset // BLOCK_CHARS
        line_breaks = self.part(block * BLOCK_CHARS, offset).count("\n")
        return self._block_lines[block] + line_breaks


class LocalText(PagedText):
    """A text in this process."""

    def __init__(self, text: str, first_line: int = 1) -> None:
        super().__init__(lambda start, end: text[start:end], len(text), first_line)
        self.text = text


def find_match(
    text: TextSource, search_text: str, start: int, *, backwards: bool = False
) -> TextSpan | None:
    """Find the next place of a text, and go on at the other end if there is none. Call on a thread.

    Args:
        text: The text to search.
        search_text: What to find. If it has no capital letters, case is ignored.
        start: The offset at which the search begins.
        backwards: Whether to find the last place before `start` instead.

    Returns:
        The offsets of the place; None if there is none.

    Raises:
        KernelError: The text cannot be read, or the search takes too long.
    """
    deadline = time.monotonic() + SEARCH_TIMEOUT_S
    has_capitals = any(char.isupper() for char in search_text)
    pattern = re.compile(re.escape(search_text), 0 if has_capitals else re.IGNORECASE)
    for block_start, block_end in _blocks(text.size, start, backwards=backwards):
        if time.monotonic() > deadline:
            seconds = f"{SEARCH_TIMEOUT_S:.0f} s"
            raise KernelError(f"Not found within {seconds}, because the text is very long.")
        # A match may begin in this block and end in the next one.
        block_text = text.read(block_start, min(block_end + len(search_text), text.size))
        spans = []
        for match in pattern.finditer(block_text):
            if block_start + match.start() < block_end:
                spans.append(match.span())
        if spans:
            match_start, match_end = spans[-1 if backwards else 0]
            return block_start + match_start, block_start + match_end
    return None


def _blocks(size: int, start: int, *, backwards: bool) -> Iterator[TextSpan]:
    """Yield the blocks from `start` on, then those before it; in reverse order if backwards."""
    halves = [(start, size), (0, start)]
    if backwards:
        halves.reverse()
    for half_start, half_end in halves:
        blocks = []
        for block_start in range(half_start, half_end, BLOCK_CHARS):
            blocks.append((block_start, min(block_start + BLOCK_CHARS, half_end)))
        if backwards:
            blocks.reverse()
        yield from blocks
