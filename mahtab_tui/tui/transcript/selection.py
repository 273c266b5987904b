"""What is selected in the transcript, as text."""

from __future__ import annotations

from textual.selection import Selection

from mahtab_tui.tui.transcript.viewport import EntryWindow, RowPosition

_ENTRY_SHIFT_BITS = 32


def position_to_number(position: RowPosition) -> int:
    """Return a position as one number, which Textual uses as the row of a selection."""
    return position.entry << _ENTRY_SHIFT_BITS | position.row


def number_to_position(number: int) -> RowPosition:
    return RowPosition(number >> _ENTRY_SHIFT_BITS, number & (1 << _ENTRY_SHIFT_BITS) - 1)


def selected_text(window: EntryWindow, entry_count: int, selection: Selection) -> str:
    """Return a selected text, without blanks at the ends of lines; lines that were wrapped are
    joined again."""
    start = RowPosition(0, 0)
    end = RowPosition(entry_count - 1, 1 << _ENTRY_SHIFT_BITS)
    if selection.start is not None:
        start = number_to_position(max(0, selection.start.y))
    if selection.end is not None:
        end = number_to_position(max(0, selection.end.y))

    parts: list[str] = []
    for entry in range(start.entry, min(end.entry + 1, entry_count)):
        rows = window.rows(entry)
        first_row = start.row if entry == start.entry else 0
        end_row = min(end.row + 1, len(rows)) if entry == end.entry else len(rows)
        for index in range(first_row, end_row):
            span = selection.get_span(position_to_number(RowPosition(entry, index)))
            if span is None:
                continue
            row = rows[index]
            span_start, span_end = span
            if row.soft:
                span_start = max(span_start, row.indent)
            elif parts:
                parts.append("\n")
            # -1 stands for the end of the row.
            parts.append(row.text[span_start:] if span_end == -1 else row.text[span_start:span_end])
    return "\n".join(line.rstrip() for line in "".join(parts).split("\n"))
