"""Where words stand in the transcript."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.texts import output_of, text_of
from mahtab_tui.tui.panes.transcript.window import Place, Window


class Found(NamedTuple):
    """A place at which the words stand."""

    entry: int
    number: int
    """Which of those in its entry this is, from 0."""


def pattern_of(words: str) -> re.Pattern[str]:
    return re.compile(re.escape(words), re.IGNORECASE)


def find_all(entries: Sequence[Entry], pattern: re.Pattern[str]) -> list[Found]:
    """All places, in order. Of a cell its code and its output, as far as that is held."""
    found = []
    for position, entry in enumerate(entries):
        if not entry.hidden:
            count = sum(1 for _ in pattern.finditer(_searched(entry)))
            found += [Found(position, number) for number in range(count)]
    return found


def row_of(found: Found, window: Window, pattern: re.Pattern[str]) -> Place:
    """The row on which it is drawn; where wrapping or folding divides or hides the words, one near it."""
    rows = window.rows(found.entry)
    before, nearest = 0, 0
    for number in range(len(rows)):
        here = sum(1 for _ in pattern.finditer(rows[number].text))
        if before + here > found.number:
            return Place(found.entry, number)
        before += here
        nearest = number if here else nearest
    return Place(found.entry, nearest)


def _searched(entry: Entry) -> str:
    return f"{text_of(entry)}\n{output_of(entry)}" if isinstance(entry, Cell) else text_of(entry)
