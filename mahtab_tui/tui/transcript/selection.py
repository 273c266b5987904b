"""What is selected in the transcript, as text."""

from __future__ import annotations

from collections.abc import Iterator

from textual.selection import Selection

from mahtab_tui.tui.rows.row import Row, selected_rows_text
from mahtab_tui.tui.transcript.entry_window import EntryWindow, RowPosition

_ENTRY_SHIFT_BITS = 32


def position_to_number(position: RowPosition) -> int:
    """Return a position as one number, which Textual uses as the row of a selection."""
    return position.entry << _ENTRY_SHIFT_BITS | position.row


def number_to_position(number: int) -> RowPosition:
    """Return the position that `position_to_number` has made a number of."""
    return RowPosition(number >> _ENTRY_SHIFT_BITS, number & (1 << _ENTRY_SHIFT_BITS) - 1)


def selected_text(window: EntryWindow, entry_count: int, selection: Selection) -> str:
    """Return a selected text, as `selected_rows_text` does."""
    start = RowPosition(0, 0)
    end = RowPosition(entry_count - 1, 1 << _ENTRY_SHIFT_BITS)
    if selection.start is not None:
        start = number_to_position(max(0, selection.start.y))
    if selection.end is not None:
        end = number_to_position(max(0, selection.end.y))

    def rows() -> Iterator[tuple[int, Row]]:
        for entry in range(start.entry, min(end.entry + 1, entry_count)):
            entry_rows = window.rows(entry)
            first_row = start.row if entry == start.entry else 0
            end_row = min(end.row + 1, len(entry_rows)) if entry == end.entry else len(entry_rows)
            for index in range(first_row, end_row):
                yield position_to_number(RowPosition(entry, index)), entry_rows[index]

    return selected_rows_text(rows(), selection)
