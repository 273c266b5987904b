"""Where words stand in the transcript."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.window import Place, Window
from mahtab_tui.tui.patterns import AT_ONCE, spans, within


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

    def matches(self, entries: Sequence[Entry], pattern: re.Pattern[str]) -> list[int]:
        """The same of a pattern that finds in any case."""
        return [0 if entry.hidden else sum(1 for _ in spans(pattern, self._text(entry))) for entry in entries]

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


def row_of(found: Found, window: Window, pattern: re.Pattern[str]) -> Place:
    """The row on which it is drawn; where wrapping or folding divides or hides the words, one near it. Raises `TooSlow`."""
    rows = window.rows(found.entry)
    texts = [rows[number].text for number in range(len(rows))]
    before, nearest = 0, 0
    with within(AT_ONCE):
        for number, text in enumerate(texts):
            here = sum(1 for _ in spans(pattern, text))
            if before + here > found.number:
                return Place(found.entry, number)
            before += here
            nearest = number if here else nearest
    return Place(found.entry, nearest)


def _searched(entry: Entry) -> str:
    return f"{text_of(entry)}\n{output_of(entry)}" if isinstance(entry, Cell) else text_of(entry)
