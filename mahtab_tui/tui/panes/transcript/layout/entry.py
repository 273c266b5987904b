"""The rows of any entry, and a cheap estimate of their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rich.style import Style

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Note, Question, ToolUse, Words
from mahtab_tui.tui.panes.transcript.layout.prose import note_rows, question_rows, tool_rows
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import LIMIT, GrowingRows, Row, Rows

_DIM = Style(dim=True)
_DRAWERS: Mapping[type[Entry], Callable[[Any, int, Palette], Rows]] = {
    Question: question_rows,
    ToolUse: tool_rows,
    Note: note_rows,
}
"""Draw the entries that do not grow."""
_LABELS = {"hidden": "hidden from the model", "replaced": "replaced", "undone": "undone"}


def left_out_row(row: Row, entry: Entry, palette: Palette, *, first: bool) -> Row:
    """Dim a row; label the first one with the reason."""
    spans = [(text, style + _DIM) for text, style in row.spans]
    right = [(text, style + _DIM) for text, style in row.right]
    if first and not isinstance(entry, Note):
        right = [
            (_LABELS[entry.left_out or "undone"], palette.muted),
            *([("  ", palette.muted)] if right else []),
            *right,
        ]
    picture, ground = row.picture, palette.surface.bgcolor
    if picture is not None:
        behind = ground.get_truecolor(foreground=False) if ground else (0, 0, 0)
        picture = replace(picture[0], faded=behind), picture[1]
    return row._replace(
        spans=spans, bar=row.bar + _DIM if row.bar else None, right=right, picture=picture
    )


COLLAPSED = 3
"""Rows of a collapsed entry; the last one says how many more there are."""


class EntryRows:
    """Rows of an entry for one width: the gap above it, and its own rows."""

    def __init__(self, entry: Entry, width: int, palette: Palette) -> None:
        self._entry = entry
        self._width = width
        self._palette = palette
        self._version = -1
        self._growing = _growing_rows(entry, width, palette)
        self._rows: Rows = [] if self._growing is None else self._growing

    def update(self) -> None:
        if self._version == self._entry.version:
            return
        self._version = self._entry.version
        if self._growing is not None:
            self._growing.update()
        else:
            self._rows = _DRAWERS[type(self._entry)](self._entry, self._width, self._palette)

    def __len__(self) -> int:
        if self._entry.hidden:
            return 0
        return (
            min(COLLAPSED, len(self._rows)) if self._entry.collapsed else len(self._rows)
        ) + self._entry.gap

    @property
    def reading(self) -> int | None:
        """The first row of a text to read, such as help, if the entry ends with one."""
        row = getattr(self._growing, "reading", None)
        return None if row is None or self._entry.collapsed else row + self._entry.gap

    def __getitem__(self, index: int) -> Row:
        row = index - self._entry.gap
        drawn = (
            self._own(row)
            if row >= 0
            else Row(bar=self._palette.model if self._entry.joined else None)
        )
        greyed = self._entry.left_out or (isinstance(self._entry, Cell) and self._entry.undone)
        return left_out_row(drawn, self._entry, self._palette, first=row == 0) if greyed else drawn

    def _own(self, row: int) -> Row:
        if self._entry.collapsed and row == COLLAPSED - 1 and (more := len(self._rows) - row) > 1:
            return Row([(f"… {more:,} rows collapsed", self._palette.muted)], self._rows[row].bar)
        return self._rows[row]


def _growing_rows(entry: Entry, width: int, palette: Palette) -> GrowingRows | None:
    """Return the rows of cells and words. They load the highlighter and Markdown, which a fast
    start must avoid."""
    match entry:
        case Cell():
            from mahtab_tui.tui.panes.transcript.layout.cell import CellRows

            return CellRows(entry, width, palette)
        case Words():
            from mahtab_tui.tui.panes.transcript.layout.words import WordsRows

            return WordsRows(entry, width, palette)
    return None


def guess(entry: Entry, width: int) -> int:
    """Estimate the number of rows of an entry; exact if nothing wraps."""
    if entry.hidden:
        return 0
    if entry.collapsed:
        return entry.gap + COLLAPSED
    match entry:
        case Cell():
            code = min(LIMIT, entry.code.count("\n") + 1)
            output = len(entry.output) + bool(len(entry.output))
            later = 0 if entry.later is None else len(entry.later) + 2
            return entry.gap + 1 + code + output + 2 * bool(entry.changes) + later
        case Words(source=text, figures=figures):
            return (
                entry.gap
                + text.count("\n")
                + len(text) // width
                + 1
                + any(not figure.found for figure in figures)
            )
        case ToolUse(text=text) | Question(text=text) | Note(text=text):
            return (
                entry.gap + isinstance(entry, ToolUse) + text.count("\n") + len(text) // width + 1
            )
    raise AssertionError(entry)
