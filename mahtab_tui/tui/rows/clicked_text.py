"""Finds the word that a double click selects, and the line that a third click selects."""

from __future__ import annotations

from typing import NamedTuple

from mahtab_tui.tui.rows.row import Rows


class WordSpan(NamedTuple):
    """Where a word is in a text."""

    start: int
    end: int
    """The offset after its last character."""


class RowRange(NamedTuple):
    """Consecutive rows, by their indices."""

    first: int
    last: int


def word_span(text: str, offset: int) -> WordSpan:
    """Return the word around an offset.

    What is neither a letter, a digit nor `_` is a word by itself; beyond the text there is none,
    and the span is empty.
    """
    if offset >= len(text):
        return WordSpan(len(text), len(text))
    if not _is_in_word(text[offset]):
        return WordSpan(offset, offset + 1)
    start = offset
    while start and _is_in_word(text[start - 1]):
        start -= 1
    end = offset + 1
    while end < len(text) and _is_in_word(text[end]):
        end += 1
    return WordSpan(start, end)


def line_rows(rows: Rows, index: int) -> RowRange:
    """Return the rows of the wrapped line to which a row belongs."""
    first_row = index
    while first_row and rows[first_row].soft:
        first_row -= 1
    last_row = index
    while last_row + 1 < len(rows) and rows[last_row + 1].soft:
        last_row += 1
    return RowRange(first_row, last_row)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
