"""The text cells of a notebook, which the transcript shows between its code."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import AnswerText

MAX_NOTEBOOK_TEXT_CHARS = 20_000
"""Characters of a text cell that are shown."""

_BACKTICKS = re.compile("`+")


@dataclass(kw_only=True, eq=False)
class NotebookText(AnswerText):
    """A text cell of a notebook. It is Markdown, as the words of an answer are."""

    cell_number: int
    """Its position in the notebook, from 1."""


def make_notebook_text(record: records.NotebookCell) -> NotebookText:
    """Return the entry of a text cell. Text that is not Markdown is shown as it is, in a fence."""
    text = record.text[:MAX_NOTEBOOK_TEXT_CHARS]
    if record.kind != "markdown":
        # A fence must be longer than any run of backticks in the text.
        longest_run = max(map(len, _BACKTICKS.findall(text)), default=0)
        fence = "`" * max(3, longest_run + 1)
        text = f"{fence}\n{text}\n{fence}"
    omitted_chars = len(record.text) - MAX_NOTEBOOK_TEXT_CHARS
    if omitted_chars > 0:
        text += f"\n\n… {omitted_chars:,} characters left out"
    return NotebookText(
        author="",
        shows_author=False,
        source=text,
        cell_number=record.position,
        key=record.entry_name,
    )
