"""Rows that show code, and changes to variables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pygments.lexer import Lexer
from pygments.lexers import PythonLexer
from pygments.token import String, Token
from pygments.token import _TokenType as TokenType
from rich.style import Style
from textual.content import Content

from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.sanitize import hidden_characters, one_line, plain
from mahtab_tui.kernel.base import CHANGE_SIGNS
from mahtab_tui.tui.rows.row import (
    MAX_CODE_LINES,
    MAX_LINE_CHARS,
    MAX_TEXT_HEAD_CHARS,
    MAX_TEXT_TAIL_CHARS,
    Row,
    Span,
    add_separators,
    paragraph,
    shorten_line,
    token_cuts,
)
from mahtab_tui.tui.theme import Palette

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, NotRestored

PYTHON = PythonLexer(stripnl=False, ensurenl=False)
WRAPPED = "↪ "
_NO_CHARACTER = (sys.maxsize, "")


class CodeRows(list[Row]):
    def __init__(self, width: int, palette: Palette, bar: Style) -> None:
        super().__init__()
        self._width = width
        self._palette = palette
        self._bar = bar
        self._code = ""
        self._settled = 0
        """Characters whose highlighting is final."""
        self._settled_rows: list[Row] = []
        self._head = ""
        """The start of long code, which stays."""
        self._head_rows: list[Row] = []

    def update(self, code: str) -> None:
        """Show this code; if it grew, draw only its last lines."""
        if code == self._code and self:
            return
        if not code.startswith(self._code[: self._settled]):
            self._settled = 0
            self._settled_rows = []
        self._code = code
        if (ends := two_ends(code)) != [code]:
            if ends[0] != self._head:
                self._head = ends[0]
                self._head_rows = list(self._draw_rows(ends[0]))
            self[:] = [*self._head_rows, *(row for end in ends[1:] for row in self._draw_rows(end))]
            return
        tail = code[self._settled :]
        self[:] = [*self._settled_rows, *self._draw_rows(tail)]
        if safe := safe_length(tail):
            self._settled_rows += self._draw_rows(tail[: safe - 1])
            self._settled += safe

    def _draw_rows(self, code: str) -> Iterator[Row]:
        return code_rows(PYTHON, code, self._width, self._palette, self._bar)


def code_rows(
    lexer: Lexer, code: str, width: int, palette: Palette, bar: Style | None = None
) -> Iterator[Row]:
    """Draw code; long lines are wrapped between tokens, with a mark."""
    for line in highlight(lexer, code.expandtabs(4), palette):
        for row in paragraph(line, width, bar, WRAPPED, token_cuts):
            if row.soft:
                spans = [(WRAPPED, palette.muted), *row.spans[1:]]
                yield row._replace(spans=spans, fill=palette.surface)
            else:
                yield row._replace(fill=palette.surface, indent=0)


def two_ends(code: str) -> list[str]:
    """Return the start and the end of long code, with a comment on what is left out between them;
    or all of short code."""
    line_count = code.count("\n") + 1
    if line_count <= MAX_CODE_LINES and len(code) <= MAX_TEXT_HEAD_CHARS + MAX_TEXT_TAIL_CHARS:
        return [code if len(code) <= MAX_LINE_CHARS else _shorten_lines(code.split("\n"))]

    max_head_lines = MAX_CODE_LINES * 3 // 4
    max_tail_lines = MAX_CODE_LINES // 4
    head_lines = code[:MAX_TEXT_HEAD_CHARS].split("\n", max_head_lines)[:max_head_lines]
    tail_lines = code[-MAX_TEXT_TAIL_CHARS:].rsplit("\n", max_tail_lines)[-max_tail_lines:]
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
    """Return the spans of each line; hidden characters become symbols."""
    lines: list[list[Span]] = [[]]
    hidden = hidden_characters(code)
    offset, symbol = next(hidden, _NO_CHARACTER)
    position = 0
    for token, text in tokens(lexer, code):
        style = palette.token(token)
        done = 0
        while offset < position + len(text):
            _add(lines, text[done : offset - position], style)
            lines[-1].append((symbol, palette.alarm))
            done = offset - position + 1
            offset, symbol = next(hidden, _NO_CHARACTER)
        _add(lines, text[done:], style)
        position += len(text)
    return lines


def _add(lines: list[list[Span]], text: str, style: Style) -> None:
    for number, piece in enumerate(text.split("\n")):
        if number:
            lines.append([])
        if piece:
            lines[-1].append((piece, style))


def tokens(lexer: Lexer, code: str) -> Iterator[tuple[TokenType, str]]:
    """A huge line makes the code one plain token, because lexers are slow."""
    if any(len(line) > 10_000 for line in code.split("\n")):
        yield Token.Text, code
        return
    pairs = ((token, text) for _, token, text in lexer.get_tokens_unprocessed(code))
    for token, neighbours in groupby(pairs, key=itemgetter(0)):
        if token is Token.Error:  # one per character, and an emoji may have several
            yield token, "".join(text for _, text in neighbours)
        else:
            yield from neighbours


def safe_length(code: str) -> int:
    """Return the length up to the last line break outside strings, where highlighting can
    resume."""
    safe = position = 0
    for token, text in tokens(PYTHON, code):
        position += len(text)
        if text.endswith("\n") and token not in String:
            safe = position
    return safe


WAS = 24
"""Characters of an old summary that are drawn."""
NAMES = 200

_STYLES = {"+": "$good", "~": "$moon", "?": "$muted", "−": "$bad"}


def _join_summary(type: str, summary: str, kind: str | None) -> str:
    """``int 3``, or ``Order(id=7)`` for an object with fields."""
    has_fields = kind == "data" and summary.startswith("(")
    return f"{type}{summary}" if has_fields else f"{type} {summary}".strip()


def describe_change(change: Change) -> str:
    """Return `DataFrame 100 × 4 → 98 × 5`, `int 3 → str 'three'`, `Order(total=3 → 4)`."""
    type_name = plain(change.type or "")
    old_type_name = plain(change.was_type or "")
    summary = add_separators(plain(change.summary or ""))
    old_summary = add_separators(plain(change.was or ""))
    has_same_type = type_name == old_type_name
    if has_same_type and old_type_name:
        fields = changed_fields(old_summary, summary)
        if fields:
            return f"{type_name}({fields})"

    columns = f"  {plain(change.columns)}" if change.columns else ""
    after = _join_summary(type_name, summary, change.kind) + columns
    if not old_type_name:
        return after
    if len(old_summary) > WAS:
        old_summary = old_summary[: WAS - 1] + "…"
    before = _join_summary(old_type_name, old_summary, change.kind)
    return f"{before} → {summary + columns if has_same_type else after}"


def change_lines(changes: Sequence[Change], not_restored: Sequence[NotRestored]) -> list[Content]:
    """Return a line per change, and per thing that an undo does not restore."""
    lines = [_line(change) for change in changes[:NAMES]] or [Content("No variable changes.")]
    lines += _count_of_others(len(changes))
    if not_restored:
        lines += [Content(""), Content.styled("Cannot be undone:", "$bad")]
        for name, reason in not_restored[:NAMES]:
            lines.append(Content(f"  {one_line(f'{name}: {reason}' if name else reason)}"))
        lines += _count_of_others(len(not_restored))
    return lines


def _line(change: Change) -> Content:
    sign = CHANGE_SIGNS.get(change.change, "~")
    name = (f"{sign} {one_line(change.name)}", _STYLES[sign])
    return Content.assemble(name, f"  {one_line(describe_change(change))}")


def _count_of_others(count: int) -> list[Content]:
    return [Content.styled(f"and {count - NAMES:,} more", "$muted")] if count > NAMES else []
