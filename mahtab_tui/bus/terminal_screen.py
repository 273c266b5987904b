"""Computes how a terminal would show a text that moves the cursor, for screens and models.
Control, bidirectional and tag characters become symbols; zero-width characters stay, except within
anything that looks like a tag."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import groupby
from operator import itemgetter

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
    pen = pen.replace(sequence, "") + sequence
    return pen if pen.count("\x1b") <= _MOST_STYLES else pen[pen.index("\x1b", 1) :]


def read_pen(pen: Pen, text: str) -> Pen:
    return reduce(next_pen, SGR.findall(text), pen) if "\x1b" in text else pen


class ScreenLine:
    """A line that can be overwritten. Columns count from 0."""

    def __init__(self) -> None:
        self._cells: list[tuple[str, Pen]] = []
        """Characters with the combining ones after them; a wide one is followed by an empty cell."""

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, text: str, column: int, look: Pen) -> int:
        """Write text at a column, filling a gap with blanks; returns the column after it."""
        if text.isascii() or all(width(char) == 1 for char in set(text)):
            return self._put([(char, look) for char in text], column)
        for char in text:
            if columns := width(char):
                column = self._put([(char, look), ("", look)][:columns], column)
            elif 0 < column <= len(self._cells):
                index = column - (1 if self._cells[column - 1][0] else 2)
                cell, its_look = self._cells[index]
                self._cells[index] = (cell + char)[:_LONGEST], its_look
        return column

    def erase(self, start: int, end: int | None = None) -> None:
        """Erase columns; `end` is exclusive, or the line's end."""
        self._halve(start)
        if end is None or end >= len(self._cells):
            del self._cells[start:]
        else:
            self._halve(end)
            self._cells[start:end] = [_BLANK] * (end - start)

    def __str__(self) -> str:
        parts, before = list[str](), ""
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
"""Blanks that moves may create, in total and per character."""

MOVES = r"\x1b\[(?:[0-9;]*[A-DGHJ]|[0-2]?K|\?25[hl])"
"""Emulated sequences, and ``?25``, which is ignored."""
_LINE_END = re.compile(r"(?<!\r)\r+\n")

_MOVES = re.compile(MOVES)
_LEAVES_LINE = re.compile(r"\x1b\[[0-9;]*[ABHJ]")
SGR = re.compile(r"\x1b\[[0-9;:]*m")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    rf"|(?P<move>[\r\b\t]|{MOVES})"
    rf"|(?P<sgr>{SGR.pattern})"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b\][^\x1b\x07\n]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f]"
)
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-9;?]*)?)\Z")
LONGEST = 100_000
"""Columns after which an overwritten line is broken."""


def rewrites(text: str) -> bool:
    return _moves(_unix_ends(text))


def _moves(text: str) -> bool:
    return "\r" in text or "\b" in text or ("\x1b" in text and _MOVES.search(text) is not None)


def _unix_ends(text: str) -> str:
    return _LINE_END.sub("\n", text) if "\r" in text else text


def leaves_line(text: str) -> bool:
    return "\x1b" in text and _LEAVES_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    found = _UNFINISHED.search(piece, max(0, len(piece) - 16))
    return (piece, "") if found is None else (piece[: found.start()], found[0])


def collapse(text: str) -> str:
    """Return the lines as a terminal finally shows them, with their colours."""
    if not rewrites(text):
        return _unix_ends(text)
    screen = Screen()
    screen.feed(text)
    return screen.pop_above() + screen.text()


class Screen:
    """The lines of a growing text, with a cursor in one of the last `HEIGHT` lines. Feeding takes
    linear time."""

    def __init__(
        self,
        rows: Sequence[str] = ("",),
        *,
        above: int = 0,
        column: int | None = None,
        pen: Pen = "",
    ) -> None:
        """above: lines from the cursor to the last one. column: None for the end of its line."""
        self._rows: list[str | ScreenLine] = list(rows)
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        self._blanks = BLANKS

    @property
    def above(self) -> int:
        return len(self._rows) - 1 - self._row

    @property
    def at_end(self) -> bool:
        return self.above == 0 and self.column in (None, len(self._rows[-1]))

    def rows(self) -> list[str]:
        while self.above and not plain(str(self._rows[-1])).strip():
            del self._rows[-1]
        return list(map(str, self._rows))

    def pop_above(self) -> str:
        left = "".join(_closed(str(row)) + "\n" for row in self._rows[: self._top])
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return left

    def text(self) -> str:
        return "\n".join(map(_closed, self.rows())) + self.pen

    def feed(self, text: str) -> None:
        """Add text, which must not end within a sequence."""
        self._blanks += BLANKS_EACH * len(text)
        for number, line in enumerate(_unix_ends(text).split("\n")):
            if number:
                self._feed_line()
            if not line:
                continue
            if len(self._rows[self._row]) > LONGEST:
                self._feed_line()
            row = self._rows[self._row]
            inside = self.column is not None and (self.column or row)
            if _moves(line) or inside or isinstance(row, ScreenLine):
                self._process_line(_visible_passes(line))
            else:
                self._rows[self._row], self.column = (row or self.pen) + line, None
                self.pen = read_pen(self.pen, line)

    def _feed_line(self) -> None:
        self._row += 1
        self.column = 0
        if self._row == len(self._rows):
            self._rows.append("")
        if self._row == self._top + HEIGHT:
            self._rows[self._top] = str(self._rows[self._top])
            self._top += 1

    def _process_line(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            found = token[0]
            match token.lastgroup:
                case "text":
                    line, column = self._current_line()
                    if (missing := column - len(line)) > 0:
                        column = column if missing <= self._blanks else len(line)
                        self._blanks -= column - len(line)
                    self.column = line.write(found, column, self.pen)
                case "sgr":
                    self.pen = next_pen(self.pen, found)
                case "move":
                    self._move(found[-1], found[2:-1])

    def _current_line(self) -> tuple[ScreenLine, int]:
        number, column, cells = self._row, self.column, self._rows[self._row]
        if isinstance(cells, str):
            pen, self.pen, self.column = self.pen, "", 0
            self._rows[number] = made = ScreenLine()
            self._process_line(cells)
            self.pen, self._row = pen, number
            if column is not None:
                self.column = column
            cells = made
        return cells, self.column or 0

    def _move(self, letter: str, numbers: str) -> None:
        if letter == "\r":
            self.column = 0
        if letter in "\rhl":
            return
        line, column = self._current_line()
        first, second, *_ = (max(1, int(each[:4] or 1)) for each in f"{numbers};".split(";"))
        match letter:
            case "\t":
                self.column = column + 8 - column % 8
            case "A":
                self._row = max(self._top, self._row - first)
            case "B":
                self._go_to(self._row - self._top + first)
            case "C":
                self.column = max(column, min(column + first, WIDTH))
            case "\b" | "D":
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
                    self._rows[self._top : self._row] = [""] * (self._row - self._top)
                if numbers in ("", "0", "2"):
                    del self._rows[self._row + 1 :]
                if numbers != "3":  # the lines above the screen
                    self._erase_in_line(line, column, numbers)

    def _go_to(self, row: int) -> None:
        self._row = self._top + min(row, HEIGHT - 1)
        self._rows += [""] * (self._row + 1 - len(self._rows))

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
    passes = line.split("\r")
    if len(passes) < 16 or any(not c.isprintable() or width(c) != 1 for c in {*line} - {"\r"}):
        return line
    seen: list[str] = []
    for written in reversed(passes):
        if not seen or len(written) > len(seen[-1]):
            seen.append(written)
    return "\r".join(reversed(seen))


def _closed(line: str) -> str:
    return line + style_change(read_pen("", line), "")


_CONTROL = rf"{CONTROL}{SURROGATE}\U000e0000-\U000e0fff"
"""With tag characters and variation selectors."""
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
UNSEEN = _CONTROL + _UNSEEN
"""Characters that a model may read over."""
_SHOWN = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
_PLAYED = re.compile(rf"({MOVES}|\x1b\[[0-9;:]*m)|(?![\r\b])[{_CONTROL}]")

OVERWRITTEN = "[Text that was written over in its line is left out.]"


def escape_for_model(text: str) -> str:
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # same result as the patterns, but twenty times as fast
    text = _SHOWN.sub(_visible, _unix_ends(text))
    return _TAG.sub(_visible, text) if _ANY_UNSEEN.search(text) else text


def escape_output(text: str, *, rewritten: bool = False) -> str:
    """Return output for a model: overwritten lines in their final form, with a note. rewritten:
    whether they are already."""
    played = _PLAYED.sub(lambda found: found[1] or visible(found[0]), _unix_ends(text))
    collapsed = collapse(played)
    if not rewritten and collapsed == played:
        return escape_for_model(collapsed)
    seen = collapsed.rstrip()
    return escape_for_model(f"{seen}\n{OVERWRITTEN}\n" if seen else f"{OVERWRITTEN}\n")


def _visible(found: re.Match[str]) -> str:
    return visible(found[0])
