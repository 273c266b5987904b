"""The output of one cell as lines, bounded in memory however much comes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mahtab_tui.bus.overwrite import collapse

HEAD, TAIL = 200, 800
"""Lines that are kept of the beginning and of the end."""
FRAME = "frame"
"""The meta of a style that tells the number of the frame that a line names."""
SHOWN = 40
"""Tables, pictures and texts of Markdown that one output has at most."""
COLOURS = 16
"""SGR sequences that are carried on to the next line."""
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
            text = collapse(_last_passes(text[:start])) + text[start:]
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
        self._open, self._colours = None, ()

    def feed(self, kind: str, text: str) -> None:
        """Take a piece of output."""
        if not text:
            return
        self.received += len(text)
        if self._open is not None and self._open.kind != kind:
            self._end_line()
        first, newline, rest = text.partition("\n")
        self._write(kind, first)
        if newline:
            self._end_line()
            self._feed_lines(kind, rest)
        self._trim()

    def show(self, text: str, mime: str, data: str) -> None:
        """Something that is more than text, in the place of its text. Of very many, those between the first and the last are their text."""
        self._end_line()
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
        self._open = None

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


def _last_passes(text: str) -> str:
    """Of a line that was written over and over, only the passes of which something may still be seen: each longer than all after it."""
    passes = text.split("\r")
    if len(passes) < 16:
        return text
    seen: list[str] = []
    longest = -1
    for written in reversed(passes):
        if len(written) > longest:
            seen.append(written)
            longest = len(written)
    return "\r".join(reversed(seen))
