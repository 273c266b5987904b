"""Lays out the part of a long text around an offset as rows."""

from __future__ import annotations

from typing import NamedTuple

from mahtab_tui.bus.hidden_characters import hidden_characters
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.rows.row import hard_cuts
from mahtab_tui.tui.rows.text_source import TextSource

LINE_PART_CHARS = 16_384
"""A longer line is split into parts of this length."""


class TextRow(NamedTuple):
    """A row of a text."""

    start: int
    """The offset of its first character."""
    end: int
    """The offset after its last character, without a line break."""
    number: int | None
    """The number of its line, from 1; None if the row continues the one above."""
    text: str
    """Its characters as they are drawn."""


class TextWindow:
    """Moves through a text by rows, reading only nearby parts.

    All methods raise `PartMissing`. A row is known by the offset of its first character, and widths are
    in cells.
    """

    def __init__(self, source: TextSource) -> None:
        self.source = source

    def rows(self, start: int, count: int, width: int) -> list[TextRow]:
        """Return up to `count` rows from the one that begins at `start`."""
        rows: list[TextRow] = []
        line_start = self.line_start(start)
        number = self.source.line_number(line_start)
        is_continued = line_start > 0 and self.source.part(line_start - 1, line_start) != "\n"
        while len(rows) < count and (line_start < self.source.size or line_start == 0):
            line_end, text = self._line(line_start)
            for row_start, row_end in self._cuts(line_start, text, width):
                if row_start < start or len(rows) >= count:
                    continue
                is_first = row_start == line_start and not is_continued
                row_number = number if is_first else None
                row_text = text[row_start - line_start : row_end - line_start]
                rows.append(TextRow(row_start, row_end, row_number, row_text))
            # A long line is split without a line break between its parts.
            has_line_break = line_end > line_start + len(text)
            if has_line_break:
                number += 1
            is_continued = not has_line_break
            if line_end >= self.source.size:
                break
            line_start = line_end
        return rows

    def row_at(self, offset: int, width: int) -> int:
        """Return the start of the row that contains an offset."""
        last_offset = max(0, self.source.size - 1)
        line_start = self.line_start(min(max(0, offset), last_offset))
        _, text = self._line(line_start)
        row_starts = [start for start, _ in self._cuts(line_start, text, width)]
        return max(start for start in row_starts if start <= offset or start == line_start)

    def up(self, start: int, count: int, width: int) -> int:
        """Return the start of the row that is `count` rows above the one at `start`."""
        for _ in range(count):
            if start <= 0:
                return 0
            start = self.row_at(start - 1, width)
        return start

    def down(self, start: int, count: int, width: int) -> int:
        """Return the start of the row that is `count` rows below the one at `start`."""
        rows = self.rows(start, count + 1, width)
        return rows[-1].start if rows else start

    def line_start(self, offset: int) -> int:
        """Return the start of the line, or of the part of a long line, that contains an offset."""
        part_start = max(0, offset - LINE_PART_CHARS)
        line_break = self.source.part(part_start, offset).rfind("\n")
        # Parts of a long line begin at multiples of their length, wherever one looks from.
        later_part = offset - offset % LINE_PART_CHARS
        if line_break < 0 and part_start > 0:
            return later_part
        start = part_start + line_break + 1
        if start < later_part and self._is_long(start):
            return later_part
        return start

    def _is_long(self, start: int) -> bool:
        """Return whether the line that begins at an offset is split into parts."""
        end = start + LINE_PART_CHARS
        return end < self.source.size and "\n" not in self.source.part(start, end)

    def _line(self, start: int) -> tuple[int, str]:
        """Return the end of a line or of a part of a long one, and its text."""
        end = min(start + LINE_PART_CHARS, self.source.size)
        text = self.source.part(start, end)
        line_break = text.find("\n")
        if line_break >= 0:
            return start + line_break + 1, _visible_text(text[:line_break])
        if end < self.source.size:
            end = max(start + 1, end - end % LINE_PART_CHARS)
        return end, _visible_text(text[: end - start])

    def _cuts(self, line_start: int, text: str, width: int) -> list[TextSpan]:
        """Return the start and end of each row of a line."""
        starts = [line_start + cut for cut in hard_cuts(text, width)]
        ends = [*starts[1:], line_start + len(text)]
        return list(zip(starts, ends, strict=True))


def _visible_text(text: str) -> str:
    """Replace each hidden character by one visible one; offsets stay."""
    characters = list(text.replace("\t", " "))
    for offset, symbol in hidden_characters(text):
        is_blank = text[offset] >= "\xa0" and text[offset].isspace()
        if is_blank:
            symbol = " "
        characters[offset] = symbol if len(symbol) == 1 else "·"
    return "".join(characters)
