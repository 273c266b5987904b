"""Searches the transcript."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
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


def row_of(found: SearchMatch, window: Window, pattern: Pattern) -> RowPosition:
    """Return the row of a match; the nearest one if wrapping or collapsing splits or hides it.
    Raises `PatternTimeout`."""
    rows = window.rows(found.entry)
    before, nearest = 0, 0
    for number, spans in enumerate(
        pattern.spans_of_all(rows[number].text for number in range(len(rows)))
    ):
        if before + len(spans) > found.number:
            return RowPosition(found.entry, number)
        before += len(spans)
        nearest = number if spans else nearest
    return RowPosition(found.entry, nearest)


class TranscriptSearch:
    """Finds text in the entries, and marks the entry of a match."""

    def __init__(self, viewport: Viewport, marker: Marker) -> None:
        self._viewport = viewport
        self._marker = marker
        self._texts: dict[Entry, tuple[int, str]] = {}
        """The versions of entries, and their texts."""
        self._found: SearchMatch | None = None
        self.open = False
        """Whether the find row is open."""
        self.pattern: Pattern | None = None
        """The pattern to highlight."""

    def clear(self) -> None:
        self._found = None
        self._texts.clear()

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
        texts, sought = map(self._text, entries), words.lower()
        counts = (
            [len(spans) for spans in pattern.spans_of_all(texts)]
            if regex
            else [text.count(sought) for text in texts]
        )
        self.pattern, ends = pattern, list(accumulate(counts))
        total = ends[-1] if ends else 0
        if not total:
            return "nothing found", None
        # Start with the newest match.
        at, found = total - 1, self._found
        if found is not None:
            if found.number < counts[found.entry]:
                at = ends[found.entry] - counts[found.entry] + found.number
            at = (at + step) % total
        place = bisect_right(ends, at)
        self._found = found = SearchMatch(place, at - ends[place] + counts[place])
        if can_be_marked(entry := entries[found.entry]):
            self._marker.entry = entry
        try:
            shown = row_of(found, window, pattern)
        except PatternTimeout:  # rows may take longer than the text that was searched
            shown, self.pattern = RowPosition(found.entry, 0), None
        return f"{at + 1:,} of {total:,}", window.row_of(shown)

    def _text(self, entry: Entry) -> str:
        """Return the text of an entry in lower case: of a cell, its code and its kept output."""
        if entry.hidden:
            return ""
        version, text = self._texts.get(entry, (None, ""))
        if version != entry.version:
            text = (
                f"{text_of(entry)}\n{output_of(entry)}"
                if isinstance(entry, Cell)
                else text_of(entry)
            ).lower()
            self._texts[entry] = entry.version, text
        return text
