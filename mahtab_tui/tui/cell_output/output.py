"""The output of one cell as lines, bounded in memory however much comes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

from mahtab_tui.bus.overwrite import HEIGHT, PrintedLine, Screen, collapse, leaves_line, split_unfinished
from mahtab_tui.bus.screen_line import change
from mahtab_tui.bus.sgr import NO_STYLE, after

HEAD, TAIL = 200, 800
"""Lines that are kept of the beginning and of the end."""
FRAME = "frame"
"""The meta of a style that tells the number of the frame that a line names."""
SHOWN = 40
"""Tables, pictures and texts of Markdown that one output has at most."""
COLOURS = 16
"""SGR sequences that are carried on to the next line."""
LIVE = 50_000
"""Characters of the end of a piece in which moves of the cursor are followed: a flood of them must not hold the screen. Once the cell has
ended, what it printed comes as it stands then."""
LINE_HEAD, LINE_TAIL = 3_000, 1_000
"""Characters that are kept of the beginning and of the end of one line."""
HELP = 20_000
"""Characters that are kept of the beginning of a text of help."""

_SGR = re.compile(r"\x1b\[[\d;:]*m")
_RESET = re.compile(r"\x1b\[[0;:]*m")


@dataclass(slots=True, eq=False)
class OutLine:
    """One line of output, as it was written: escape sequences are taken out where it is drawn."""

    kind: str
    """``stdout``, ``value`` or ``traceback``."""
    text: str
    cut: int = 0
    """Characters left out after the first `LINE_HEAD`."""
    frame: int | None = None
    """The number of the frame that it names, of a traceback."""

    @property
    def state(self) -> tuple[object, ...]:
        """All that its rows depend on."""
        return self.text, self.frame

    def extend(self, text: str) -> None:
        """More of the line has come. A carriage return goes back to its beginning."""
        text = self.text + text
        if (start := text.rfind("\r")) > 0:
            text = collapse(text[:start]) + text[start:]
        if (over := len(text) - LINE_HEAD - LINE_TAIL) > 0:
            self.cut += over
            text = text[:LINE_HEAD] + text[-LINE_TAIL:]
        self.text = text


@dataclass(slots=True, eq=False)
class Shown(OutLine):
    """A picture, a table or Markdown in the place of its text, which may have several lines."""

    mime: str = ""
    """Empty where only the text is left."""
    data: str = ""
    """Of pictures: base64."""
    unreadable: bool = False
    """Of a picture: it turned out that it cannot be drawn."""

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.mime, self.unreadable

    @property
    def read_from_its_beginning(self) -> bool:
        """Whether it is a text for a reader: help, Markdown."""
        return self.mime in ("text/plain", "text/markdown")

    def forget(self) -> None:
        """Keep only the text."""
        self.mime = self.data = ""


@dataclass(slots=True, eq=False)
class Output:
    """Grows by pieces of any size; feeding one costs as much as the piece is long."""

    received: int = 0
    """Characters fed so far."""
    left_out: int = 0
    """Whole lines that came and are not kept."""
    head: list[OutLine] = field(default_factory=list)
    tail: list[OutLine] = field(default_factory=list)
    _open: OutLine | None = None
    """The last line, as long as it has not ended."""
    _colours: tuple[str, ...] = ()
    """The SGR sequences in force where the next line begins."""
    _above: int = 0
    """Lines from the cursor's to the last one."""
    _column: int | None = None
    """The cursor's; None at the end of its line."""
    _unfinished: str = ""
    """The beginning of a sequence whose end has not come."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        """Begin anew."""
        self.received = self.left_out = 0
        self.head.clear()
        self.tail.clear()
        self._colours = ()
        self._end_prints()

    def feed(self, kind: str, text: str) -> None:
        """Take a piece of output."""
        if not text:
            return
        self.received += len(text)
        if self._open is not None and self._open.kind != kind:
            self._end_prints()
        if kind == "stdout":
            text, self._unfinished = split_unfinished(self._unfinished + text)
        if kind == "stdout" and (self._above or self._column is not None or leaves_line(text)):
            self._play(text)
        else:
            first, newline, rest = text.partition("\n")
            self._write(kind, first)
            if newline:
                self._end_line()
                self._feed_lines(kind, rest)
        self._trim()

    def show(self, text: str, mime: str, data: str) -> None:
        """Something that is more than text, in the place of its text. Of very many, those between the first and the last are their text."""
        self._end_prints()
        self.received += len(text)
        text = text.rstrip("\n")
        kept = HELP if mime == "text/plain" else LINE_HEAD
        self._append(Shown("display", text[:kept], max(0, len(text) - kept), mime=mime, data=data))
        self._trim()
        rich = [line for line in self if isinstance(line, Shown) and line.mime]
        if len(rich) > SHOWN:
            rich[SHOWN // 2].forget()

    def _trim(self) -> None:
        if (over := len(self.tail) - TAIL) > 0:
            del self.tail[:over]
            self.left_out += over

    def _feed_lines(self, kind: str, text: str) -> None:
        """Take text that begins with a new line."""
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
        """Characters that are kept."""
        return sum(len(line.text) + (len(line.data) if isinstance(line, Shown) else 0) for line in self)

    def from_end(self, count: int) -> OutLine | None:
        """The line so many before the end, 1 the last; None where it is not kept."""
        if 0 < count <= len(self.tail):
            return self.tail[-count]
        return self.head[len(self) - count] if len(self.tail) < count <= len(self) and not self.left_out else None

    def shrink(self, lines: int) -> None:
        """Keep so many lines of each end only, and of what is more than text its text."""
        self.left_out += max(0, len(self) - 2 * lines)
        kept = list(self)
        self.head, self.tail = kept[:lines], kept[lines:][-lines:]
        for line in self:
            if isinstance(line, Shown):
                line.forget()

    def _split_long(self, text: str) -> tuple[list[str], str]:
        """The lines that still belong to the head, and the text of the last `TAIL` ones; those between are counted."""
        wanted = HEAD - len(self.head)
        beginning = text.split("\n", wanted)[:wanted] if wanted > 0 else []
        middle = text[sum(len(line) + 1 for line in beginning) :]
        end = len(middle)
        for _ in range(TAIL + 1):
            end = middle.rfind("\n", 0, end)
        self.left_out += middle.count("\n", 0, end + 1)
        self._carry(middle[: end + 1])
        return beginning, middle[end + 1 :]

    def _write(self, kind: str, text: str) -> None:
        if self._open is None:
            self._open = OutLine(kind, "".join(self._colours))
            self._append(self._open)
        self._open.extend(text)
        self._carry(text)

    def _whole_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        self._open, self._above, self._column = None, 0, None

    def _end_prints(self) -> None:
        """What comes next is of another kind."""
        self._end_line()
        self._unfinished = ""

    # Moves of the cursor

    def _play(self, text: str) -> None:
        """Take text that moves the cursor between the last lines."""
        if (over := len(text) - LIVE) > 0:
            self.left_out += text.count("\n", 0, over)
        lines = self._take_screenful()
        rows = [PrintedLine(line.text, NO_STYLE, NO_STYLE) for line in lines]
        if self._open is None or not rows:
            rows.append(PrintedLine("", NO_STYLE, NO_STYLE))
        pen = reduce(after, (colour[2:-1] for colour in self._colours), NO_STYLE)
        screen = Screen(rows, above=min(self._above, len(rows) - 1), column=self._column, pen=pen)
        screen.feed(text[-LIVE:])
        rows = screen.rows()
        begun = bool(screen.above or rows[-1].text)
        for number, row in enumerate(rows if begun else rows[:-1]):
            line = lines[number] if number < len(lines) else OutLine("stdout", "")
            if (drawn := change(NO_STYLE, row.start) + row.text) != line.text:
                line.text, line.cut = "", 0
                line.extend(drawn)
            (self.tail.append if self.left_out else self._append)(line)
        self._open = (self.tail or self.head)[-1] if begun else None
        self._above, self._column = (0, None) if screen.goes_on else (screen.above, screen.column)
        self._colours = (screen.pen.codes(),) if screen.pen != NO_STYLE else ()

    def _take_screenful(self) -> list[OutLine]:
        """Take off the last lines that the cursor can come to."""
        lines: list[OutLine] = []
        for line in chain(reversed(self.tail), () if self.left_out else reversed(self.head)):
            if type(line) is not OutLine or line.kind != "stdout" or len(lines) == HEIGHT:
                break
            lines.append(line)
        of_tail = min(len(lines), len(self.tail))
        del self.tail[len(self.tail) - of_tail :]
        del self.head[len(self.head) - (len(lines) - of_tail) :]
        return lines[::-1]

    def _append(self, line: OutLine) -> None:
        if len(self.head) < HEAD and not self.tail:
            self.head.append(line)
            return
        self.tail.append(line)

    def _carry(self, text: str) -> None:
        """Remember the colours that the text leaves switched on."""
        if "\x1b" not in text:
            return
        for sequence in _SGR.findall(text):
            if _RESET.fullmatch(sequence):
                self._colours = ()
            else:
                self._colours = (*self._colours, sequence)[-COLOURS:]
