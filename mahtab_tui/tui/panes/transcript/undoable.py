"""From which cell an undo of an entry begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Note, NotebookWords, Question


def cell_to_undo(entries: Sequence[Entry], entry: Entry) -> Cell | None:
    """Return the cell from which an undo of an entry begins; None if no cell belongs to it.

    That is a cell itself. For a question, and for words and tool calls of its answer, it is the answer's first cell that was not undone, so
    that one undo takes back the whole answer.
    """
    if isinstance(entry, Cell):
        return entry if entry.number is not None else None
    if isinstance(entry, Note | NotebookWords) or entry not in entries:
        return None
    ran = list(_cells_of_answer(entries, entries.index(entry)))
    return next((cell for cell in ran if not cell.undone), ran[0] if ran else None)


def _cells_of_answer(entries: Sequence[Entry], place: int) -> Iterator[Cell]:
    """Yield the cells that the model has run for the question to which an entry belongs."""
    first = next((number for number in range(place, -1, -1) if isinstance(entries[number], Question)), 0)
    for entry in entries[first + 1 :]:
        if isinstance(entry, Question):
            return
        if isinstance(entry, Cell) and not entry.person and entry.guest is None and entry.number is not None:
            yield entry
