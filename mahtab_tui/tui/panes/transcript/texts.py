"""The text of entries, for the clipboard and the editor."""

from __future__ import annotations

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.cell_output.output import OutputBuffer
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Note, Question, ToolUse, Words


def text_of(entry: Entry) -> str:
    """Return the code, words, question, tool call with result, or notice of an entry."""
    match entry:
        case Cell():
            return visible(entry.code.strip("\n"))
        case Words():
            return plain(entry.source.strip("\n"))
        case ToolUse():
            return plain(f"{entry.name} {entry.arguments}\n{entry.text}".rstrip())
        case Question() | Note():
            return plain(entry.text)
    raise AssertionError(entry)


def output_of(cell: Cell) -> str:
    """Return the kept output of a cell, including late output; a line marks where lines are left
    out."""
    return "\n".join(_text(output) for output in (cell.output, cell.later) if output)


def _text(output: OutputBuffer) -> str:
    lines = [line.text for line in output]
    if output.left_out:
        lines.insert(len(output.head), f"… {output.left_out:,} lines left out …")
    text = "\n".join(lines)
    return (
        text if plain(text) is text else "\n".join(map(plain, lines))
    )  # most output is plain as it is
