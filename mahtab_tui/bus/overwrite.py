"""What a terminal would show of a text that rewrites its lines, as progress bars do."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from mahtab_tui.bus.sgr import NO_STYLE, Graphic, after

_REWRITES = re.compile(r"[\r\b]|\x1b\[[0-2]?K")
_LINE_END = re.compile(r"(?<!\r)\r+\n")
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\r\b\t])"
    r"|\x1b\[(?P<erase>[0-2]?)K"
    r"|\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b\][^\x1b\x07\n]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x1f\x7f]"
)
_TAB = 8


def collapse(text: str) -> str:
    """Each line as it stands at its end: ``\\r`` goes back to column 0 and what is not written over remains, ``\\b`` goes one to the left,
    ``ESC [ K`` erases. Colours and styles stay; a line that rewrites nothing stays as it is. Moving the cursor up is not followed."""
    if "\r" not in text and "\b" not in text and "\x1b[" not in text:
        return text
    text = _LINE_END.sub("\n", text)
    if not _REWRITES.search(text):
        return text
    lines: list[str] = []
    graphic = NO_STYLE
    for line in text.split("\n"):
        if _REWRITES.search(line):
            screen_line = _Line(graphic)
            screen_line.play(line)
            lines.append(screen_line.shown(graphic))
            graphic = screen_line.graphic
        else:
            lines.append(line)
            if "\x1b" in line:
                for code in _SGR.finditer(line):
                    graphic = after(graphic, code[1])
    return "\n".join(lines)


class _Line:
    """One line of a terminal: a cell for each column, and the cursor."""

    def __init__(self, graphic: Graphic) -> None:
        self.graphic = graphic
        self._cells: list[str] = []
        """Characters; a wide one is followed by an empty cell, a combining one stands in its base's."""
        self._looks: list[Graphic] = []
        self._column = 0

    def play(self, line: str) -> None:
        """Do what the line says."""
        for token in _TOKEN.finditer(line):
            if token["text"]:
                self._write(token["text"])
            elif token["control"]:
                self._move(token["control"])
            elif token["erase"] is not None:
                self._erase(token["erase"])
            elif token["sgr"] is not None:
                self.graphic = after(self.graphic, token["sgr"])

    def shown(self, before: Graphic) -> str:
        """The line's text, with the sequences that change its looks, from those before it to those after it."""
        parts: list[str] = []
        start, look = 0, before
        for place, here in enumerate(self._looks):
            if here is not look and here != look:
                parts += ("".join(self._cells[start:place]), _change(look, here))
                start, look = place, here
        parts += ("".join(self._cells[start:]), _change(look, self.graphic))
        return "".join(parts)

    def _write(self, text: str) -> None:
        if text.isascii() or all(_width(char) == 1 for char in set(text)):
            self._put(list(text))
            return
        for char in text:
            width = _width(char)
            if width == 0:
                self._combine(char)
            else:
                self._put([char, ""][:width])

    def _put(self, cells: list[str]) -> None:
        start, end = self._column, self._column + len(cells)
        self._pad(start)
        self._halve(start)
        self._halve(end)
        self._cells[start:end] = cells
        self._looks[start:end] = [self.graphic] * len(cells)
        self._column = end

    def _combine(self, char: str) -> None:
        place = self._column - 1
        while place > 0 and not self._cells[place]:
            place -= 1
        if place >= 0:
            self._cells[place] += char

    def _halve(self, column: int) -> None:
        """Where a wide character is cut in two at this column, blanks remain."""
        if 0 < column < len(self._cells) and not self._cells[column]:
            self._cells[column - 1] = self._cells[column] = " "

    def _move(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\b":
            self._column = max(0, self._column - 1)
        else:
            self._column += _TAB - self._column % _TAB
            self._pad(self._column)

    def _erase(self, part: str) -> None:
        if part in ("", "0"):
            self._halve(self._column)
            del self._cells[self._column :], self._looks[self._column :]
            return
        end = len(self._cells) if part == "2" else min(self._column + 1, len(self._cells))
        self._halve(end)
        self._cells[:end] = [" "] * end
        self._looks[:end] = [NO_STYLE] * end

    def _pad(self, column: int) -> None:
        missing = column - len(self._cells)
        if missing > 0:
            self._cells += [" "] * missing
            self._looks += [NO_STYLE] * missing


def _change(before: Graphic, now: Graphic) -> str:
    """The sequence from one look to another."""
    if before == now:
        return ""
    return now.codes() if before == NO_STYLE else "\x1b[0m" + now.codes()


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    """Columns that a character takes."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
