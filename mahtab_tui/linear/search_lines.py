"""Writes searches as indented lines."""

from __future__ import annotations

from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.bus.records import Record, SearchBegin, SearchFinal
from mahtab_tui.linear.line_writer import LineWriter

MAX_LISTED_CALLS = 8
"""If more calls are made at once, only their number and what has failed is written."""
MAX_TEXT_CHARS = 100
"""Characters of a question or an answer that are written."""
_WITH_ANSWER = ("done", "partial")


class SearchLines:
    """Writes a line when a call of a search begins, and one when it ends."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._hidden_calls: set[tuple[str, str]] = set()
        """Calls whose begin was not written, by search and node."""
        self._calls_of_cells: set[tuple[str, str]] = set()
        """Calls whose answer goes to a cell, which shows it or keeps it."""

    def fold(self, record: Record) -> None:
        match record:
            case SearchBegin():
                self._begin(record)
            case SearchFinal():
                self._end(record)

    def _begin(self, record: SearchBegin) -> None:
        if record.cell is not None:
            self._calls_of_cells.add((record.tree, record.node))
        if record.of > MAX_LISTED_CALLS:
            self._hidden_calls.add((record.tree, record.node))
            if record.index == 0:
                self._write(record.parent or "", f"makes {record.of:,} calls of {record.model}")
            return
        self._write(record.node, f"search: {shorten_line(record.text, MAX_TEXT_CHARS)}")

    def _end(self, record: SearchFinal) -> None:
        call = (record.tree, record.node)
        is_hidden = call in self._hidden_calls
        goes_to_cell = call in self._calls_of_cells
        self._hidden_calls.discard(call)
        self._calls_of_cells.discard(call)
        if is_hidden and record.state != "error":
            return
        duration = f" in {record.duration:.1f} s" if record.duration is not None else ""
        answer = f": {shorten_line(record.text, MAX_TEXT_CHARS)}"
        if goes_to_cell and record.state in _WITH_ANSWER:
            answer = ""
        self._write(record.node, f"{record.state}{duration}{answer}")

    def _write(self, node: str, text: str) -> None:
        """Write a line, indented by the depth of the call."""
        indent = "  " * (1 + node.count("."))
        self._writer.write_line(f"{indent}{node} {text}", "muted")
