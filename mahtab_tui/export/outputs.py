"""The outputs of cells, as they are exported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.output_lines import DisplayedValue
from mahtab_tui.worker.magic.notes import remove_notes

MAX_OUTPUT_CHARS = 1_000_000
"""Maximum characters of one output."""
RICH_TEXT_MIMES = ("text/markdown", "text/html")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")


class OutputPart(NamedTuple):
    """A part of a cell's output."""

    kind: str
    """See `records.ReplOutStream`."""
    text: str
    mime: str = ""
    """Empty if it is only text."""
    data: str = ""

    def with_mask(self, mask: Callable[[str], str]) -> OutputPart:
        """Return the part with masked texts. Pictures stay as they are."""
        data = self.data if self.mime.startswith("image/") else mask(self.data)
        return self._replace(text=mask(self.text), data=data)


class WholeOutput(OutputBuffer):
    """All output of a cell; the screen's buffer keeps only its start and end."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[OutputPart] = []

    def clear(self) -> None:
        self.received = 0
        self.parts.clear()

    def feed(self, kind: str, text: str) -> None:
        if text:
            self.received += len(text)
            self.parts.append(OutputPart(kind, text))

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        self.received += len(text)
        is_rich_text = mime in RICH_TEXT_MIMES
        is_picture = mime in records.PICTURE_MIMES and BASE64.fullmatch(data)
        if is_rich_text or is_picture:
            self.parts.append(OutputPart("display", text, mime, data))
        else:
            self.parts.append(OutputPart("display", text))

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Do nothing: only cells that have ended are exported."""


def outputs(cell: Cell) -> list[OutputPart]:
    """Return the outputs of a cell, without the middle of long ones and notes of this program."""
    parts: list[OutputPart] = []
    for buffer in (cell.output, cell.late_output):
        if isinstance(buffer, WholeOutput):
            parts += buffer.parts
    exported_parts: list[OutputPart] = []
    for part in parts:
        text = part.text
        if part.kind == "stdout":
            text = remove_notes(text)
        if text:
            exported_parts.append(part._replace(text=shorten(text)))
    return exported_parts


def shorten(text: str) -> str:
    """Return an output without its middle if it is too long."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    half = MAX_OUTPUT_CHARS // 2
    note = f"… {len(text) - MAX_OUTPUT_CHARS:,} characters are left out here …"
    return f"{text[:half]}\n{note}\n{text[-half:]}"
