"""Finds the word that a double click selects, and the line that a third click selects."""

from __future__ import annotations

from typing import Protocol

from mahtab_tui.tui.rows.row import Row


class Rows(Protocol):
    """Rows that are laid out when they are needed."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Row: ...


def word_span(text: str, offset: int) -> tuple[int, int]:
    """Return where the word around an offset begins and ends. What is neither a letter, a digit nor
    `_` is a word by itself; beyond the text there is none."""
    if offset >= len(text):
        return len(text), len(text)
    if not _is_in_word(text[offset]):
        return offset, offset + 1
    start = offset
    while start and _is_in_word(text[start - 1]):
        start -= 1
    end = offset + 1
    while end < len(text) and _is_in_word(text[end]):
        end += 1
    return start, end


def line_rows(rows: Rows, index: int) -> tuple[int, int]:
    """Return the first and the last row of the wrapped line to which a row belongs."""
    first_row = index
    while first_row and rows[first_row].soft:
        first_row -= 1
    last_row = index
    while last_row + 1 < len(rows) and rows[last_row + 1].soft:
        last_row += 1
    return first_row, last_row


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
