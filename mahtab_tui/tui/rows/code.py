"""Draws code as rows, with the colours of its tokens.

Code may be long, or grow while a model writes it. Of long code only the two ends are drawn, and of code
that grows only its last lines are drawn again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from pygments.lexer import Lexer
from pygments.lexers import PythonLexer
from pygments.token import String, Token
from pygments.token import _TokenType as TokenType
from rich.style import Style

from mahtab_tui.bus.hidden_characters import hidden_characters
from mahtab_tui.tui.rows.long_texts import (
    MAX_CODE_LINES,
    MAX_LINE_CHARS,
    MAX_TEXT_HEAD_CHARS,
    MAX_TEXT_TAIL_CHARS,
    shorten_line,
)
from mahtab_tui.tui.rows.row import Row, Span, paragraph, token_cuts
from mahtab_tui.tui.theme import Palette

PYTHON = PythonLexer(stripnl=False, ensurenl=False)
WRAP_MARK = "↪ "
"""Begins the rows that continue a line."""
MAX_HEAD_LINES = MAX_CODE_LINES * 3 // 4
MAX_TAIL_LINES = MAX_CODE_LINES // 4
"""Of longer code, at most this many of the first and of the last lines are drawn."""
_NO_CHARACTER = (sys.maxsize, "")
"""Stands behind the last hidden character."""


class CodeRows(list[Row]):
    """The rows of code that may grow, as a model writes it."""

    def __init__(self, width: int, palette: Palette, bar: Style) -> None:
        """
        Args:
            width: The width of a row, in cells.
            palette: The colours.
            bar: The colour of the bar on the left, which shows the author.
        """
        super().__init__()
        self._width = width
        self._palette = palette
        self._bar = bar
        self._code = ""
        """The code that is drawn."""
        self._settled_chars = 0
        """The length of the beginning of the code whose colours more code cannot change."""
        self._settled_rows: list[Row] = []
        """The rows of this beginning."""
        self._head = ""
        """The first lines of long code, which are drawn once."""
        self._head_rows: list[Row] = []
        """The rows of these lines."""

    def update(self, code: str) -> None:
        """Show this code; if it has grown, draw only its last lines."""
        if code == self._code and self:
            return
        if not code.startswith(self._code[: self._settled_chars]):
            self._settled_chars = 0
            self._settled_rows = []
        self._code = code
        parts = two_ends(code)
        if parts == [code]:
            self._draw_whole(code)
        else:
            self._draw_parts(parts)

    def _draw_whole(self, code: str) -> None:
        """Draw the lines that are not settled, and settle those that more code cannot change."""
        open_code = code[self._settled_chars :]
        self[:] = [*self._settled_rows, *self._draw_rows(open_code)]
        settled_chars = safe_length(open_code)
        if settled_chars:
            # Without the last line break, which would add an empty row.
            self._settled_rows += self._draw_rows(open_code[: settled_chars - 1])
            self._settled_chars += settled_chars

    def _draw_parts(self, parts: list[str]) -> None:
        """Draw the parts of long code, as `two_ends` returns them; the first one only once."""
        head, *other_parts = parts
        if head != self._head:
            self._head = head
            self._head_rows = list(self._draw_rows(head))
        self[:] = self._head_rows
        for part in other_parts:
            self.extend(self._draw_rows(part))

    def _draw_rows(self, code: str) -> Iterator[Row]:
        return code_rows(PYTHON, code, self._width, self._palette, self._bar)


def code_rows(
    lexer: Lexer, code: str, width: int, palette: Palette, bar: Style | None = None
) -> Iterator[Row]:
    """Draw code; long lines are wrapped between tokens, with a mark.

    Args:
        lexer: Pygments' lexer of the language.
        code: The code.
        width: The width of a row, in cells.
        palette: The colours.
        bar: The style of a bar on the left; None for no bar.
    """
    for line in highlight(lexer, code.expandtabs(4), palette):
        for row in paragraph(line, width, bar, WRAP_MARK, token_cuts):
            if row.soft:
                spans = [(WRAP_MARK, palette.muted), *row.spans[1:]]
                yield row._replace(spans=spans, fill=palette.surface)
            else:
                yield row._replace(fill=palette.surface, indent=0)


def two_ends(code: str) -> list[str]:
    """Return the start and the end of long code, with a comment on what is left out between them.

    Short code comes back as a single part, in which only lines of many characters are cut.
    """
    line_count = code.count("\n") + 1
    has_few_lines = line_count <= MAX_CODE_LINES
    if has_few_lines and len(code) <= MAX_TEXT_HEAD_CHARS + MAX_TEXT_TAIL_CHARS:
        return [_shorten_lines(code.split("\n"))]

    head_lines = code[:MAX_TEXT_HEAD_CHARS].split("\n", MAX_HEAD_LINES)[:MAX_HEAD_LINES]
    tail_lines = code[-MAX_TEXT_TAIL_CHARS:].rsplit("\n", MAX_TAIL_LINES)[-MAX_TAIL_LINES:]
    if line_count > MAX_CODE_LINES:
        omitted = f"{line_count - len(head_lines) - len(tail_lines):,} lines"
    else:
        visible_chars = len("\n".join(head_lines)) + len("\n".join(tail_lines))
        omitted = f"{len(code) - visible_chars:,} characters"
    comment = f"# … {omitted} left out …"
    return [_shorten_lines(head_lines), _shorten_lines([comment, *tail_lines])]


def is_drawn_whole(code: str) -> bool:
    """Return whether nothing of a cell's code is left out."""
    return two_ends(code) == [code]


def _shorten_lines(lines: list[str]) -> str:
    return "\n".join(map(shorten_line, lines))


def highlight(lexer: Lexer, code: str, palette: Palette) -> list[list[Span]]:
    """Return the spans of each line; hidden characters become symbols.

    Args:
        lexer: Pygments' lexer of the language.
        code: The code.
        palette: The colours.
    """
    lines: list[list[Span]] = [[]]
    hidden = hidden_characters(code)
    hidden_offset, symbol = next(hidden, _NO_CHARACTER)
    token_start = 0
    for token, text in tokens(lexer, code):
        style = palette.token(token)
        token_end = token_start + len(text)
        # Of this token.
        drawn_chars = 0
        while hidden_offset < token_end:
            position = hidden_offset - token_start
            _add_text(lines, text[drawn_chars:position], style)
            lines[-1].append((symbol, palette.alarm))
            drawn_chars = position + 1
            hidden_offset, symbol = next(hidden, _NO_CHARACTER)
        _add_text(lines, text[drawn_chars:], style)
        token_start = token_end
    return lines


def _add_text(lines: list[list[Span]], text: str, style: Style) -> None:
    """Add a text to the last line. Its line breaks begin further lines."""
    for index, piece in enumerate(text.split("\n")):
        if index:
            lines.append([])
        if piece:
            lines[-1].append((piece, style))


def tokens(lexer: Lexer, code: str) -> Iterator[tuple[TokenType, str]]:
    """Yield the tokens of code, each with its text.

    Code with a huge line is one plain token, because lexers are slow.
    """
    if any(len(line) > MAX_LINE_CHARS for line in code.split("\n")):
        yield Token.Text, code
        return
    pairs = ((token, text) for _, token, text in lexer.get_tokens_unprocessed(code))
    for token, neighbours in groupby(pairs, key=itemgetter(0)):
        # There is one error per character, and an emoji may have several.
        if token is Token.Error:
            yield token, "".join(text for _, text in neighbours)
        else:
            yield from neighbours


def safe_length(code: str) -> int:
    """Return the length up to the last line break outside strings, where highlighting can
    resume."""
    length = 0
    position = 0
    for token, text in tokens(PYTHON, code):
        position += len(text)
        if text.endswith("\n") and token not in String:
            length = position
    return length
