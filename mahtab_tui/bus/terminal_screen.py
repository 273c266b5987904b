"""Computes how a terminal would show a text that moves the cursor, for screens and models.

`Screen` keeps the lines that the cursor can reach: as texts, or as a `ScreenLine` once the cursor
has gone back in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mahtab_tui.bus.pens import SGR, Pen, next_pen, read_pen, style_change
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.screen_line import ScreenLine, width

HEIGHT = 100
"""Lines of the screen. Programs see the height of a pane, which is less."""
MAX_COLUMN = 1_000
"""Clamp for cursor moves, not for printing."""
MAX_BLANKS = 1_000_000
MAX_BLANKS_PER_CHAR = 4
"""Blanks that moves may create, in total and for each character of the text."""
MAX_LINE_COLUMNS = 100_000
"""Columns after which an overwritten line is broken."""
MIN_DROPPED_PASSES = 16
"""After this many passes over a line, those that leave no trace are dropped first."""
MOVES = r"\x1b\[(?:[0-9;]*[A-DGHJ]|[0-2]?K|\?25[hl])"
"""Emulated sequences, and ``?25``, which is ignored."""
_MOVES = re.compile(MOVES)
_LINE_ERASURES = ("\r\x1b[K", "\r\x1b[0K", "\r\x1b[2K", "\x1b[2K\r")
"""Sequences after which nothing is on the line, whatever was there."""
_LINE_END = re.compile(r"(?<!\r)\r+\n")
_MOVES_TO_OTHER_LINE = re.compile(r"\x1b\[[0-9;]*[ABHJ]")
_UNFINISHED_SEQUENCE = re.compile(r"(?:\r|\x1b(?:\[[0-9;?]*)?)\Z")
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    rf"|(?P<move>[\r\b\t]|{MOVES})"
    rf"|(?P<sgr>{SGR.pattern})"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b\][^\x1b\x07\n]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f]"
)


def rewrites(text: str) -> bool:
    """Whether a text moves the cursor back over itself."""
    return _moves_cursor(unix_line_ends(text))


def _moves_cursor(text: str) -> bool:
    if "\r" in text or "\b" in text:
        return True
    return "\x1b" in text and _MOVES.search(text) is not None


def unix_line_ends(text: str) -> str:
    """Return a text in which a line break is one character."""
    if "\r" in text:
        return _LINE_END.sub("\n", text)
    return text


def leaves_line(text: str) -> bool:
    """Whether a text moves the cursor to another line without a line end."""
    return "\x1b" in text and _MOVES_TO_OTHER_LINE.search(text) is not None


def split_unfinished(piece: str) -> tuple[str, str]:
    """Return a piece of a text up to a sequence or a line end that the next piece may complete, and
    that."""
    match = _UNFINISHED_SEQUENCE.search(piece, max(0, len(piece) - 16))
    if match is None:
        return piece, ""
    return piece[: match.start()], match[0]


def collapse(text: str) -> str:
    """Return the lines as a terminal finally shows them, with their colours."""
    if not rewrites(text):
        return unix_line_ends(text)
    screen = Screen()
    screen.feed(text)
    return screen.pop_above() + screen.text()


class Screen:
    """The lines of a growing text, with a cursor in one of the last `HEIGHT` lines.

    Feeding takes linear time.
    """

    def __init__(
        self,
        rows: Sequence[str] = ("",),
        *,
        above: int = 0,
        column: int | None = None,
        pen: Pen = "",
    ) -> None:
        """Create a screen; by default an empty one.

        Args:
            rows: Lines that are on the screen already.
            above: Lines from the cursor to the last one.
            column: The cursor's column; None for the end of its line.
            pen: The colours and styles in effect.
        """
        self._rows: list[str | ScreenLine] = list(rows)
        """Lines that nobody overwrites stay texts."""
        self._row = len(self._rows) - 1 - above
        self._top = max(0, len(self._rows) - HEIGHT)
        self.column = column
        self.pen = pen
        self._remaining_blanks = MAX_BLANKS

    @property
    def above(self) -> int:
        """Lines from the cursor to the last one."""
        return len(self._rows) - 1 - self._row

    @property
    def at_end(self) -> bool:
        """Whether the next character is appended to the text."""
        return self.above == 0 and self.column in (None, len(self._rows[-1]))

    def rows(self) -> list[str]:
        """Return the lines, without blank ones below the cursor."""
        while self.above and not plain(str(self._rows[-1])).strip():
            del self._rows[-1]
        return list(map(str, self._rows))

    def pop_above(self) -> str:
        """Remove and return the lines that the cursor cannot reach any more."""
        lines = "".join(_close_styles(str(row)) + "\n" for row in self._rows[: self._top])
        del self._rows[: self._top]
        self._row -= self._top
        self._top = 0
        return lines

    def text(self) -> str:
        """Return the lines, and the pen for the text that follows."""
        return "\n".join(map(_close_styles, self.rows())) + self.pen

    def feed(self, text: str) -> None:
        """Add text, which must not end within a sequence."""
        self._remaining_blanks += MAX_BLANKS_PER_CHAR * len(text)
        for number, line in enumerate(unix_line_ends(text).split("\n")):
            if number:
                self._feed_line()
            if not line:
                continue
            if len(self._rows[self._row]) > MAX_LINE_COLUMNS:
                self._feed_line()

            row = self._rows[self._row]
            is_inside_row = self.column is not None and (self.column or row)
            if isinstance(row, ScreenLine) or is_inside_row or _moves_cursor(line):
                self._process_line(_drop_hidden_passes(self._drop_erased(line)))
            else:
                # Most lines are only appended to.
                self._rows[self._row] = (row or self.pen) + line
                self.column = None
                self.pen = read_pen(self.pen, line)

    def _feed_line(self) -> None:
        self._row += 1
        self.column = 0
        if self._row == len(self._rows):
            self._rows.append("")
        if self._row == self._top + HEIGHT:
            self._rows[self._top] = str(self._rows[self._top])
            self._top += 1

    def _drop_erased(self, line: str) -> str:
        """Keep only what follows the last erasure of the whole line, and that.

        The pen stays as it is there.
        """
        start = max(map(line.rfind, _LINE_ERASURES))
        if start <= 0 or leaves_line(line[:start]):
            return line
        self.pen = read_pen(self.pen, line[:start])
        return line[start:]

    def _process_line(self, text: str) -> None:
        """Write text and move the cursor as the sequences say."""
        for token in _TOKEN.finditer(text):
            token_text = token[0]
            match token.lastgroup:
                case "text":
                    self._write(token_text)
                case "sgr":
                    self.pen = next_pen(self.pen, token_text)
                case "move":
                    self._move(token_text[-1], token_text[2:-1])

    def _write(self, text: str) -> None:
        line, column = self._current_line()
        missing_columns = column - len(line)
        if missing_columns > self._remaining_blanks:
            column = len(line)
        elif missing_columns > 0:
            self._remaining_blanks -= missing_columns
        self.column = line.write(text, column, self.pen)

    def _current_line(self) -> tuple[ScreenLine, int]:
        """Return the cursor's line, from now on as cells, and its column."""
        row = self._rows[self._row]
        if isinstance(row, ScreenLine):
            return row, self.column or 0

        # Write the text into the cells as if it came now, with its own pen.
        row_index = self._row
        column = self.column
        pen = self.pen
        line = ScreenLine()
        self._rows[row_index] = line
        self.pen = ""
        self.column = 0
        self._process_line(row)
        self.pen = pen
        self._row = row_index
        if column is not None:
            self.column = column
        return line, self.column or 0

    def _move(self, letter: str, parameters: str) -> None:
        if letter == "\r":
            self.column = 0
        if letter in "\rhl":
            return
        line, column = self._current_line()
        # A missing number is 1; four digits are more than any screen has.
        first, second, *_ = (max(1, int(text[:4] or 1)) for text in f"{parameters};".split(";"))
        match letter:
            case "\t":
                self.column = column + 8 - column % 8
            case "A":
                self._row = max(self._top, self._row - first)
            case "B":
                self._go_to_row(self._row - self._top + first)
            case "C":
                self.column = max(column, min(column + first, MAX_COLUMN))
            case "\b" | "D":
                self.column = max(0, column - first)
            case "G":
                self.column = min(first - 1, MAX_COLUMN)
            case "H":
                self._go_to_row(first - 1)
                self.column = min(second - 1, MAX_COLUMN)
            case "K":
                self._erase_in_line(line, column, parameters)
            case "J":
                if parameters in ("1", "2"):
                    self._rows[self._top : self._row] = [""] * (self._row - self._top)
                if parameters in ("", "0", "2"):
                    del self._rows[self._row + 1 :]
                if parameters != "3":  # the lines above the screen
                    self._erase_in_line(line, column, parameters)

    def _go_to_row(self, screen_row: int) -> None:
        """Move the cursor to a row of the screen, counted from 0."""
        self._row = self._top + min(screen_row, HEIGHT - 1)
        self._rows += [""] * (self._row + 1 - len(self._rows))

    def _erase_in_line(self, line: ScreenLine, column: int, part: str) -> None:
        """Erase after the cursor (0), up to it (1), or all (2)."""
        if part in ("", "0"):
            line.erase(column)
        elif part == "2":
            line.erase(0)
        elif part == "1" and column < self._remaining_blanks:
            self._remaining_blanks -= column + 1
            line.erase(0, column + 1)


def _drop_hidden_passes(line: str) -> str:
    """Keep only the passes over a line that are longer than all later ones."""
    passes = line.split("\r")
    if len(passes) < MIN_DROPPED_PASSES:
        return line
    # Only where each character takes one column do lengths say what is covered.
    if any(not char.isprintable() or width(char) != 1 for char in {*line} - {"\r"}):
        return line
    visible_passes: list[str] = []
    for text in reversed(passes):
        if not visible_passes or len(text) > len(visible_passes[-1]):
            visible_passes.append(text)
    return "\r".join(reversed(visible_passes))


def _close_styles(line: str) -> str:
    return line + style_change(read_pen("", line), "")
