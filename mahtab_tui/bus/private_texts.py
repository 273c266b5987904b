"""Finds the texts of private variables in other texts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from mahtab_tui.bus.secret_matching import SecretSpan

MIN_PRIVATE_CHARS = 8
"""Shorter lines of private texts are not hidden: they are too common in other texts."""
PIECE_CHARS = 16
"""A long private line is cut into pieces of this length, so that a part of it is also found: any 31
characters of it contain a complete piece."""
MIN_PIECEWISE_CHARS = 2 * PIECE_CHARS
"""A private line of this length or more is long; shorter ones are found only as a whole."""
RESCANNED_CHARS = MIN_PIECEWISE_CHARS - 2
"""Characters at the end of a match that are searched again, for a line that begins within the match
and ends after it. A short line has at most 31 characters. The last piece of a long one begins at
most 31 characters before the line's end: 16 of its own, and 15 that do not fill another piece. The
line's end is beyond the match, so that at most 30 of these characters are in the match."""
MAX_LINES_PER_PIECE = 8
"""Places in lines that are compared where one piece occurs. More would take too long: a line of dashes
contains the same piece at every place."""


class PrivateTexts:
    """Finds private texts in linear time. Any thread may call any method.

    `spans` takes no lock, because it may take long. It may miss lines that are being added while it
    runs, but none that were there before it began and are not taken away.
    """

    def __init__(self) -> None:
        self._change_lock = threading.Lock()
        """Held while lines are added or replaced."""
        self._index = _LineIndex()

    def __bool__(self) -> bool:
        return bool(self._index.lines)

    def replace(self, texts: Iterable[str]) -> None:
        """Search for the lines of these texts only.

        A line that was searched for before and is in one of these texts is found at every moment in
        between.
        """
        lines = _searched_lines(texts)
        with self._change_lock:
            # It takes its place when it is complete, because other threads go on searching.
            new_index = _LineIndex()
            for line in lines:
                new_index.add(line)
            self._index = new_index

    def add(self, texts: Iterable[str]) -> None:
        """Search also for the lines of these texts, as they are and as code and JSON write them."""
        lines = _searched_lines(texts)
        with self._change_lock:
            for line in lines:
                self._index.add(line)

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return the positions of private texts, in order and without overlaps.

        Args:
            text: The text to search.
            words: Is ignored. It is here because callers search by either this class or a
                `SecretMatcher`, which finds some secrets only as words.
        """
        index = self._index
        if not index.lines:
            return []
        spans: list[SecretSpan] = []
        start = 0
        while start <= len(text) - MIN_PRIVATE_CHARS:
            span = index.find_at(text, start)
            if span is None:
                start += 1
                continue
            # A match by a piece may begin before the piece, within earlier matches.
            while spans and span.start <= spans[-1].end:
                earlier = spans.pop()
                span = SecretSpan(min(span.start, earlier.start), max(span.end, earlier.end))
            spans.append(span)
            # A line may begin within another, or within a false start of its own: "0001" occurs in
            # "00001".
            start = max(start + 1, span.end - RESCANNED_CHARS)
        return spans


class _LineIndex:
    """Private lines, found by how they or their pieces begin.

    One thread may add lines while others search. Therefore the dict of lengths, over which a search
    iterates, never gets another key: a new dict takes its place.
    """

    def __init__(self) -> None:
        self.lines: set[str] = set()
        """All lines, in each of the forms that are searched for."""
        self._short_lines: dict[str, dict[int, set[str]]] = {}
        """Short lines, by their first `MIN_PRIVATE_CHARS` characters and by their length."""
        self._pieces: dict[str, list[tuple[str, int]]] = {}
        """Long lines by their pieces, each with the piece's offset in the line."""

    def add(self, line: str) -> None:
        """Add one line of at least `MIN_PRIVATE_CHARS` characters."""
        if line in self.lines:
            return
        self.lines.add(line)

        if len(line) < MIN_PIECEWISE_CHARS:
            beginning = line[:MIN_PRIVATE_CHARS]
            lines_by_length = self._short_lines.get(beginning, {})
            if len(line) in lines_by_length:
                lines_by_length[len(line)].add(line)
            else:
                self._short_lines[beginning] = {**lines_by_length, len(line): {line}}
            return
        for offset in range(0, len(line) - PIECE_CHARS + 1, PIECE_CHARS):
            places = self._pieces.setdefault(line[offset : offset + PIECE_CHARS], [])
            if len(places) < MAX_LINES_PER_PIECE:
                places.append((line, offset))

    def find_at(self, text: str, start: int) -> SecretSpan | None:
        """Return what private lines cover around a position: a short line that begins there, and
        what continues a piece that begins there, to both sides. If there are several, the span covers
        them all. None if there is neither."""
        first_match_start = start
        last_match_end = -1

        lines_by_length = self._short_lines.get(text[start : start + MIN_PRIVATE_CHARS], {})
        for length, lines in lines_by_length.items():
            if text[start : start + length] in lines:
                last_match_end = max(last_match_end, start + length)

        for line, offset in self._pieces.get(text[start : start + PIECE_CHARS], ()):
            # Extend the piece to both sides as far as line and text are equal.
            text_before = text[max(0, start - offset) : start]
            equal_before = _common_prefix_chars(line[:offset][::-1], text_before[::-1])
            text_after = text[start : start + len(line) - offset]
            equal_after = _common_prefix_chars(line[offset:], text_after)
            first_match_start = min(first_match_start, start - equal_before)
            last_match_end = max(last_match_end, start + equal_after)

        if last_match_end < 0:
            return None
        return SecretSpan(first_match_start, last_match_end)


def _searched_lines(texts: Iterable[str]) -> list[str]:
    """Return the lines of texts as they are, as they are in a literal of Python, and as they are in a
    string of JSON; without those that are too short."""
    searched_lines: list[str] = []
    for text in texts:
        for line in map(str.strip, text.splitlines()):
            forms = (line, repr(line)[1:-1], json.dumps(line)[1:-1])
            searched_lines += [form for form in forms if len(form) >= MIN_PRIVATE_CHARS]
    return searched_lines


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
