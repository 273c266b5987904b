r"""Computes how a terminal would show a text that moves the cursor, for screens and models.

    \r  \b                       moves to the start of the line, one to the left
    ESC [ n A B C D              moves up, down, right, left
    ESC [ n E F G `  d  H f      moves to a line, a column, both
    ESC [ J K                    erases parts of the screen, of the line
    ESC 7 8,  ESC [ s u          saves and restores the cursor

The screen consists of the last `HEIGHT` lines of a text, above which the cursor cannot move. Lines
are not wrapped.

Control, bidirectional and tag characters become symbols (``␛``, ``⟨U+202E⟩``). Other invisible
characters (zero-width characters, soft hyphens) are used by many languages and stay, except within
anything that looks like a tag, where they could form the end of a record that only the model
sees."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.bus.sanitize import CONTROL, SURROGATE, plain, visible

if TYPE_CHECKING:
    from rich.style import Style

Colour = int | tuple[int, int, int] | None
"""One of 256 colours, or red, green and blue."""


class Graphic(NamedTuple):
    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False

    def codes(self) -> str:
        """Return the sequence that changes `NO_STYLE` to this style."""
        numbers = [str(code) for code, name in _SWITCHES.items() if getattr(self, name)]
        numbers += _colour_codes(self.foreground, 30) + _colour_codes(self.background, 40)
        return f"\x1b[{';'.join(numbers)}m" if numbers else ""


NO_STYLE = Graphic()
_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_DOUBLE_UNDERLINE = 21
_LONGEST = 200
"""Longer sequences, and more zero-width text in a cell, are noise."""


@lru_cache(maxsize=4096)
def apply_sgr(graphic: Graphic, parameters: str) -> Graphic:
    """Apply the text between ``ESC [`` and ``m``. Unknown codes are ignored."""
    if len(parameters) > _LONGEST:
        return graphic
    codes = [[int(part or 0) for part in group.split(":")] for group in parameters.split(";")]
    offset = 0
    while offset < len(codes):
        code, *more = codes[offset]
        offset += 1
        if code in (38, 48):
            if not more:
                more = [group[0] for group in codes[offset : offset + 4]]
                # Skip the codes that belong to it.
                offset += {5: 2, 2: 4}.get(more[0], 1) if more else 0
            elif len(more) > 4:  # 38:2:SPACE:R:G:B; the colour space is ignored
                more = [more[0], *more[2:5]]
            name = "foreground" if code == 38 else "background"
            graphic = _with(graphic, name, _extended(more, getattr(graphic, name)))
        elif code == 4 and more:
            graphic = graphic._replace(underline=more[0] != 0)
        else:
            graphic = _simple(graphic, code)
    return graphic


def _with(graphic: Graphic, name: str, value: Colour | bool) -> Graphic:
    fields: dict[str, Any] = {name: value}
    return graphic._replace(**fields)


def _simple(graphic: Graphic, code: int) -> Graphic:
    if code == 0:
        return NO_STYLE
    if code in _SWITCHES:
        return _with(graphic, _SWITCHES[code], True)
    if code in _OFF:
        return graphic._replace(**dict.fromkeys(_OFF[code], False))
    if code == _DOUBLE_UNDERLINE:
        return graphic._replace(underline=True)
    for name, base in (("foreground", 30), ("background", 40)):
        if base <= code < base + 8:
            return _with(graphic, name, code - base)
        if base + 60 <= code < base + 68:
            return _with(graphic, name, code - base - 60 + 8)
        if code == base + 9:
            return _with(graphic, name, None)
    return graphic


def _extended(more: list[int], before: Colour) -> Colour:
    """Return the colour of ``5;N`` or ``2;R;G;B``."""
    match more:
        case [5, number, *_] if number < 256:
            return number
        case [2, red, green, blue, *_] if max(red, green, blue) < 256:
            return red, green, blue
    return before


def _colour_codes(colour: Colour, base: int) -> list[str]:
    if colour is None:
        return []
    if isinstance(colour, tuple):
        return [f"{base + 8};2;{';'.join(map(str, colour))}"]
    if colour < 8:
        return [str(base + colour)]
    return [str(base + 60 + colour - 8)] if colour < 16 else [f"{base + 8};5;{colour}"]


@lru_cache(maxsize=4096)
def rich_style(graphic: Graphic) -> Style:
    """Return the Rich style. Anything off stays unset, so that a pane's own colours show."""
    from rich.color import Color
    from rich.style import Style

    def colour(value: Colour) -> Color | None:
        if isinstance(value, tuple):
            return Color.from_rgb(*value)
        return None if value is None else Color.from_ansi(value)

    switches: dict[str, Any] = {name: True for name in _SWITCHES.values() if getattr(graphic, name)}
    return Style(color=colour(graphic.foreground), bgcolor=colour(graphic.background), **switches)


class ScreenLine:
    """A line that can be overwritten. Columns count from 0."""

    __slots__ = ("_cells", "_start")

    def __init__(self) -> None:
        self._cells: list[tuple[str, Graphic]] = []
        """Characters with the zero-width text after them (combining characters, and sequences that
        are not emulated); a wide character is followed by an empty cell."""
        self._start = ""
        """Zero-width text at the start."""

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, text: str, column: int, look: Graphic) -> int:
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
        """Insert zero-width text before a column."""
        index = min(column, len(self._cells)) - 1
        while index > 0 and not self._cells[index][0]:
            index -= 1
        cell, look = self._cells[index] if index >= 0 else (self._start, NO_STYLE)
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
        """Return the text with escape sequences, from and to `NO_STYLE`."""
        parts, before = [self._start], NO_STYLE
        for look, cells in groupby(self._cells, itemgetter(1)):
            parts.append(style_change(before, look))
            parts += (cell for cell, _ in cells)
            before = look
        return "".join([*parts, style_change(before, NO_STYLE)])

    def _put(self, cells: list[tuple[str, Graphic]], column: int) -> int:
        end = column + len(cells)
        self._cells += [_BLANK] * (column - len(self._cells))
        self._halve(column)
        self._halve(end)
        self._cells[column:end] = cells
        return end

    def _halve(self, column: int) -> None:
        """Replace a wide character that a column would split by blanks."""
        if 0 < column < len(self._cells) and not self._cells[column][0]:
            self._cells[column - 1 : column + 1] = [_BLANK] * 2


_BLANK = (" ", NO_STYLE)


def style_change(before: Graphic, now: Graphic) -> str:
    """Return the sequence between two styles."""
    if before == now:
        return ""
    return now.codes() if before == NO_STYLE else "\x1b[0m" + now.codes()


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


HEIGHT = 100
"""Lines of the screen. Programs see the height of a pane, which is less."""
WIDTH = 1_000
"""Clamp for cursor moves, not for printing."""
BLANKS, BLANKS_EACH = 1_000_000, 4
"""Blanks that moving right may create, in total and per character of input."""

MOVES = r"\x1b(?:\[(?:[0-9;]*[A-HJfdsu`]|[0-2]?K|\?25[hl])|[78])"
"""Emulated sequences, and ``?25``, which is ignored."""
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
"""Characters of an incomplete sequence that is held back."""
LONGEST = 100_000
"""Columns after which an overwritten line is broken."""
_TAB = 8


def rewrites(text: str) -> bool:
    """Return whether a terminal would show the text differently."""
    return _moves(LINE_END.sub("\n", text) if "\r" in text else text)


def leaves_line(text: str) -> bool:
    """Return whether the text may move the cursor to another line."""
    return "\x1b" in text and _LEAVES_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    """Split before an incomplete sequence or line end."""
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
    start: Graphic
    end: Graphic


_EMPTY = PrintedLine("", NO_STYLE, NO_STYLE)


class Screen:
    """The lines of a growing text, with a cursor in one of the last `HEIGHT` lines. Feeding takes
    linear time."""

    def __init__(
        self,
        rows: Sequence[PrintedLine] = (_EMPTY,),
        *,
        above: int = 0,
        column: int | None = None,
        pen: Graphic = NO_STYLE,
    ) -> None:
        """rows: the lines so far. above: number of lines from the cursor to the last one. column:
        the cursor's column; None for the end of its line."""
        self._rows: list[PrintedLine | ScreenLine] = list(rows)
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        """The style of newly written text."""
        self._saved = (0, 0, NO_STYLE)
        self._look = NO_STYLE
        """The style at the end of the last line returned."""
        self._blanks = BLANKS

    @property
    def above(self) -> int:
        """Number of lines from the cursor to the last one."""
        return len(self._rows) - 1 - self._row

    @property
    def at_end(self) -> bool:
        """Whether the cursor is at the end of the text."""
        row = self._rows[-1]
        return self.above == 0 and (
            self.column is None
            or self.column == len(row if isinstance(row, ScreenLine) else row.text)
        )

    def rows(self) -> list[PrintedLine]:
        """Return all lines, without the empty ones below the cursor."""
        while self.above and not plain(_settled(self._rows[-1]).text).strip():
            del self._rows[-1]
        return [_settled(row) for row in self._rows]

    def pop_above(self) -> str:
        """Remove the lines above the screen, and return their text."""
        left = [self._joined(_settled(row)) + "\n" for row in self._rows[: self._top]]
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return "".join(left)

    def text(self) -> str:
        """Return the text of the remaining lines, and a sequence that sets the current style."""
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
                for code in _SGR.finditer(line) if "\x1b" in line else ():
                    self.pen = apply_sgr(self.pen, code[1])
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
                    self.pen = apply_sgr(self.pen, token["sgr"])
                case "control":
                    self._control(found)
                case "move":
                    self._move(found)
                case _:
                    cells, column = self._current_line()
                    cells.mark(found, column)

    def _current_line(self) -> tuple[ScreenLine, int]:
        """Return the cursor's line, ready to be overwritten, and the cursor's column."""
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
            case "G" | "`":
                self.column = min(first - 1, WIDTH)
            case "d":
                self._go_to(first - 1)
            case "H" | "f":
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
            case "s" | "7":
                self._saved = self._row - self._top, column, self.pen
            case _:
                row, self.column, self.pen = self._saved
                self._go_to(row)
        if letter in "EF":
            self.column = 0

    def _go_to(self, row: int) -> None:
        """Move to a line of the screen, from 0."""
        self._row = self._top + min(row, HEIGHT - 1)
        self._rows += [_EMPTY] * (self._row + 1 - len(self._rows))

    def _erase_in_line(self, line: ScreenLine, column: int, part: str) -> None:
        """Erase after the cursor (0), up to it (1), or all (2). New blanks count towards the
        limit."""
        if part in ("", "0"):
            line.erase(column)
        elif part == "2":
            line.erase(0)
        elif part == "1" and column < self._blanks:
            self._blanks -= column + 1
            line.erase(0, column + 1)


def _visible_passes(line: str) -> str:
    """Keep only the passes over a line that may still be visible: those longer than all later
    ones."""
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
    return PrintedLine(row.render(), NO_STYLE, NO_STYLE) if isinstance(row, ScreenLine) else row


def _numbers(text: str) -> tuple[int, int]:
    """Return two numbers; a missing one or 0 becomes 1."""
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
"""A sequence that `collapse` keeps, or a control character that it drops."""

OVERWRITTEN = "[Text that was written over in its line is left out.]"
"""A note to the model after output with overwritten lines, such as progress bars."""


def escape_for_model(text: str) -> str:
    """Return text for a model, with ``\\n`` as line ends."""
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
