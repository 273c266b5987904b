"""Text selection. A selection identifies rows by numbers that stay the same while rows come and
go."""

from __future__ import annotations

import re

from rich.cells import get_character_cell_size
from textual.selection import Selection

from mahtab_tui.tui.panes.transcript.window import RowPosition, Window

_SHIFT = 32

_WORD = re.compile(r"\w+|[^\w\s]+|\s+")


def number_of_place(place: RowPosition) -> int:
    """Return the number of a row; numbers are in the order of entries and rows."""
    return place.entry << _SHIFT | place.row


def place_of_number(number: int) -> RowPosition:
    return RowPosition(number >> _SHIFT, number & (1 << _SHIFT) - 1)


def selected_text(window: Window, entries: int, selection: Selection) -> str:
    """Return the selected text, without bars, and without line breaks at wrapped rows."""
    first = (
        RowPosition(0, 0) if selection.start is None else place_of_number(max(0, selection.start.y))
    )
    last = (
        RowPosition(entries - 1, 1 << _SHIFT)
        if selection.end is None
        else place_of_number(max(0, selection.end.y))
    )
    parts: list[str] = []
    for position in range(first.entry, min(last.entry + 1, entries)):
        rows = window.rows(position)
        begin = first.row if position == first.entry else 0
        end = min(last.row + 1, len(rows)) if position == last.entry else len(rows)
        for number in range(begin, end):
            row = rows[number]
            span = selection.get_span(number_of_place(RowPosition(position, number)))
            if span is None:
                continue
            start, stop = span
            if parts and not row.soft:
                parts.append("\n")
            start = max(start, row.indent) if row.soft else start
            parts.append(row.text[start : None if stop == -1 else stop])
    return "".join(parts)


def word_at(text: str, cell: int) -> tuple[int, int]:
    """Return start and end of the word at a cell; an empty span past the end."""
    position = 0
    for position, character in enumerate(text):  # noqa: B007
        cell -= get_character_cell_size(character)
        if cell < 0:
            break
    else:
        return len(text), len(text)
    return next((match.span() for match in _WORD.finditer(text) if match.end() > position), (0, 0))
