"""Draws Markdown as rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.tui.rows.code import code_rows
from mahtab_tui.tui.rows.inline import inline_spans, split_lines
from mahtab_tui.tui.rows.palette import BOLD, ITALIC, Palette
from mahtab_tui.tui.rows.row import Row, Span, paragraph
from mahtab_tui.tui.rows.table import table_rows

READING_WIDTH = 100
"""Cells of a row of prose; wider rows are hard to read."""
NARROWEST = 8
"""Minimum width of nested blocks."""

_LEXED = 20_000
"""Characters of a fenced block that are highlighted; a longer one stays plain, so that no lexer
blocks the screen."""

# HTML and link definitions are text: nothing in an answer may disappear.
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"]).disable(["code", "reference"])

Block = SyntaxTreeNode


def parse(source: str) -> list[Block]:
    """Parse a text to its outermost blocks."""
    return SyntaxTreeNode(_PARSER.parse(source)).children


def first_line(block: Block) -> int:
    """Return the line of the source at which a block starts, from 0."""
    return block.map[0] if block.map else 0


class Markdown:
    def __init__(self, palette: Palette, mark: Callable[[list[Span]], list[Span]] = list) -> None:
        """mark: changes the styles of the spans of a line of prose, or of a cell of a table."""
        self._palette = palette
        self._mark = mark
        self._drawers: dict[str, Callable[[Block, int], list[Row]]] = {
            "heading": self._heading,
            "paragraph": self._paragraph,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "blockquote": self._quote,
            "fence": self._fence,
            "hr": self._rule,
            "table": self._table,
        }

    def rows(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        """Draw a block. lead: spans before the first words, or in a row above a block that is not a
        paragraph."""
        if block.type == "paragraph":
            return self._paragraph(block, width, lead)
        drawn = (
            self._drawers[block.type](block, width)
            if block.type in self._drawers
            else self._stack(block, width)
        )
        return [Row(lead), *drawn] if lead else drawn

    def document(self, source: str, width: int, bar: Style | None = None) -> list[Row]:
        """Draw all blocks of a text, with an empty row between blocks, and a bar."""
        return [
            row._replace(bar=bar)
            for row in self._stack(SyntaxTreeNode(_PARSER.parse(source)), width)
        ]

    def _paragraph(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        first, *lines = map(
            self._mark, split_lines(inline_spans(block, self._palette.text, self._palette))
        )
        width = min(width, READING_WIDTH)
        rows = list(paragraph([*lead, *first], width, None))
        for line in lines:
            rows += paragraph(line, width, None)
        return rows

    def _heading(self, block: Block, width: int) -> list[Row]:
        style = (self._palette.text if block.tag in ("h1", "h2") else self._palette.muted) + BOLD
        spans = [
            (text.replace("\n", " "), drawn)
            for text, drawn in inline_spans(block, style, self._palette)
        ]
        rows = list(paragraph(spans, min(width, READING_WIDTH), None))
        if block.tag == "h1":
            widest = max(cell_len(row.text) for row in rows)
            rows.append(Row([("─" * min(widest, width), self._palette.hairline)]))
        return rows

    def _list(self, block: Block, width: int) -> list[Row]:
        ordered = block.type == "ordered_list"
        start = int(block.attrs.get("start", 1)) if ordered else 0
        marks = [
            f"{start + number}. " if ordered else "• " for number in range(len(block.children))
        ]
        room = max(map(len, marks))
        loose = any(
            child.type == "paragraph" and not child.hidden
            for item in block.children
            for child in item.children
        )
        rows: list[Row] = []
        for mark, item in zip(marks, block.children, strict=True):
            if rows and loose:
                rows.append(Row())
            inner = self._stack(item, max(NARROWEST, width - room), loose=loose)
            rows += _indented(
                inner or [Row()],
                (mark.rjust(room), self._palette.muted),
                (" " * room, self._palette.muted),
            )
        return rows

    def _quote(self, block: Block, width: int) -> list[Row]:
        inner = self._stack(block, max(NARROWEST, width - 2))
        quiet = [
            row._replace(spans=[(text, style + ITALIC) for text, style in row.spans])
            for row in inner
        ]
        mark = ("▎ ", self._palette.muted)
        return _indented(quiet, mark, mark)

    def _fence(self, block: Block, width: int) -> list[Row]:
        code = block.content.removesuffix("\n").expandtabs(4)
        return list(code_rows(_lexer(block.info, code), code, width, self._palette))

    def _rule(self, block: Block, width: int) -> list[Row]:
        return [Row([("─" * min(width, READING_WIDTH), self._palette.hairline)])]

    def _table(self, block: Block, width: int) -> list[Row]:
        return table_rows(block, width, self._palette, self._mark)

    def _stack(self, block: Block, width: int, *, loose: bool = True) -> list[Row]:
        """Draw the blocks inside another. loose: with empty rows between them."""
        rows: list[Row] = []
        for child in block.children:
            if rows and loose:
                rows.append(Row())
            rows += self.rows(child, width)
        return rows


def _indented(rows: Sequence[Row], first: Span, rest: Span) -> list[Row]:
    marks = [first, *[rest] * len(rows)]
    return [
        row._replace(spans=[mark, *row.spans], indent=row.indent + len(mark[0]))
        for mark, row in zip(marks, rows, strict=False)
    ]


def _lexer(info: str, code: str) -> Lexer:
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    if language and len(code) <= _LEXED:
        try:
            return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
        except ClassNotFound:
            pass
    return TextLexer(stripnl=False, ensurenl=False)
