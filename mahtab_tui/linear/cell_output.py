"""Writes the output of a cell while it grows: text, values, tracebacks and pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.text import Text

from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.output_lines import DisplayedValue, DisplayLine, OutputLine, is_code
from mahtab_tui.bus.records import PICTURE_MIMES, DisplayRecord, ReplOut, ReplOutStream
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.sgr import styled
from mahtab_tui.bus.terminal_screen import HEIGHT, collapse
from mahtab_tui.linear.file_links import link_traceback_file
from mahtab_tui.linear.line_writer import STYLES, LineWriter, highlighted

DrawPicture = Callable[[DisplayLine], bool]
"""Draws a picture, and returns whether it could."""


class _WrittenLine(NamedTuple):
    """A line of the output that was written, and may change afterwards."""

    line: OutputLine
    text: str
    """The text of the line when it was written."""


class CellOutput:
    """Writes each line of a cell's output once the line ends.

    A cell can change lines that were written, as several progress bars do. These lines are written again
    at the end of the cell.
    """

    def __init__(self, writer: LineWriter, draw_picture: DrawPicture, *, has_links: bool) -> None:
        """
        Args:
            writer: Writes to the terminal.
            draw_picture: Draws a displayed picture.
            has_links: Whether the names of files in tracebacks become links.
        """
        self._writer = writer
        self._draw_picture = draw_picture
        self._has_links = has_links
        self._cell = Cell(author="", person=True)
        """Folds the pieces to lines."""
        self._written_count = 0
        """How many lines were written or left out."""
        self._newest_lines: deque[_WrittenLine] = deque(maxlen=HEIGHT)
        """The lines that the cell can still change."""
        self._expected_echo = ""
        """The text that the cell prints next, and that the terminal shows already."""
        self.has_pieces = False
        """Whether output has come in pieces. If so, the record of the cell's end repeats it."""
        self._last_kind = ""
        """The kind of the last piece; empty before the first."""

    def feed(self, piece: ReplOutStream) -> None:
        """Take a piece of output, and write the lines that it ends."""
        self.has_pieces = True
        if piece.kind == "traceback" and self._last_kind != "traceback":
            # Below the traceback, changed lines would seem to be part of it.
            self.flush()
            self._write_changed_lines()
        self._last_kind = piece.kind
        echo, text = self._split_echo(piece.text)
        if echo:
            self._feed_echo(piece.kind, echo)
        self._cell.feed(piece.kind, text, iter(self._cell.displays[-1:]))
        self._write_new_lines(is_ended=False)

    def display(self, record: DisplayRecord) -> None:
        """Take a displayed value, whose text follows as a piece of output."""
        if record.action == "clear":
            self._cell.clear_output()
            self._written_count = 0
        elif record.action == "show":
            value = DisplayedValue(record.text, record.mime, record.data, record.value)
            self._cell.add_display(value, record.name)

    def flush(self) -> None:
        """Write all lines, also one that has not ended, such as the prompt of an `input()`."""
        self._write_new_lines(is_ended=True)

    def end(self, record: ReplOut) -> None:
        """Write the lines that were not written yet, and the lines that have changed."""
        if not self.has_pieces:
            self._cell.end(record)
        self.flush()
        self._write_changed_lines()

    @property
    def open_line(self) -> str:
        """The text of the line that has not ended, such as a progress bar; empty if there is none."""
        if not self._output.has_open_line:
            return ""
        line = self._output.line_at(self._line_count - 1)
        return "" if line is None else line.final_text

    @property
    def _output(self) -> OutputBuffer:
        return self._cell.output

    @property
    def _line_count(self) -> int:
        """The number of all lines, including those left out and one that has not ended."""
        return self._output.omitted_lines + len(self._output)

    # The echo of what the user types for an `input()`

    def expect_echo(self, text: str) -> None:
        """Do not write a text that the cell prints next, because the user has typed it here."""
        self._expected_echo = text

    def _split_echo(self, text: str) -> tuple[str, str]:
        """Return the start of a piece that the terminal shows already, and the remaining text."""
        echo = self._expected_echo
        if echo.startswith(text):
            # The echo may come in several pieces.
            self._expected_echo = echo.removeprefix(text)
            return text, ""
        self._expected_echo = ""
        if text.startswith(echo):
            return echo, text.removeprefix(echo)
        return "", text

    def _feed_echo(self, kind: str, echo: str) -> None:
        """Take output that the terminal shows already, without writing it."""
        first_index = self._written_count
        if self._output.has_open_line and self._written_count == self._line_count:
            # It belongs to a line whose start was written when the cell asked for an input.
            first_index -= 1
            self._newest_lines.pop()
        self._cell.feed(kind, echo, iter(()))
        self._written_count = self._line_count
        for index in range(first_index, self._written_count):
            line = self._output.line_at(index)
            if line is not None:
                self._newest_lines.append(_WrittenLine(line, line.final_text))

    # Writing

    def _write_changed_lines(self) -> None:
        """Write the lines again that the cell has changed after they were written."""
        written_lines = list(self._newest_lines)
        changed_lines = [
            written.line for written in written_lines if written.line.final_text != written.text
        ]
        if not changed_lines:
            return
        self._newest_lines.clear()
        for written in written_lines:
            self._newest_lines.append(_WrittenLine(written.line, written.line.final_text))
        self._writer.write_line("Changed lines:", "muted")
        for line in changed_lines:
            self._writer.write_line(styled(line.final_text))

    def _write_new_lines(self, *, is_ended: bool) -> None:
        """Write the lines that were not written yet, and how many of them were left out.

        Args:
            is_ended: Whether a line that has not ended is written, too.
        """
        first_index = self._written_count
        end_index = self._line_count
        if self._output.has_open_line and not is_ended:
            end_index -= 1
        self._written_count = max(first_index, end_index)
        new_lines = (self._output.line_at(index) for index in range(first_index, end_index))
        for is_omitted, lines in groupby(new_lines, lambda line: line is None):
            if is_omitted:
                omitted_count = sum(1 for _ in lines)
                self._writer.write_line(f"… {omitted_count:,} lines left out", "muted")
            else:
                self._write_lines(line for line in lines if line is not None)

    def _write_lines(self, lines: Iterable[OutputLine]) -> None:
        for kind, lines_of_kind in groupby(lines, lambda line: line.kind):
            self._write_kind(kind, list(lines_of_kind))

    def _write_kind(self, kind: str, lines: Sequence[OutputLine]) -> None:
        """Write lines of one kind."""
        has_code = kind == "value" and is_code(lines)
        for line in lines:
            if isinstance(line, DisplayLine):
                self._write_display(line)
                continue
            text = line.final_text
            self._newest_lines.append(_WrittenLine(line, text))
            if has_code and "\x1b" not in text:
                self._writer.write_line(highlighted(plain(text)))
            elif kind == "traceback":
                self._write_traceback_line(text)
            else:
                self._writer.write_line(styled(text))

    def _write_traceback_line(self, line: str) -> None:
        """Write a line of a traceback, with a link to the file that it names."""
        text = styled(line)
        marks = text.plain.strip()
        if self._writer.is_plain and marks and not marks.strip("~^"):
            # These marks point to the line above, which says nothing if they are read out.
            return
        if self._has_links:
            link_traceback_file(text)
        is_error = line[:1].strip() and not line.startswith("Traceback")
        if is_error:
            text.stylize(STYLES["bad"])
        self._writer.write_line(text)

    def _write_display(self, line: DisplayLine) -> None:
        """Draw a picture; of any other value, and of a picture that cannot be drawn, write the text."""
        if line.mime in PICTURE_MIMES and self._draw_picture(line):
            return
        text = line.data if line.mime == "text/markdown" else line.text
        self._writer.write_line(styled(text))


def late_text(text: str) -> Text:
    """Return output that came after the end of its cell, with its colours."""
    return styled(collapse(text).rstrip("\n"))
