"""What of a session is exported, under which title, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.bus.entries import Cell, Entry, Question
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.export.entries import ANNOTATIONS, ExportedConversation, has_run

MAX_TITLE_CHARS = 300
_MAX_FIRST_LINE_CHARS = 100
"""A title has at most this many characters of a question's or a cell's first line."""


def to_title(text: str) -> str:
    """Return a text on one line, cut if it is long."""
    line = one_line(text).strip()
    if len(line) <= MAX_TITLE_CHARS:
        return line
    return f"{line[:MAX_TITLE_CHARS]}…"


def find_title(entries: Sequence[Entry]) -> str:
    """Return the first line of the first question, or else of the first cell that was run."""
    questions = (entry.text for entry in entries if isinstance(entry, Question))
    codes = (entry.code for entry in entries if has_run(entry))
    first_text = next(questions, None) or next(codes, "")
    for line in first_text.splitlines():
        if line.strip():
            return line.strip()[:_MAX_FIRST_LINE_CHARS]
    return ""


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class ExportedEntries(NamedTuple):
    """What is exported of a session."""

    entries: Sequence[Entry]
    title: str
    is_private: Callable[[Entry], bool]

    def sentence(self, file: str) -> str:
        """Return what was exported to a file, as a sentence."""
        cell_count = sum(has_run(entry) and not self.is_private(entry) for entry in self.entries)
        private_count = sum(map(self.is_private, self.entries))
        cells = "cell" if cell_count == 1 else "cells"
        text = f"Exported {cell_count:,} {cells} to {one_line(file)}."
        if private_count:
            use = "uses" if private_count == 1 else "use"
            text += f" Left out: {private_count:,} that {use} a private variable."
        return text


def select(conversation: ExportedConversation) -> ExportedEntries:
    """Choose what to export: all but hidden, replaced and undone entries.

    Raises `NothingToExport`.
    """
    entries: list[Entry] = []
    for entry in conversation.entries:
        is_undone = isinstance(entry, Cell) and entry.undone
        if not entry.removed and not is_undone:
            entries.append(entry)
    if all(isinstance(entry, ANNOTATIONS) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    title = find_title([entry for entry in entries if not conversation.private(entry)])
    return ExportedEntries(entries, plain(title), conversation.private)
