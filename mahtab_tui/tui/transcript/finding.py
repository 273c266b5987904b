"""Finds a text in all entries of the transcript."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from mahtab_tui.bus.entries import Cell, Entry
from mahtab_tui.tui.transcript.entry_window import EntryWindow, RowPosition
from mahtab_tui.tui.transcript.fold import output_text
from mahtab_tui.tui.transcript.marker import Marker, can_be_marked
from mahtab_tui.tui.transcript.viewport import Viewport


class SearchMatch(NamedTuple):
    """A match in an entry."""

    entry: int
    number: int
    """Which match of the entry, from 0."""


class FindResult(NamedTuple):
    """Where a search has arrived."""

    position: str
    """Such as "2 of 7"; empty if nothing is searched for."""
    row: int | None
    """The row of the match; None if there is none."""


def match_position(
    match: SearchMatch, window: EntryWindow, pattern: re.Pattern[str]
) -> RowPosition:
    """Return the row of a match; that of the last drawn match if it is not drawn itself."""
    rows = window.rows(match.entry)
    matches_above = 0
    last_row = 0
    for number in range(len(rows)):
        count = len(pattern.findall(rows[number].text))
        if matches_above + count > match.number:
            return RowPosition(match.entry, number)
        matches_above += count
        if count:
            last_row = number
    return RowPosition(match.entry, last_row)


class TranscriptSearch:
    """Finds a text in all entries, also where it is not drawn."""

    def __init__(self, viewport: Viewport, marker: Marker) -> None:
        """Create a search that is closed.

        Args:
            marker: Marks the entry of a match.
        """
        self._viewport = viewport
        self._marker = marker
        self._texts: dict[Entry, tuple[int, str]] = {}
        """What can be found in entries, with the version of the entry at that time."""
        self.match: SearchMatch | None = None
        """The match at which the search has arrived."""
        self.open = False
        """Whether the line for the searched text is open."""
        self.pattern: re.Pattern[str] | None = None
        """What is highlighted; None for nothing."""

    def find(self, pattern: str, step: int) -> FindResult:
        """Go to another match.

        Args:
            pattern: A regular expression, in lower case.
            step: Matches to move on from the current one.
        """
        self.pattern = None
        window = self._viewport.window
        entries = self._viewport.transcript.entries
        if not pattern or window is None:
            return FindResult("", None)

        find_all = re.compile(pattern).findall
        # The number of matches in each entry.
        counts = [len(find_all(self._text(entry))) for entry in entries]
        self.pattern = re.compile(pattern, re.IGNORECASE)
        ends = list(accumulate(counts))
        total = ends[-1] if ends else 0
        if not total:
            return FindResult("nothing found", None)

        index = self._next_index(counts, ends, step)
        position = bisect_right(ends, index)
        match = SearchMatch(position, index - ends[position] + counts[position])
        self.match = match
        if can_be_marked(entries[position]):
            self._marker.entry = entries[position]
        row = window.row_number(match_position(match, window, self.pattern))
        return FindResult(f"{index + 1:,} of {total:,}", row)

    def _next_index(self, counts: Sequence[int], ends: Sequence[int], step: int) -> int:
        """Return which of all matches is next: the newest one if the search has just begun.

        Args:
            counts: The number of matches in each entry.
            ends: The number of matches in each entry and all before it.
            step: Matches to move on.
        """
        total = ends[-1]
        index = total - 1
        match = self.match
        if match is None:
            return index
        if match.number < counts[match.entry]:
            index = ends[match.entry] - counts[match.entry] + match.number
        return (index + step) % total

    def _text(self, entry: Entry) -> str:
        """Return what can be found in an entry, in lower case; kept until the entry changes."""
        if entry.hidden:
            return ""
        version, text = self._texts.get(entry, (None, ""))
        if version != entry.version:
            text = entry.plain_text
            if isinstance(entry, Cell):
                text = f"{text}\n{output_text(entry)}"
            text = text.lower()
            self._texts[entry] = (entry.version, text)
        return text
