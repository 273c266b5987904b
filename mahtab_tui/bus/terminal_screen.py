"""Computes how a terminal would show a text that moves the cursor, for screens and models. The
screen consists of the last `HEIGHT` lines, above which the cursor cannot move; lines are not
wrapped. Control, bidirectional and tag characters become symbols; zero-width characters stay,
except within anything that looks like a tag."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from mahtab_tui.bus.sanitize import CONTROL, SURROGATE, plain, visible

Pen = str
"""The colour and style sequences in effect."""
_MOST_STYLES, _LONGEST = 16, 200


@lru_cache(maxsize=4096)
def next_pen(pen: Pen, sequence: str) -> Pen:
    if len(sequence) > _LONGEST:
        return pen
    parameters = sequence[2:-1].lstrip("0")
    if not parameters.strip("0;"):
        return ""
    if parameters.startswith(";"):
        return sequence
    pen = pen.replace(sequence, "") + sequence
    return pen if pen.count("\x1b") <= _MOST_STYLES else pen[pen.index("\x1b", 1) :]


def read_pen(pen: Pen, text: str) -> Pen:
    return reduce(next_pen, SGR.findall(text), pen) if "\x1b" in text else pen


class ScreenLine:
    """A line that can be overwritten. Columns count from 0."""

    __slots__ = ("_cells", "_start")

    def __init__(self) -> None:
        self._cells: list[tuple[str, Pen]] = []
        """Characters with the zero-width text after them; a wide character is followed by an empty
        cell."""
        self._start = ""

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, text: str, column: int, look: Pen) -> int:
        """Write text at a column, filling a gap with blanks; returns the column after it."""
        if text.isascii() or all(width(char) == 1 for char in set(text)):
            return self._put([(char, look) for char in text], column)
        for char in text:
            columns = width(char)
            if columns == 0:
                self.mark(char, column)
            else:
                column = self._put([(char, look), ("", look)][:columns], column)
        return column

    def mark(self, text: str, column: int) -> None:
        index = min(column, len(self._cells)) - 1
        while index > 0 and not self._cells[index][0]:
            index -= 1
        cell, look = self._cells[index] if index >= 0 else (self._start, "")
        if len(cell) > _LONGEST:
            return
        if index < 0:
            self._start = cell + text
        else:
            self._cells[index] = cell + text, look

    def erase(self, start: int, end: int | None = None) -> None:
        """Erase columns; `end` is exclusive, or the line's end."""
        self._halve(start)
        if end is None or end >= len(self._cells):
            del self._cells[start:]
        else:
            self._halve(end)
            self._cells[start:end] = [_BLANK] * (end - start)

    def render(self) -> str:
        parts, before = [self._start], ""
        for look, cells in groupby(self._cells, itemgetter(1)):
            parts.append(style_change(before, look))
            parts += (cell for cell, _ in cells)
            before = look
        return "".join([*parts, style_change(before, "")])

    def _put(self, cells: list[tuple[str, Pen]], column: int) -> int:
        end = column + len(cells)
        self._cells += [_BLANK] * (column - len(self._cells))
        self._halve(column)
        self._halve(end)
        self._cells[column:end] = cells
        return end

    def _halve(self, column: int) -> None:
        if 0 < column < len(self._cells) and not self._cells[column][0]:
            self._cells[column - 1 : column + 1] = [_BLANK] * 2


_BLANK = (" ", "")


def style_change(before: Pen, now: Pen) -> str:
    if before == now:
        return ""
    return f"\x1b[0m{now}" if before else now


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


HEIGHT = 100
"""Programs see the height of a pane, which is less."""
WIDTH = 1_000
"""Clamp for cursor moves, not for printing."""
BLANKS, BLANKS_EACH = 1_000_000, 4
"""Blanks that moving right may create, in total and per character of input."""

MOVES = r"\x1b\[(?:[0-9;]*[A-HJ]|[0-2]?K|\?25[hl])"
"""Emulated sequences, and ``?25``, which is ignored."""
LINE_END = re.compile(r"(?<!\r)\r+\n")

_MOVES = re.compile(MOVES)
_LEAVES_LINE = re.compile(r"\x1b\[[0-9;]*[ABEFHJ]")
SGR = re.compile(r"\x1b\[[0-9;:]*m")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\r\b\t])"
    rf"|(?P<move>{MOVES})"
    rf"|(?P<sgr>{SGR.pattern})"
    r"|(?P<other>\x1b\[[0-?]*[ -/]*[@-~]?|\x1b\][^\x1b\x07\n]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f])"
)
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-9;?]*)?)\Z")
_BEGINNING = 16
LONGEST = 100_000
"""Columns after which an overwritten line is broken."""
_TAB = 8


def rewrites(text: str) -> bool:
    return _moves(LINE_END.sub("\n", text) if "\r" in text else text)


def leaves_line(text: str) -> bool:
    return "\x1b" in text and _LEAVES_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    found = _UNFINISHED.search(piece, max(0, len(piece) - _BEGINNING))
    return (piece, "") if found is None else (piece[: found.start()], found[0])


def collapse(text: str) -> str:
    """Return the lines as a terminal finally shows them, with their colours."""
    if not rewrites(text):
        return LINE_END.sub("\n", text) if "\r" in text else text
    screen = Screen()
    screen.feed(text)
    return screen.pop_above() + screen.text()


def _moves(line: str) -> bool:
    return "\r" in line or "\b" in line or ("\x1b" in line and _MOVES.search(line) is not None)


class PrintedLine(NamedTuple):
    """A line that was not overwritten."""

    text: str
    start: Pen
    end: Pen


_EMPTY = PrintedLine("", "", "")


class Screen:
    """The lines of a growing text, with a cursor in one of the last `HEIGHT` lines. Feeding takes
    linear time."""

    def __init__(
        self,
        rows: Sequence[PrintedLine] = (_EMPTY,),
        *,
        above: int = 0,
        column: int | None = None,
        pen: Pen = "",
    ) -> None:
        """above: number of lines from the cursor to the last one. column: None for the end of its
        line."""
        self._rows: list[PrintedLine | ScreenLine] = list(rows)
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        self._look = ""
        self._blanks = BLANKS

    @property
    def above(self) -> int:
        return len(self._rows) - 1 - self._row

    @property
    def at_end(self) -> bool:
        row = self._rows[-1]
        return self.above == 0 and (
            self.column is None
            or self.column == len(row if isinstance(row, ScreenLine) else row.text)
        )

    def rows(self) -> list[PrintedLine]:
        while self.above and not plain(_settled(self._rows[-1]).text).strip():
            del self._rows[-1]
        return [_settled(row) for row in self._rows]

    def pop_above(self) -> str:
        left = [self._joined(_settled(row)) + "\n" for row in self._rows[: self._top]]
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return "".join(left)

    def text(self) -> str:
        return "\n".join(map(self._joined, self.rows())) + style_change(self._look, self.pen)

    def _joined(self, row: PrintedLine) -> str:
        before, self._look = self._look, row.end
        return style_change(before, row.start) + row.text

    def feed(self, text: str) -> None:
        """Add text, which must not end within a sequence."""
        self._blanks += BLANKS_EACH * len(text)
        for number, line in enumerate(LINE_END.sub("\n", text).split("\n")):
            if number:
                self._feed_line()
            if not line:
                continue
            row = self._rows[self._row]
            # Appending to it would copy it each time.
            if isinstance(row, PrintedLine) and len(row.text) > LONGEST:
                self._feed_line()
                row = self._rows[self._row]
            if (
                _moves(line)
                or isinstance(row, ScreenLine)
                or (self.column is not None and (self.column or row.text))
            ):
                self._process_line(_visible_passes(line))
            else:
                start, self.column = row.start if row.text else self.pen, None
                self.pen = read_pen(self.pen, line)
                self._rows[self._row] = PrintedLine(row.text + line, start, self.pen)

    def _feed_line(self) -> None:
        self._row += 1
        self.column = 0
        if self._row == len(self._rows):
            self._rows.append(_EMPTY)
        if self._row == self._top + HEIGHT:
            self._rows[self._top] = _settled(self._rows[self._top])
            self._top += 1

    def _process_line(self, line: str) -> None:
        for token in _TOKEN.finditer(line):
            found = token[0]
            match token.lastgroup:
                case "text":
                    self._write(found)
                case "sgr":
                    self.pen = next_pen(self.pen, found)
                case "control":
                    self._control(found)
                case "move":
                    self._move(found)
                case _:
                    cells, column = self._current_line()
                    cells.mark(found, column)

    def _current_line(self) -> tuple[ScreenLine, int]:
        number, column = self._row, self.column
        cells = self._rows[number]
        if isinstance(cells, PrintedLine):
            pen, self.pen = self.pen, cells.start
            self._rows[number] = made = ScreenLine()
            self.column = 0
            self._process_line(cells.text)
            self.pen, self._row = pen, number
            if column is not None:
                self.column = column
            cells = made
        return cells, self.column or 0

    def _write(self, text: str) -> None:
        line, column = self._current_line()
        if len(line) > LONGEST:
            self._feed_line()
            line, column = self._current_line()
        if (missing := column - len(line)) > 0:
            column = column if missing <= self._blanks else len(line)
            self._blanks -= column - len(line)
        self.column = line.write(text, column, self.pen)

    def _control(self, control: str) -> None:
        if control == "\r":
            self.column = 0
            return
        _, column = self._current_line()
        self.column = max(0, column - 1) if control == "\b" else column + _TAB - column % _TAB

    def _move(self, sequence: str) -> None:
        letter, numbers = sequence[-1], sequence[2:-1]
        if numbers.startswith("?"):
            return
        line, column = self._current_line()
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
            case "G":
                self.column = min(first - 1, WIDTH)
            case "H":
                self._go_to(first - 1)
                self.column = min(second - 1, WIDTH)
            case "K":
                self._erase_in_line(line, column, numbers)
            case "J":
                if numbers in ("1", "2"):
                    self._rows[self._top : self._row] = [_EMPTY] * (self._row - self._top)
                if numbers in ("", "0", "2"):
                    del self._rows[self._row + 1 :]
                if numbers != "3":  # the lines above the screen
                    self._erase_in_line(line, column, numbers)
        if letter in "EF":
            self.column = 0

    def _go_to(self, row: int) -> None:
        self._row = self._top + min(row, HEIGHT - 1)
        self._rows += [_EMPTY] * (self._row + 1 - len(self._rows))

    def _erase_in_line(self, line: ScreenLine, column: int, part: str) -> None:
        """Erase after the cursor (0), up to it (1), or all (2)."""
        if part in ("", "0"):
            line.erase(column)
        elif part == "2":
            line.erase(0)
        elif part == "1" and column < self._blanks:
            self._blanks -= column + 1
            line.erase(0, column + 1)


def _visible_passes(line: str) -> str:
    """Keep only the passes over a line that are longer than all later ones."""
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
    return PrintedLine(row.render(), "", "") if isinstance(row, ScreenLine) else row


def _numbers(text: str) -> tuple[int, int]:
    first, second, *_ = (
        max(1, int(number[:4])) if number.isdigit() else 1 for number in f"{text};".split(";")
    )
    return first, second


_CONTROL = rf"{CONTROL}{SURROGATE}\U000e0000-\U000e0fff"
"""With tag characters and variation selectors, which can encode a whole text."""
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
UNSEEN = _CONTROL + _UNSEEN
"""Characters that a model may read over, for a set of a pattern."""
_SHOWN = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
_PLAYED = re.compile(rf"({MOVES}|\x1b\[[0-9;:]*m)|(?![\r\b])[{_CONTROL}]")

OVERWRITTEN = "[Text that was written over in its line is left out.]"


def escape_for_model(text: str) -> str:
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # same result as the patterns, but twenty times as fast
    text = _SHOWN.sub(_visible, LINE_END.sub("\n", text))
    return _TAG.sub(_visible, text) if _ANY_UNSEEN.search(text) else text


def escape_output(text: str, *, rewritten: bool = False) -> str:
    """Return output for a model: overwritten lines in their final form, with a note. rewritten:
    whether they are already."""
    text = LINE_END.sub("\n", text)
    played = _PLAYED.sub(lambda found: found[1] or visible(found[0]), text)
    collapsed = collapse(played)
    if not rewritten and collapsed == played:
        return escape_for_model(collapsed)
    seen = collapsed.rstrip()
    return escape_for_model(f"{seen}\n{OVERWRITTEN}\n" if seen else f"{OVERWRITTEN}\n")


def _visible(found: re.Match[str]) -> str:
    return visible(found[0])
