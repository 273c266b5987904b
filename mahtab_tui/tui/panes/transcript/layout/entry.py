"""The rows of any entry, and a cheap guess at how many there are."""

from __future__ import annotations

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Note, Question, Words
from mahtab_tui.tui.panes.transcript.layout.cell import CellRows
from mahtab_tui.tui.panes.transcript.layout.code import LIMIT
from mahtab_tui.tui.panes.transcript.layout.prose import note_rows, question_rows
from mahtab_tui.tui.panes.transcript.layout.row import Row, Rows
from mahtab_tui.tui.panes.transcript.layout.words import WordsRows
from mahtab_tui.tui.panes.transcript.palette import Palette


class EntryRows:
    """An entry at one width: the gap above it, and its own rows."""

    def __init__(self, entry: Entry, width: int, palette: Palette) -> None:
        self._entry = entry
        self._width = width
        self._palette = palette
        self._version = -1
        self._rows: Rows = []
        match entry:
            case Cell():
                self._rows = CellRows(entry, width, palette)
            case Words():
                self._rows = WordsRows(entry, width, palette)

    def update(self) -> None:
        """Take in what has changed in the entry."""
        if self._version == self._entry.version:
            return
        self._version = self._entry.version
        match self._entry, self._rows:
            case Question() as question, _:
                self._rows = question_rows(question, self._width, self._palette)
            case Note() as note, _:
                self._rows = note_rows(note, self._width, self._palette)
            case _, (CellRows() | WordsRows()) as rows:
                rows.update()

    def __len__(self) -> int:
        return 0 if self._entry.hidden else len(self._rows) + self._entry.gap

    def __getitem__(self, index: int) -> Row:
        if not self._entry.gap:
            return self._rows[index]
        if index == 0:
            return Row(bar=self._palette.model if self._entry.joined else None)
        return self._rows[index - 1]


def guess(entry: Entry, width: int) -> int:
    """About how many rows an entry will have; exact where nothing wraps."""
    if entry.hidden:
        return 0
    match entry:
        case Cell():
            code = min(LIMIT, entry.code.count("\n") + 1)
            output = len(entry.output) + bool(len(entry.output))
            later = 0 if entry.later is None else len(entry.later) + 2
            return entry.gap + 1 + code + output + 2 * bool(entry.changes) + later
        case Words():
            return entry.gap + entry.source.count("\n") + len(entry.source) // width + 1
        case Question() | Note():
            return entry.gap + entry.text.count("\n") + len(entry.text) // width + 1
        case _:
            return 1
