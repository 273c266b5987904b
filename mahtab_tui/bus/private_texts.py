"""Finds the texts of private variables in other texts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from mahtab_tui.bus.secret_matching import SecretSpan

MIN_PRIVATE_CHARS = 8
"""Shorter lines of private texts are too common to be hidden."""
PIECE_CHARS = 16
"""Length of the pieces by which a long private line is found: 31 characters of it contain a
complete piece."""
MIN_PIECEWISE_CHARS = 2 * PIECE_CHARS
"""Shorter private lines are only found as a whole."""
MAX_FINDER_CHARS = MIN_PIECEWISE_CHARS - 1
"""What a line is found by begins at most this many characters before the line's end: it is a whole
short line, or the last piece of a long one, with a remainder that is shorter than a piece."""
MAX_LINES_PER_PIECE = 8
"""A line of dashes contains the same piece many times."""


class PrivateTexts:
    """Finds private texts in linear time. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: set[str] = set()
        self._short_lines: dict[str, dict[int, set[str]]] = {}
        """Lines that are only found as a whole, by first characters and length."""
        self._pieces: dict[str, list[tuple[str, int]]] = {}
        """Long lines by their pieces, with the piece's offset in the line."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def replace(self, texts: Iterable[str]) -> None:
        """Search for these texts only."""
        with self._lock:
            self._lines = set()
            self._short_lines = {}
            self._pieces = {}
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Search for the lines of texts, also as written in code and JSON."""
        for text in texts:
            for line in text.splitlines():
                line = line.strip()
                for form in {line, repr(line)[1:-1], json.dumps(line)[1:-1]}:
                    if len(form) >= MIN_PRIVATE_CHARS:
                        self._add_line(form)

    def _add_line(self, line: str) -> None:
        with self._lock:
            if line in self._lines:
                return
            self._lines.add(line)

            if len(line) < MIN_PIECEWISE_CHARS:
                lines_by_length = self._short_lines.setdefault(line[:MIN_PRIVATE_CHARS], {})
                lines_by_length.setdefault(len(line), set()).add(line)
                return
            for offset in range(0, len(line) - PIECE_CHARS + 1, PIECE_CHARS):
                owners = self._pieces.setdefault(line[offset : offset + PIECE_CHARS], [])
                if len(owners) < MAX_LINES_PER_PIECE:
                    owners.append((line, offset))

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return the positions of private texts, in order and without overlaps. `words` has no
        effect; `SecretMatcher.spans` has it."""
        if not self._lines:
            return []
        spans: list[SecretSpan] = []
        start = 0
        while start <= len(text) - MIN_PRIVATE_CHARS:
            span = self._longest_match_at(text, start)
            if span is None:
                start += 1
                continue
            # A match by a piece may begin before the piece, within earlier matches.
            while spans and span.start <= spans[-1].end:
                earlier = spans.pop()
                span = SecretSpan(min(span.start, earlier.start), max(span.end, earlier.end))
            spans.append(span)
            # A line may begin within another, or within a false start of its own.
            start = max(start + 1, span.end - MAX_FINDER_CHARS + 1)
        return spans

    def _longest_match_at(self, text: str, start: int) -> SecretSpan | None:
        """Return the longest part of a private line that is equal to the text around a position."""
        match_start = start
        match_end = -1

        lines_by_length = self._short_lines.get(text[start : start + MIN_PRIVATE_CHARS], {})
        for length, lines in lines_by_length.items():
            if text[start : start + length] in lines:
                match_end = max(match_end, start + length)

        for line, offset in self._pieces.get(text[start : start + PIECE_CHARS], ()):
            # Extend the piece to both sides as far as line and text are equal.
            text_before = text[max(0, start - offset) : start]
            before = _common_prefix_chars(line[:offset][::-1], text_before[::-1])
            text_after = text[start : start + len(line) - offset]
            after = _common_prefix_chars(line[offset:], text_after)
            match_start = min(match_start, start - before)
            match_end = max(match_end, start + after)

        if match_end >= 0:
            return SecretSpan(match_start, match_end)
        return None


def _common_prefix_chars(first: str, second: str) -> int:
    """Return how many characters are equal at the starts of two texts, by bisection."""
    if first == second:
        return len(first)
    low = 0
    high = min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
