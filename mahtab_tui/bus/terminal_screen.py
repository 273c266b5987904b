"""Computes what a terminal would show of a text that moves the cursor, as progress bars do.

    \\r  \\b                       to the beginning of the line, one to the left
    ESC [ n A B C D              up, down, right, left
    ESC [ n E F G `  d  H f      to a line, a column, both
    ESC [ J K                    erases of the screen, of the line
    ESC 7 8,  ESC [ s u          saves the cursor, and restores it

The screen is the last `HEIGHT` lines of a text: the cursor cannot move further up. Lines are not
wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.screen_line import ScreenLine, change, width
from mahtab_tui.bus.sgr import NO_STYLE, Graphic, after

HEIGHT = 100
"""Lines of the screen. Programs are told the height of a pane, which is less."""
WIDTH = 1_000
"""The cursor cannot be moved beyond this column. Written text may go on."""
BLANKS, BLANKS_EACH = 1_000_000, 4
"""Blanks that moving right may create, in all and for each character fed: a small text must not
become gigabytes."""

MOVES = r"\x1b(?:\[(?:[0-9;]*[A-HJfdsu`]|[0-2]?K|\?25[hl])|[78])"
"""Sequences that are obeyed. ``?25``, which hides or shows the cursor, is ignored."""
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
"""Longest start of a sequence that is held back, in characters."""
LONGEST = 100_000
"""Columns after which an overwritten line is broken; a terminal breaks it much earlier."""
_TAB = 8


def rewrites(text: str) -> bool:
    """Return whether a terminal would show the text differently than it reads."""
    return _moves(LINE_END.sub("\n", text) if "\r" in text else text)


def leaves_line(text: str) -> bool:
    """Return whether the text may move the cursor to another line."""
    return "\x1b" in text and _LEAVES_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    """Split a piece of text before an unfinished sequence or line end at its end."""
    found = _UNFINISHED.search(piece, max(0, len(piece) - _BEGINNING))
    return (piece, "") if found is None else (piece[: found.start()], found[0])


def collapse(text: str) -> str:
    """Return the lines as a terminal shows them in the end. Colours and styles stay; lines that
    were not overwritten are unchanged."""
    if not rewrites(text):
        return LINE_END.sub("\n", text) if "\r" in text else text
    screen = Screen()
    screen.feed(text)
    return screen.take_above() + screen.text()


def _moves(line: str) -> bool:
    return "\r" in line or "\b" in line or ("\x1b" in line and _MOVES.search(line) is not None)


class PrintedLine(NamedTuple):
    """A line that was not overwritten."""

    text: str
    start: Graphic
    """The style in effect at the start of the line."""
    end: Graphic
    """The style in effect at its end."""


_EMPTY = PrintedLine("", NO_STYLE, NO_STYLE)


class Screen:
    """The lines of a growing text, with a cursor in one of the last `HEIGHT`. Feeding takes linear
    time."""

    def __init__(
        self,
        rows: Sequence[PrintedLine] = (_EMPTY,),
        *,
        above: int = 0,
        column: int | None = None,
        pen: Graphic = NO_STYLE,
    ) -> None:
        """rows: the lines so far. above: lines from the cursor to the last one. column: of the
        cursor; None at the end of its line."""
        self._rows: list[PrintedLine | ScreenLine] = list(rows)
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        """The style of what is written next."""
        self._kept = (0, 0, NO_STYLE)
        self._look = NO_STYLE
        """The style at the end of the line that was returned last."""
        self._blanks = BLANKS

    @property
    def above(self) -> int:
        """Lines from the cursor to the last one."""
        return len(self._rows) - 1 - self._row

    @property
    def goes_on(self) -> bool:
        """Whether the cursor is at the end of the text."""
        row = self._rows[-1]
        return self.above == 0 and (
            self.column is None
            or self.column == len(row if isinstance(row, ScreenLine) else row.text)
        )

    def rows(self) -> list[PrintedLine]:
        """Return all lines, without the empty ones below the cursor."""
        while len(self._rows) - 1 > self._row and not plain(_settled(self._rows[-1]).text).strip():
            del self._rows[-1]
        return [_settled(row) for row in self._rows]

    def take_above(self) -> str:
        """Remove the lines above the screen and return their text."""
        left = [self._joined(_settled(row)) + "\n" for row in self._rows[: self._top]]
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return "".join(left)

    def text(self) -> str:
        """Return the text of the lines that were not taken, and a sequence that ends in the style
        in effect now."""
        return "\n".join(map(self._joined, self.rows())) + change(self._look, self.pen)

    def _joined(self, row: PrintedLine) -> str:
        before, self._look = self._look, row.end
        return change(before, row.start) + row.text

    def feed(self, text: str) -> None:
        """Add text, which must not end within a sequence."""
        self._blanks += BLANKS_EACH * len(text)
        for number, line in enumerate(LINE_END.sub("\n", text).split("\n")):
            if number:
                self._feed_line()
            if not line:
                continue
            row = self._rows[self._row]
            if (
                isinstance(row, PrintedLine) and len(row.text) > LONGEST
            ):  # appending to it would copy it each time
                self._feed_line()
                row = self._rows[self._row]
            if (
                _moves(line)
                or isinstance(row, ScreenLine)
                or (self.column is not None and (self.column or row.text))
            ):
                self._play(_seen_passes(line))
            else:
                start, self.column = row.start if row.text else self.pen, None
                for code in _SGR.finditer(line) if "\x1b" in line else ():
                    self.pen = after(self.pen, code[1])
                self._rows[self._row] = PrintedLine(row.text + line, start, self.pen)

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

    def _here(self) -> tuple[ScreenLine, int]:
        """Return the cursor's line, ready to be overwritten, and the cursor's column."""
        number, column = self._row, self.column
        held = self._rows[number]
        if isinstance(held, PrintedLine):
            pen, self.pen = self.pen, held.start
            self._rows[number] = made = ScreenLine()
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
        """Move the cursor to a line of the screen, from 0; add empty lines if it is below the last
        one."""
        self._row = self._top + min(row, HEIGHT - 1)
        self._rows += [_EMPTY] * (self._row + 1 - len(self._rows))

    def _erase(self, line: ScreenLine, column: int, part: str) -> None:
        """Erase a part of the screen: after the cursor, before it (1), or all (2). Lines above the
        screen stay (3)."""
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

    def _erase_before(self, line: ScreenLine, column: int) -> None:
        """Erase up to the cursor, inclusive. The new blanks count, as those that moving right
        creates."""
        if column < self._blanks:
            self._blanks -= column + 1
            line.erase(0, column + 1)


def _seen_passes(line: str) -> str:
    """Keep only the passes of an overwritten line that may still be visible: those longer than all
    after them."""
    if (
        line.count("\r") < 16
        or not line.replace("\r", "").isprintable()
        or not all(width(char) == 1 for char in set(line))
    ):
        return line
    seen: list[str] = []
    longest = -1
    for written in reversed(line.split("\r")):
        if len(written) > longest:
            seen.append(written)
            longest = len(written)
    return "\r".join(reversed(seen))


def _settled(row: PrintedLine | ScreenLine) -> PrintedLine:
    return PrintedLine(row.shown(), NO_STYLE, NO_STYLE) if isinstance(row, ScreenLine) else row


def _numbers(text: str) -> tuple[int, int]:
    """Return the first two numbers of a sequence; 1 in place of a missing number or 0."""
    first, _, rest = text.partition(";")
    second, _, _ = rest.partition(";")
    return tuple(max(1, int(number[:4])) if number.isdigit() else 1 for number in (first, second))  # type: ignore[return-value]
