"""Rows of a text of any length; only visible rows are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mahtab_tui.bus.hidden import places
from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.tui.rows.row import hard_cuts

Fetch = Callable[[int, int], str | None]
"""Returns a part of the text; None if the text is gone."""

LINE = 16_384
"""Maximum characters of a line; a longer one is treated as several."""
BLOCK = 1_000_000
"""Characters counted or searched at a time."""


class TextRow(NamedTuple):
    start: int
    end: int
    number: int | None
    """The line number, from 1; None if the row continues the one above."""
    text: str
    """The characters from start to end, safe to draw."""


class TextWindow:
    """Moves through a text by rows, reading only what is near."""

    def __init__(self, fetch: Fetch, chars: int) -> None:
        self.chars = chars
        self._fetch = fetch
        self._ends: list[int] = [0]
        """The number of line ends before each block."""

    @property
    def held(self) -> bool:
        """Whether the text is still available."""
        return self._fetch(0, 1) is not None

    def rows(self, start: int, count: int, width: int) -> list[TextRow]:
        """Return `count` rows from the one that starts at a position."""
        rows: list[TextRow] = []
        line = self.line_start(start)
        number = self.number(line)
        while len(rows) < count and (line < self.chars or line == 0):
            end, text = self._line(line)
            for place, row_end in self._cuts(line, text, width):
                if place >= start and len(rows) < count:
                    rows.append(
                        TextRow(
                            place,
                            row_end,
                            number if place == line else None,
                            text[place - line : row_end - line],
                        )
                    )
            ended = end > line + len(text)
            number += ended
            if end >= self.chars:
                break
            line = end
        return rows

    def row_at(self, place: int, width: int) -> int:
        """Return the start of the row that contains a position."""
        line = self.line_start(min(max(0, place), max(0, self.chars - 1)))
        _, text = self._line(line)
        return max(
            start for start, _ in self._cuts(line, text, width) if start <= place or start == line
        )

    def up(self, start: int, count: int, width: int) -> int:
        """Return the start of the row `count` rows above."""
        for _ in range(count):
            if start <= 0:
                return 0
            start = self.row_at(start - 1, width)
        return start

    def down(self, start: int, count: int, width: int) -> int:
        """Return the start of the row `count` rows below, or of the last one."""
        rows = self.rows(start, count + 1, width)
        return rows[-1].start if rows else start

    def line_start(self, place: int) -> int:
        """Return the start of the line that contains a position."""
        first = max(0, place - LINE)
        found = self._part(first, place).rfind("\n")
        if found >= 0:
            return first + found + 1
        return 0 if first == 0 else place - place % LINE

    def number(self, place: int) -> int:
        """Return the number of the line that contains a position, from 1."""
        while len(self._ends) * BLOCK <= place:
            first = (len(self._ends) - 1) * BLOCK
            self._ends.append(self._ends[-1] + self._part(first, first + BLOCK).count("\n"))
        block = place // BLOCK
        return 1 + self._ends[block] + self._part(block * BLOCK, place).count("\n")

    def find(self, words: str, start: int, *, backwards: bool = False) -> TextSpan | None:
        """Find the next or previous match of words, wrapping around. Words without capitals match
        any case."""
        if not words:
            return None
        pattern = re.compile(re.escape(words), 0 if any(map(str.isupper, words)) else re.IGNORECASE)
        ranges = self._blocks_backwards(start) if backwards else self._blocks(start)
        for first, last in ranges:
            text = self._part(first, min(last + len(words), self.chars))
            found = None
            for match in pattern.finditer(text):
                if first + match.start() >= last:
                    break
                found = match
                if not backwards:
                    break
            if found is not None:
                return first + found.start(), first + found.end()
        return None

    def _blocks(self, start: int) -> Iterator[TextSpan]:
        for low, high in ((start, self.chars), (0, start)):
            for first in range(low, high, BLOCK):
                yield first, min(first + BLOCK, high)

    def _blocks_backwards(self, start: int) -> Iterator[TextSpan]:
        for low, high in ((0, start), (start, self.chars)):
            for last in range(high, low, -BLOCK):
                yield max(low, last - BLOCK), last

    def _line(self, start: int) -> tuple[int, str]:
        """Return the start of the next line, and the line without its end."""
        last = min(start + LINE, self.chars)
        text = self._part(start, last)
        found = text.find("\n")
        if found >= 0:
            return start + found + 1, _shown(text[:found])
        if last < self.chars:
            last = max(start + 1, last - last % LINE)
        return last, _shown(text[: last - start])

    def _cuts(self, line: int, text: str, width: int) -> list[TextSpan]:
        """Return the start and end of each row of a line."""
        cuts = [line + cut for cut in hard_cuts(text, width)]
        return list(zip(cuts, [*cuts[1:], line + len(text)], strict=True))

    def _part(self, start: int, end: int) -> str:
        return self._fetch(start, end) or ""


def _shown(text: str) -> str:
    """Replace each hidden character of a line by one visible character, and unusual blanks by
    spaces; positions stay the same."""
    hidden = dict(places(text))
    if not hidden and "\t" not in text:
        return text
    return "".join(_drawn(character, hidden.get(place, "")) for place, character in enumerate(text))


def _drawn(character: str, symbol: str) -> str:
    if character == "\t" or (symbol and character >= "\xa0" and character.isspace()):
        return " "
    return symbol if len(symbol) == 1 else "·" if symbol else character
