"""The entries of a notebook's cells as they stand in its file."""

from __future__ import annotations

import re

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_entries import place_entry
from mahtab_tui.tui.panes.transcript.entries import Cell, NotebookWords

WORDS = 20_000
"""Characters of a cell that are drawn as Markdown: more would block the screen."""

_TICKS = re.compile("`+")


def entry_of(record: records.NotebookCell) -> Cell | NotebookWords:
    """Return the entry of a cell; one that is neither code nor Markdown is a block of text."""
    key = place_entry(record.place)
    if record.kind == "code":
        return Cell(party="notebook", person=True, code=record.text, place=record.place, key=key)
    text = record.text[:WORDS]
    if record.kind != "markdown":
        fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(text)), 3)
        text = f"{fence}\n{text}\n{fence}"
    if (left_out := len(record.text) - WORDS) > 0:
        text += f"\n\n… {left_out:,} characters left out"
    return NotebookWords(party="", named=False, source=text, place=record.place, key=key)
