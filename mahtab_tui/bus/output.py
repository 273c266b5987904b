"""A cell's output as growing data.

A cell may print a hundred megabytes, so only its first and its last lines are kept, and feeding a piece
takes time for this piece alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from mahtab_tui.bus.output_lines import DisplayedValue, DisplayLine, OutputLine, display_line
from mahtab_tui.bus.pens import Pen, read_pen
from mahtab_tui.bus.terminal_screen import HEIGHT, Screen, leaves_line, split_unfinished

HEAD_LINES = 200
"""Lines to keep at the start."""
TAIL_LINES = 800
"""Lines to keep at the end."""
MAX_RICH_DISPLAYS = 40
"""An output keeps at most this many tables, pictures and Markdown texts."""
MAX_EMULATED_CHARS = 50_000
"""Characters at a piece's end whose cursor movements are emulated."""


@dataclass(slots=True, eq=False)
class OutputBuffer:
    """A cell's output. Feeding takes linear time."""

    received: int = 0
    """Characters that were fed."""
    omitted_lines: int = 0
    """Lines that are left out between head and tail."""
    head: list[OutputLine] = field(default_factory=list)
    """The first lines, at most `HEAD_LINES`."""
    tail: list[OutputLine] = field(default_factory=list)
    """The last lines, at most `TAIL_LINES`."""
    _open_line: OutputLine | None = None
    """The line to which the next text is added."""
    _pen: Pen = ""
    """The colours and styles in which the next text is printed."""
    _kind: str = ""
    """The kind of the last piece; empty if there was none."""
    _lines_below_cursor: int = 0
    """How many lines the cursor has moved up from the last one."""
    _column: int | None = None
    """The column of the cursor; None for the end of the line."""
    _unfinished: str = ""
    """A sequence whose end has not arrived yet."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutputLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        """Remove all lines. Colours and the cursor are as at the start."""
        self.received = 0
        self.omitted_lines = 0
        self.head.clear()
        self.tail.clear()
        self._pen = ""
        self._end_prints()

    def feed(self, kind: str, text: str) -> None:
        """Add printed text, a value or a traceback.

        Args:
            kind: See `OutputLine.kind`.
            text: The piece, which may end anywhere, also within an escape sequence.
        """
        if not text:
            return
        self.received += len(text)
        if kind != self._kind:
            # What was printed before does not colour a traceback.
            self._kind = kind
            self._pen = ""
            self._end_prints()
        if kind == "stdout":
            text, self._unfinished = split_unfinished(self._unfinished + text)

        is_cursor_moved = bool(self._lines_below_cursor) or self._column is not None
        if kind == "stdout" and (is_cursor_moved or leaves_line(text)):
            self._emulate(text)
        else:
            open_text, newline, whole_lines = text.partition("\n")
            self._write(kind, open_text)
            if newline:
                self._end_line()
                self._feed_lines(kind, whole_lines)
        self._trim()

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        """Add a displayed value; see `DisplayedValue`.

        Of very many, those in the middle become text.
        """
        self._end_prints()
        self.received += len(text)
        self._append(display_line(text, mime, data, value))
        self._trim()
        rich_lines = [line for line in self if isinstance(line, DisplayLine) and line.mime]
        if len(rich_lines) > MAX_RICH_DISPLAYS:
            rich_lines[MAX_RICH_DISPLAYS // 2].drop_value()

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Put a displayed value in the place of an earlier one."""
        old_line = display_line(*old)
        for lines in (self.head, self.tail):
            for index, line in enumerate(lines):
                if isinstance(line, DisplayLine) and line.content == old_line.content:
                    lines[index] = display_line(*new)
                    return

    @property
    def size(self) -> int:
        """Characters that are kept."""
        displays = (line for line in self if isinstance(line, DisplayLine))
        return sum(len(line.text) for line in self) + sum(len(line.data) for line in displays)

    def from_end(self, count: int) -> OutputLine | None:
        """Return a line counted from the end, from 1, if it was kept."""
        if 0 < count <= len(self.tail):
            return self.tail[-count]
        if len(self.tail) < count <= len(self) and not self.omitted_lines:
            return self.head[len(self) - count]
        return None

    def line_at(self, index: int) -> OutputLine | None:
        """Return a line counted from the start, from 0; None if it was left out."""
        if index < len(self.head):
            return self.head[index]
        tail_index = index - len(self.head) - self.omitted_lines
        return self.tail[tail_index] if 0 <= tail_index < len(self.tail) else None

    @property
    def has_open_line(self) -> bool:
        """Whether the next text is added to the last line."""
        return self._open_line is not None

    def shrink(self, end_lines: int) -> None:
        """Keep only the plain text of displayed values, and some lines at each end.

        Args:
            end_lines: How many.
        """
        self.omitted_lines += max(0, len(self) - 2 * end_lines)
        all_lines = list(self)
        self.head = all_lines[:end_lines]
        self.tail = all_lines[end_lines:][-end_lines:]
        for line in self:
            if isinstance(line, DisplayLine):
                line.drop_value()

    def _feed_lines(self, kind: str, text: str) -> None:
        """Add text that begins at the start of a line."""
        if text.count("\n") > HEAD_LINES + TAIL_LINES:
            first_lines, text = self._omit_middle(text)
            for line in first_lines:
                self._write_line(kind, line)
        *lines, open_text = text.split("\n")
        for line in lines:
            self._write_line(kind, line)
        if open_text:
            self._write(kind, open_text)

    def _omit_middle(self, text: str) -> tuple[list[str], str]:
        """Return the first lines of a long text, which complete the head, and its end, which
        replaces the tail."""
        missing_lines = HEAD_LINES - len(self.head)
        first_lines = []
        if missing_lines > 0:
            first_lines = text.split("\n", missing_lines)[:missing_lines]
        middle = text[sum(len(line) + 1 for line in first_lines) :]

        tail_start = len(middle)
        for _ in range(TAIL_LINES + 1):
            tail_start = middle.rfind("\n", 0, tail_start)
        omitted_text = middle[: tail_start + 1]
        self.omitted_lines += omitted_text.count("\n")
        self._pen = read_pen(self._pen, omitted_text)
        return first_lines, middle[tail_start + 1 :]

    def _write(self, kind: str, text: str) -> None:
        """Add text without line breaks to the open line, or to a new one."""
        if self._open_line is None:
            self._open_line = OutputLine(kind, self._pen)
            self._append(self._open_line)
        self._open_line.extend(text)
        self._pen = read_pen(self._pen, text)

    def _write_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        """Begin a new line with the next text, with the cursor at its end."""
        self._open_line = None
        self._lines_below_cursor = 0
        self._column = None

    def _end_prints(self) -> None:
        """End the line that is printed, because something else follows."""
        self._end_line()
        self._unfinished = ""

    # Cursor movements

    def _emulate(self, text: str) -> None:
        """Add text that moves the cursor over the last lines."""
        excess_chars = len(text) - MAX_EMULATED_CHARS
        if excess_chars > 0:
            self.omitted_lines += text.count("\n", 0, excess_chars)
        lines = self._pop_screenful()
        rows = [line.text for line in lines]
        if self._open_line is None or not rows:
            rows.append("")

        above = min(self._lines_below_cursor, len(rows) - 1)
        screen = Screen(rows, above=above, column=self._column, pen=self._pen)
        screen.feed(text[-MAX_EMULATED_CHARS:])
        rows = screen.rows()

        # An empty last row is a line that has not begun.
        has_open_line = bool(screen.above or rows[-1])
        if not has_open_line:
            rows.pop()
        self._put_back(lines, rows)

        self._open_line = (self.tail or self.head)[-1] if has_open_line else None
        self._pen = screen.pen
        if screen.at_end:
            self._lines_below_cursor = 0
            self._column = None
        else:
            self._lines_below_cursor = screen.above
            self._column = screen.column

    def _pop_screenful(self) -> list[OutputLine]:
        """Remove the last lines, which the cursor can reach."""
        lines: list[OutputLine] = []
        reachable_head = [] if self.omitted_lines else self.head
        for line in chain(reversed(self.tail), reversed(reachable_head)):
            if type(line) is not OutputLine or line.kind != "stdout" or len(lines) == HEIGHT:
                break
            lines.append(line)
        tail_count = min(len(lines), len(self.tail))
        head_count = len(lines) - tail_count
        del self.tail[len(self.tail) - tail_count :]
        del self.head[len(self.head) - head_count :]
        lines.reverse()
        return lines

    def _put_back(self, lines: list[OutputLine], rows: list[str]) -> None:
        """Append the lines of the screen again, with the texts that they have now."""
        for index, row in enumerate(rows):
            if index < len(lines):
                line = lines[index]
            else:
                line = OutputLine("stdout", "")
            if row != line.text:
                line.replace(row)
            # The lines were behind those that are left out.
            if self.omitted_lines:
                self.tail.append(line)
            else:
                self._append(line)

    def _append(self, line: OutputLine) -> None:
        """Add a line to the head; once that is full, to the tail."""
        if len(self.head) < HEAD_LINES and not self.tail:
            self.head.append(line)
        else:
            self.tail.append(line)

    def _trim(self) -> None:
        """Leave out lines between head and tail, if there are too many."""
        excess_lines = len(self.tail) - TAIL_LINES
        if excess_lines > 0:
            del self.tail[:excess_lines]
            self.omitted_lines += excess_lines
