"""A cell's output as growing data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

from mahtab_tui.bus.terminal_screen import (
    HEIGHT,
    NO_STYLE,
    PrintedLine,
    Screen,
    apply_sgr,
    collapse,
    leaves_line,
    split_unfinished,
    style_change,
)

HEAD, TAIL = 200, 800
"""Lines to keep at the start and at the end."""
RICH_DISPLAYS = 40
"""Tables, pictures and Markdown texts of one output at most."""
COLOURS = 16
"""Maximum number of SGR sequences carried over to the next line."""
LIVE = 50_000
"""Characters at a piece's end whose cursor movements are emulated, until the final output comes."""
LINE_HEAD, LINE_TAIL = 3_000, 1_000
"""Characters to keep at the start and at the end of a line."""
HELP = 20_000

LOCATION = re.compile(r'^(\s*File )(".*?"|\S+)(, line )(\d+)(.*)$')
"""A traceback line that names a location."""
_SGR = re.compile(r"\x1b\[[\d;:]*m")
_RESET = re.compile(r"\x1b\[[0;:]*m")


@dataclass(slots=True, eq=False)
class OutputLine:
    """A line of output with its escape sequences."""

    kind: str
    """``stdout``, ``value`` or ``traceback``."""
    text: str
    cut: int = 0
    """Characters omitted after the first `LINE_HEAD`."""
    frame: int | None = None
    """The frame of the traceback that it names."""

    @property
    def state(self) -> tuple[object, ...]:
        """All that its rows depend on."""
        return self.text, self.frame

    def extend(self, text: str) -> None:
        """Append text. A carriage return moves back to the start of the line."""
        text = self.text + text
        if (start := text.rfind("\r")) > 0:
            text = collapse(text[:start]) + text[start:]
        if (over := len(text) - LINE_HEAD - LINE_TAIL) > 0:
            self.cut += over
            text = text[:LINE_HEAD] + text[-LINE_TAIL:]
        self.text = text


@dataclass(slots=True, eq=False)
class DisplayLine(OutputLine):
    """A picture, table or Markdown text."""

    mime: str = ""
    """Empty if only the text is left."""
    data: str = ""
    value: str = ""
    """The key with which the kernel opens a table; empty if it cannot."""
    offset: int = 0
    """Columns of a wide table that the user has scrolled past."""
    unreadable: bool = False
    """Whether drawing the picture has failed."""

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.mime, self.unreadable, self.offset

    def drop_value(self) -> None:
        self.mime = self.data = self.value = ""


@dataclass(slots=True, eq=False)
class OutputBuffer:
    """The stored lines of a cell's output. Feeding takes linear time."""

    received: int = 0
    omitted: int = 0
    """Lines that were not kept."""
    head: list[OutputLine] = field(default_factory=list)
    tail: list[OutputLine] = field(default_factory=list)
    _open: OutputLine | None = None
    """The last line, until it ends."""
    _colours: tuple[str, ...] = ()
    """SGR sequences in effect."""
    _above: int = 0
    """Lines between the cursor and the last one."""
    _column: int | None = None
    """The cursor's column; None for the end of its line."""
    _unfinished: str = ""
    """The start of an incomplete sequence."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutputLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        self.received = self.omitted = 0
        self.head.clear()
        self.tail.clear()
        self._colours = ()
        self._end_prints()

    def feed(self, kind: str, text: str) -> None:
        if not text:
            return
        self.received += len(text)
        if self._open is not None and self._open.kind != kind:
            self._end_prints()
        if kind == "stdout":
            text, self._unfinished = split_unfinished(self._unfinished + text)
        if kind == "stdout" and (self._above or self._column is not None or leaves_line(text)):
            self._emulate(text)
        else:
            first, newline, rest = text.partition("\n")
            self._write(kind, first)
            if newline:
                self._end_line()
                self._feed_lines(kind, rest)
        self._trim()

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        """Add a displayed value. Of very many, those in the middle become text."""
        self._end_prints()
        self.received += len(text)
        text = text.rstrip("\n")
        room = HELP if mime == "text/plain" else LINE_HEAD
        self._append(
            DisplayLine(
                "display", text[:room], max(0, len(text) - room), mime=mime, data=data, value=value
            )
        )
        self._trim()
        rich = [line for line in self if isinstance(line, DisplayLine) and line.mime]
        if len(rich) > RICH_DISPLAYS:
            rich[RICH_DISPLAYS // 2].drop_value()

    def _trim(self) -> None:
        if (over := len(self.tail) - TAIL) > 0:
            del self.tail[:over]
            self.omitted += over

    def _feed_lines(self, kind: str, text: str) -> None:
        """Add text after a line end."""
        if text.count("\n") > HEAD + TAIL:
            beginning, text = self._split_long(text)
            for line in beginning:
                self._whole_line(kind, line)
        *lines, last = text.split("\n")
        for line in lines:
            self._whole_line(kind, line)
        if last:
            self._write(kind, last)

    @property
    def size(self) -> int:
        return sum(
            len(line.text) + (len(line.data) if isinstance(line, DisplayLine) else 0)
            for line in self
        )

    def from_end(self, count: int) -> OutputLine | None:
        """Return a line counted from the end, from 1, if it was kept."""
        if 0 < count <= len(self.tail):
            return self.tail[-count]
        return (
            self.head[len(self) - count]
            if len(self.tail) < count <= len(self) and not self.omitted
            else None
        )

    def shrink(self, lines: int) -> None:
        """Keep only that many lines at each end, and only the plain text of displayed values."""
        self.omitted += max(0, len(self) - 2 * lines)
        remaining = list(self)
        self.head, self.tail = remaining[:lines], remaining[lines:][-lines:]
        for line in self:
            if isinstance(line, DisplayLine):
                line.drop_value()

    def _split_long(self, text: str) -> tuple[list[str], str]:
        """Split a long text into lines for the head, and the text of the last `TAIL` lines."""
        wanted = HEAD - len(self.head)
        beginning = text.split("\n", wanted)[:wanted] if wanted > 0 else []
        middle = text[sum(len(line) + 1 for line in beginning) :]
        end = len(middle)
        for _ in range(TAIL + 1):
            end = middle.rfind("\n", 0, end)
        self.omitted += middle.count("\n", 0, end + 1)
        self._remember_colours(middle[: end + 1])
        return beginning, middle[end + 1 :]

    def _write(self, kind: str, text: str) -> None:
        if self._open is None:
            self._open = OutputLine(kind, "".join(self._colours))
            self._append(self._open)
        self._open.extend(text)
        self._remember_colours(text)

    def _whole_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        self._open, self._above, self._column = None, 0, None

    def _end_prints(self) -> None:
        """End the line, because output of another kind follows."""
        self._end_line()
        self._unfinished = ""

    # Cursor movements

    def _emulate(self, text: str) -> None:
        if (over := len(text) - LIVE) > 0:
            self.omitted += text.count("\n", 0, over)
        lines = self._pop_screenful()
        rows = [PrintedLine(line.text, NO_STYLE, NO_STYLE) for line in lines]
        if self._open is None or not rows:
            rows.append(PrintedLine("", NO_STYLE, NO_STYLE))
        pen = reduce(apply_sgr, (colour[2:-1] for colour in self._colours), NO_STYLE)
        screen = Screen(rows, above=min(self._above, len(rows) - 1), column=self._column, pen=pen)
        screen.feed(text[-LIVE:])
        rows = screen.rows()
        begun = bool(screen.above or rows[-1].text)
        for number, row in enumerate(rows if begun else rows[:-1]):
            line = lines[number] if number < len(lines) else OutputLine("stdout", "")
            if (drawn := style_change(NO_STYLE, row.start) + row.text) != line.text:
                line.text, line.cut = "", 0
                line.extend(drawn)
            (self.tail.append if self.omitted else self._append)(line)
        self._open = (self.tail or self.head)[-1] if begun else None
        self._above, self._column = (0, None) if screen.at_end else (screen.above, screen.column)
        self._colours = (screen.pen.codes(),) if screen.pen != NO_STYLE else ()

    def _pop_screenful(self) -> list[OutputLine]:
        """Remove the last lines, which the cursor can reach."""
        lines: list[OutputLine] = []
        for line in chain(reversed(self.tail), () if self.omitted else reversed(self.head)):
            if type(line) is not OutputLine or line.kind != "stdout" or len(lines) == HEIGHT:
                break
            lines.append(line)
        of_tail = min(len(lines), len(self.tail))
        del self.tail[len(self.tail) - of_tail :]
        del self.head[len(self.head) - (len(lines) - of_tail) :]
        return lines[::-1]

    def _append(self, line: OutputLine) -> None:
        (self.head if len(self.head) < HEAD and not self.tail else self.tail).append(line)

    def _remember_colours(self, text: str) -> None:
        if "\x1b" not in text:
            return
        for sequence in _SGR.findall(text):
            self._colours = (
                () if _RESET.fullmatch(sequence) else (*self._colours, sequence)[-COLOURS:]
            )
