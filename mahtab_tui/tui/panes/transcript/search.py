"""Searches the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.marker import Marker, can_be_marked
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.viewport import Viewport
from mahtab_tui.tui.panes.transcript.window import RowPosition, Window
from mahtab_tui.tui.patterns import Pattern, PatternTimeout


class SearchMatch(NamedTuple):
    entry: int
    number: int
    """The number of the match within the entry, from 0."""


class SearchTexts:
    """Caches the searched texts of entries, until an entry changes."""

    def __init__(self) -> None:
        self._texts: dict[Entry, tuple[int, str]] = {}

    def counts(self, entries: Sequence[Entry], words: str) -> list[int]:
        """Count the matches in each entry; in a cell, in its code and its kept output."""
        sought = words.lower()
        return [0 if entry.hidden else self._text(entry).count(sought) for entry in entries]

    def matches(self, entries: Sequence[Entry], pattern: Pattern) -> list[int]:
        """Count the matches of a case-insensitive pattern. Raises `PatternTimeout`."""
        return [len(spans) for spans in pattern.spans_of_all("" if entry.hidden else self._text(entry) for entry in entries)]

    def _text(self, entry: Entry) -> str:
        version, text = self._texts.get(entry, (None, ""))
        if version != entry.version:
            text = _searched(entry).lower()
            self._texts[entry] = entry.version, text
        return text


def match_of(number: int, counts: Sequence[int]) -> SearchMatch:
    """Return a match by its number among all, from 0."""
    for entry, count in enumerate(counts):
        if number < count:
            return SearchMatch(entry, number)
        number -= count
    raise IndexError(number)


def row_of(found: SearchMatch, window: Window, pattern: Pattern) -> RowPosition:
    """Return the row of a match; the nearest one if wrapping or collapsing splits or hides it. Raises `PatternTimeout`."""
    rows = window.rows(found.entry)
    before, nearest = 0, 0
    for number, spans in enumerate(pattern.spans_of_all(rows[number].text for number in range(len(rows)))):
        if before + len(spans) > found.number:
            return RowPosition(found.entry, number)
        before += len(spans)
        nearest = number if spans else nearest
    return RowPosition(found.entry, nearest)


def _searched(entry: Entry) -> str:
    return f"{text_of(entry)}\n{output_of(entry)}" if isinstance(entry, Cell) else text_of(entry)


class TranscriptSearch:
    """Finds text in the entries, and marks the entry of a match."""

    def __init__(self, viewport: Viewport, marker: Marker) -> None:
        self._viewport = viewport
        self._marker = marker
        self._texts = SearchTexts()
        self._found: SearchMatch | None = None
        self.open = False
        """Whether the find row is open."""
        self.pattern: Pattern | None = None
        """The pattern to highlight."""

    def clear(self) -> None:
        """Forget all entries."""
        self._found, self._texts = None, SearchTexts()

    def begin(self) -> None:
        """Start a search: the find row opens."""
        self._found, self.open = None, True

    def find(self, words: str, step: int, *, regex: bool) -> tuple[str, int | None]:
        """Find words as `Findable.find`; returns the message and the row of the match."""
        self.pattern = None
        window, entries = self._viewport.window, self._viewport.transcript.entries
        if not words or window is None:
            return "", None
        pattern = Pattern(words, regex=regex, any_case=True)
        counts = self._texts.matches(entries, pattern) if regex else self._texts.counts(entries, words)
        self.pattern, total = pattern, sum(counts)
        if not total:
            return "nothing found", None
        # Start with the newest match.
        at, found = total - 1, self._found
        if found is not None:
            if found.number < counts[found.entry]:
                at = sum(counts[: found.entry]) + found.number
            at = (at + step) % total
        self._found = found = match_of(at, counts)
        if can_be_marked(entry := entries[found.entry]):
            self._marker.entry = entry
        try:
            place = row_of(found, window, pattern)
        except PatternTimeout:  # rows may take longer than the text that was searched
            place, self.pattern = RowPosition(found.entry, 0), None
        return f"{at + 1:,} of {total:,}", window.row_of(place)
