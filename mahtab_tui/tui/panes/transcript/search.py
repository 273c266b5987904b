"""Searching the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.marker import Marker, can_be_marked
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.viewport import Viewport
from mahtab_tui.tui.panes.transcript.window import Place, Window
from mahtab_tui.tui.patterns import Pattern, TooSlow


class Found(NamedTuple):
    """A place at which the words stand."""

    entry: int
    number: int
    """Which of those in its entry this is, from 0."""


class Texts:
    """The texts of entries, as they are searched: made when they are first sought, and again when the entry has changed."""

    def __init__(self) -> None:
        self._texts: dict[Entry, tuple[int, str]] = {}

    def counts(self, entries: Sequence[Entry], words: str) -> list[int]:
        """How many places there are in each entry: of a cell in its code and its output, as far as that is held."""
        sought = words.lower()
        return [0 if entry.hidden else self._text(entry).count(sought) for entry in entries]

    def matches(self, entries: Sequence[Entry], pattern: Pattern) -> list[int]:
        """The same of a pattern that finds in any case. Raises `TooSlow`."""
        return [len(spans) for spans in pattern.spans_of_all("" if entry.hidden else self._text(entry) for entry in entries)]

    def _text(self, entry: Entry) -> str:
        version, text = self._texts.get(entry, (None, ""))
        if version != entry.version:
            text = _searched(entry).lower()
            self._texts[entry] = entry.version, text
        return text


def place_of(number: int, counts: Sequence[int]) -> Found:
    """The place of this number, of all from 0."""
    for entry, count in enumerate(counts):
        if number < count:
            return Found(entry, number)
        number -= count
    raise IndexError(number)


def row_of(found: Found, window: Window, pattern: Pattern) -> Place:
    """The row on which it is drawn; where wrapping or folding divides or hides the words, one near it. Raises `TooSlow`."""
    rows = window.rows(found.entry)
    before, nearest = 0, 0
    for number, spans in enumerate(pattern.spans_of_all(rows[number].text for number in range(len(rows)))):
        if before + len(spans) > found.number:
            return Place(found.entry, number)
        before += len(spans)
        nearest = number if spans else nearest
    return Place(found.entry, nearest)


def _searched(entry: Entry) -> str:
    return f"{text_of(entry)}\n{output_of(entry)}" if isinstance(entry, Cell) else text_of(entry)


class TranscriptSearch:
    """Marks the entry in which the words stand."""

    def __init__(self, viewport: Viewport, marker: Marker) -> None:
        self._viewport = viewport
        self._marker = marker
        self._texts = Texts()
        self._found: Found | None = None
        self.open = False
        """A line to search with is open."""
        self.pattern: Pattern | None = None
        """What is highlighted wherever it stands."""

    def clear(self) -> None:
        """The entries are gone."""
        self._found, self._texts = None, Texts()

    def begin(self) -> None:
        """A line to search with opens."""
        self._found, self.open = None, True

    def find(self, words: str, step: int, *, regex: bool) -> tuple[str, int | None]:
        """As `Findable.find`; returns also the row that it has found."""
        self.pattern = None
        window, entries = self._viewport.window, self._viewport.transcript.entries
        if not words or window is None:
            return "", None
        pattern = Pattern(words, regex=regex, any_case=True)
        counts = self._texts.matches(entries, pattern) if regex else self._texts.counts(entries, words)
        self.pattern, total = pattern, sum(counts)
        if not total:
            return "nothing found", None
        # The newest first: it is what stands at the end that one looks for.
        at, found = total - 1, self._found
        if found is not None:
            if found.number < counts[found.entry]:
                at = sum(counts[: found.entry]) + found.number
            at = (at + step) % total
        self._found = found = place_of(at, counts)
        if can_be_marked(entry := entries[found.entry]):
            self._marker.entry = entry
        try:
            place = row_of(found, window, pattern)
        except TooSlow:  # a row ends otherwise than the text that was searched
            place, self.pattern = Place(found.entry, 0), None
        return f"{at + 1:,} of {total:,}", window.row_of(place)
