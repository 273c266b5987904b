"""Texts in blocks: a text in the kernel, of which some blocks are here, or a text that is all
here."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, TextPart
from mahtab_tui.tui.rows.text_window import TextWindow

BLOCK = 65_536
"""Characters."""
_KEPT = 64
"""Blocks that are kept."""


class BlockMissing(Exception):
    """A block has to be fetched first."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


class TextSource(Protocol):
    """A text that is read in blocks."""

    size: int
    """Characters."""

    def block(self, number: int) -> TextPart:
        """Return a block that is here. Raises `BlockMissing`."""

    def fetch(self, number: int) -> TextPart:
        """Get a block; waits for the kernel. Raises `KernelError`."""

    def take(self, number: int, part: TextPart) -> None:
        """Keep a block that was fetched."""

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        """Find the next place of some words, or the previous one; waits. Raises `KernelError`."""


class KernelText:
    """A text in the kernel."""

    def __init__(self, look: InspectorClient, path: ObjectPath, size: int) -> None:
        self.size = size
        self._look = look
        self._path = path
        self._blocks: OrderedDict[int, TextPart] = OrderedDict()

    def block(self, number: int) -> TextPart:
        part = self._blocks.get(number)
        if part is None:
            raise BlockMissing(number)
        self._blocks.move_to_end(number)
        return part

    def fetch(self, number: int) -> TextPart:
        return self._look.text(self._path, number * BLOCK, (number + 1) * BLOCK)

    def take(self, number: int, part: TextPart) -> None:
        self.size = part.size
        self._blocks[number] = part
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        return self._look.find(self._path, words, start, backwards=backwards)


class LocalText:
    """A text that is here."""

    def __init__(self, text: str, first_line: int = 1) -> None:
        self.size = len(text)
        self.text = text
        self._first = first_line - 1

    def block(self, number: int) -> TextPart:
        start = number * BLOCK
        return TextPart(
            self.text[start : start + BLOCK],
            self._first + self.text.count("\n", 0, start),
            self.size,
        )

    def fetch(self, number: int) -> TextPart:
        return self.block(number)

    def take(self, number: int, part: TextPart) -> None:
        """Do nothing: all blocks are here."""

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        return TextWindow(lambda first, last: self.text[first:last], self.size).find(
            words, start, backwards=backwards
        )


class BlockWindow(TextWindow):
    """Moves through a text in blocks. Raises `BlockMissing` if it needs a block that is not
    here."""

    def __init__(self, source: TextSource) -> None:
        super().__init__(self._get, source.size)
        self._source = source

    def number(self, place: int) -> int:
        """The number of the line that has a place, from 1."""
        if not self.chars:
            return 1
        block, rest = divmod(place, BLOCK)
        if not rest and block and place >= self.chars:
            block, rest = block - 1, BLOCK
        part = self._source.block(block)
        return 1 + part.line + part.text.count("\n", 0, rest)

    def _get(self, start: int, end: int) -> str:
        end = min(end, self.chars)
        if start >= end:
            return ""
        first, last = start // BLOCK, (end - 1) // BLOCK
        text = "".join(self._source.block(number).text for number in range(first, last + 1))
        return text[start - first * BLOCK : end - first * BLOCK]
