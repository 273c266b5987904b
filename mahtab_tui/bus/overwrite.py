"""What a terminal would show of a text that moves the cursor, as progress bars do.

    \\r  \\b                       to the beginning of the line, one to the left
    ESC [ n A B C D              up, down, right, left
    ESC [ n E F G `  d  H f      to a line, a column, both
    ESC [ J K                    erases of the screen, of the line
    ESC 7 8,  ESC [ s u          keeps a place, and goes back to it

The screen is the last `HEIGHT` lines of a text: the cursor comes no further up. Lines are not wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.screen_line import Line, change, width
from mahtab_tui.bus.sgr import NO_STYLE, Graphic, after

HEIGHT = 100
"""Lines of the screen. Programs keep to the height that they are told, which is that of a pane."""
WIDTH = 1_000
"""Columns: the cursor is moved no further to the right. What is written may go on."""
BLANKS, BLANKS_EACH = 1_000_000, 4
"""Blanks that moving to the right may make in all, and for each character that is fed: a small text must not become gigabytes."""

MOVES = r"\x1b(?:\[(?:[0-9;]*[A-HJfdsu`]|[0-2]?K|\?25[hl])|[78])"
"""Sequences that are followed. ``?25``, which hides the cursor or shows it, comes to nothing."""
LINE_END = re.compile(r"(?<!\r)\r+\n")

_MOVES = re.compile(MOVES)
_LEAVES_LINE = re.compile(r"\x1b(?:\[[0-9;]*[ABEFHJfdsu]|[78])")
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\r\b\t])"
    rf"|(?P<move>{MOVES})"
    r"|\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]?|\x1b\][^\x1b\x07\n]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f])"
)
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-9;?]*)?)\Z")
_BEGINNING = 16
"""Characters of the beginning of a sequence."""
LONGEST = 100_000
"""Columns after which a line that is written over is broken, as a terminal breaks it much earlier."""
_TAB = 8


def rewrites(text: str) -> bool:
    """Whether a terminal would show it otherwise than as it stands."""
    return _moves(LINE_END.sub("\n", text) if "\r" in text else text)


def leaves_line(text: str) -> bool:
    """Whether it may move the cursor to another line."""
    return "\x1b" in text and _LEAVES_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    """A piece of a text without what may be the beginning of a sequence, or of a line's end, at its end; and that."""
    found = _UNFINISHED.search(piece, max(0, len(piece) - _BEGINNING))
    return (piece, "") if found is None else (piece[: found.start()], found[0])


def collapse(text: str) -> str:
    """The lines as they stand at the end. Colours and styles stay; a line that was not written over stays as it is."""
    if not rewrites(text):
        return LINE_END.sub("\n", text) if "\r" in text else text
    screen = Screen()
    screen.feed(text)
    return screen.take_above() + screen.text()


def _moves(line: str) -> bool:
    return "\r" in line or "\b" in line or ("\x1b" in line and _MOVES.search(line) is not None)


class Row(NamedTuple):
    """A line that was written once."""

    text: str
    start: Graphic
    """How what is written looks at its beginning, and at its end."""
    end: Graphic


_EMPTY = Row("", NO_STYLE, NO_STYLE)


class Screen:
    """A text as it grows: lines, and a cursor in one of the last `HEIGHT`. What it is fed takes linear time."""

    def __init__(self, rows: Sequence[Row] = (_EMPTY,), *, above: int = 0, column: int | None = None, pen: Graphic = NO_STYLE) -> None:
        """rows: what was there before. above: lines from the cursor's to the last one. column: the cursor's; None at the end of its line."""
        self._rows: list[Row | Line] = list(rows)
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        """How what is written looks."""
        self._kept = (0, 0, NO_STYLE)
        self._look = NO_STYLE
        """How the text looks behind the line that was told last."""
        self._blanks = BLANKS

    @property
    def above(self) -> int:
        """Lines from the cursor's to the last one."""
        return len(self._rows) - 1 - self._row

    @property
    def goes_on(self) -> bool:
        """Whether what comes next stands behind all that there is."""
        row = self._rows[-1]
        return self.above == 0 and (self.column is None or self.column == len(row if isinstance(row, Line) else row.text))

    def rows(self) -> list[Row]:
        """All lines. Empty ones below the cursor are no part of the text."""
        while len(self._rows) - 1 > self._row and _is_empty(self._rows[-1]):
            del self._rows[-1]
        return [_settled(row) for row in self._rows]

    def take_above(self) -> str:
        """The text of the lines that have left the screen, which are let go."""
        left = [self._joined(_settled(row)) + "\n" for row in self._rows[: self._top]]
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return "".join(left)

    def text(self) -> str:
        """The text of the lines behind those that were taken; what is written behind it goes on in the looks that it has."""
        return "\n".join(map(self._joined, self.rows())) + change(self._look, self.pen)

    def _joined(self, row: Row) -> str:
        before, self._look = self._look, row.end
        return change(before, row.start) + row.text

    def feed(self, text: str) -> None:
        """More of the text has come. It does not end within a sequence."""
        self._blanks += BLANKS_EACH * len(text)
        for number, line in enumerate(LINE_END.sub("\n", text).split("\n")):
            if number:
                self._feed_line()
            if not line:
                continue
            row = self._rows[self._row]
            if isinstance(row, Row) and len(row.text) > LONGEST:  # much else would be copied with each piece
                self._feed_line()
                row = self._rows[self._row]
            if _moves(line) or isinstance(row, Line) or (self.column is not None and (self.column or row.text)):
                self._play(_seen_passes(line))
            else:
                start, self.column = row.start if row.text else self.pen, None
                for code in _SGR.finditer(line) if "\x1b" in line else ():
                    self.pen = after(self.pen, code[1])
                self._rows[self._row] = Row(row.text + line, start, self.pen)

    def _feed_line(self) -> None:
        self._row += 1
        self.column = 0
        if self._row == len(self._rows):
            self._rows.append(_EMPTY)
        if self._row == self._top + HEIGHT:
            self._rows[self._top] = _settled(self._rows[self._top])
            self._top += 1

    def _play(self, line: str) -> None:
        for token in _TOKEN.finditer(line):
            found = token[0]
            match token.lastgroup:
                case "text":
                    self._write(found)
                case "sgr":
                    self.pen = after(self.pen, token["sgr"])
                case "control":
                    self._control(found)
                case "move":
                    self._move(found)
                case _:
                    held, column = self._here()
                    held.mark(found, column)

    def _here(self) -> tuple[Line, int]:
        """The cursor's line, to be written over, and its column."""
        number, column = self._row, self.column
        held = self._rows[number]
        if isinstance(held, Row):
            pen, self.pen = self.pen, held.start
            self._rows[number] = made = Line()
            self.column = 0
            self._play(held.text)
            self.pen, self._row = pen, number
            if column is not None:
                self.column = column
            held = made
        return held, self.column or 0

    def _write(self, text: str) -> None:
        line, column = self._here()
        if len(line) > LONGEST:
            self._feed_line()
            line, column = self._here()
        if (missing := column - len(line)) > 0:
            column = column if missing <= self._blanks else len(line)
            self._blanks -= column - len(line)
        self.column = line.write(text, column, self.pen)

    def _control(self, control: str) -> None:
        if control == "\r":
            self.column = 0
            return
        _, column = self._here()
        self.column = max(0, column - 1) if control == "\b" else column + _TAB - column % _TAB

    def _move(self, sequence: str) -> None:
        letter, numbers = sequence[-1], sequence[2:-1]
        if numbers.startswith("?"):
            return
        line, column = self._here()
        first, second = _numbers(numbers)
        match letter:
            case "A" | "F":
                self._row = max(self._top, self._row - first)
            case "B" | "E":
                self._go_to(self._row - self._top + first)
            case "C":
                self.column = max(column, min(column + first, WIDTH))
            case "D":
                self.column = max(0, column - first)
            case "G" | "`":
                self.column = min(first - 1, WIDTH)
            case "d":
                self._go_to(first - 1)
            case "H" | "f":
                self._go_to(first - 1)
                self.column = min(second - 1, WIDTH)
            case "K":
                if numbers == "1":
                    self._erase_before(line, column)
                else:
                    line.erase(column if numbers in ("", "0") else 0)
            case "J":
                self._erase(line, column, numbers)
            case "s" | "7":
                self._kept = self._row - self._top, column, self.pen
            case _:
                row, self.column, self.pen = self._kept
                self._go_to(row)
        if letter in "EF":
            self.column = 0

    def _go_to(self, row: int) -> None:
        """To a line of the screen, from 0. Below the last one, there are empty ones."""
        self._row = self._top + min(row, HEIGHT - 1)
        self._rows += [_EMPTY] * (self._row + 1 - len(self._rows))

    def _erase(self, line: Line, column: int, part: str) -> None:
        """A part of the screen: what is behind the cursor, before it (1), all (2). What has left the screen stays (3)."""
        if part in ("1", "2"):
            self._rows[self._top : self._row] = [_EMPTY] * (self._row - self._top)
            if part == "1":
                self._erase_before(line, column)
            else:
                line.erase(0)
        elif part in ("", "0"):
            line.erase(column)
        if part in ("", "0", "2"):
            del self._rows[self._row + 1 :]

    def _erase_before(self, line: Line, column: int) -> None:
        """Up to the cursor, itself too. The cells that are blank then are counted, as those are that a move to the right makes."""
        if column < self._blanks:
            self._blanks -= column + 1
            line.erase(0, column + 1)


def _seen_passes(line: str) -> str:
    """Of a line that was written over and over, only the passes of which something may still be seen: each longer than all after it."""
    if line.count("\r") < 16 or not line.replace("\r", "").isprintable() or not all(width(char) == 1 for char in set(line)):
        return line
    seen: list[str] = []
    longest = -1
    for written in reversed(line.split("\r")):
        if len(written) > longest:
            seen.append(written)
            longest = len(written)
    return "\r".join(reversed(seen))


def _settled(row: Row | Line) -> Row:
    return Row(row.shown(), NO_STYLE, NO_STYLE) if isinstance(row, Line) else row


def _is_empty(row: Row | Line) -> bool:
    return not plain(_settled(row).text).strip()


def _numbers(text: str) -> tuple[int, int]:
    """The first two numbers of a sequence; 1 where there is none, or 0."""
    first, _, rest = text.partition(";")
    second, _, _ = rest.partition(";")
    return tuple(max(1, int(number[:4])) if number.isdigit() else 1 for number in (first, second))  # type: ignore[return-value]
