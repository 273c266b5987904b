"""Where words stand in the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.window import Place, Window
from mahtab_tui.tui.patterns import Pattern


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
