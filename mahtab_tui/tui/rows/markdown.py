"""Renders Markdown as rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.figure_tokens import figure_spans
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.code import code_rows
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, paragraph, word_cuts
from mahtab_tui.tui.theme import BOLD, ITALIC, STRIKE, UNDERLINE, Palette

_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE}


def inline_spans(node: SyntaxTreeNode, style: Style, palette: Palette) -> Iterator[Span]:
    """A line break is the span "\\n"."""
    match node.type:
        case "code_inline":
            yield plain(node.content), style + palette.panel
        case "softbreak" | "hardbreak":  # models use single line breaks for lists
            yield "\n", style
        case "link":
            address = plain(str(node.attrs.get("href", "")))
            inner = style + UNDERLINE
            words = [
                span for child in node.children for span in inline_spans(child, inner, palette)
            ]
            yield from words
            if address and "".join(text for text, _ in words) != address:
                yield f" ({address})", style + palette.muted
        case "image":
            address = plain(str(node.attrs.get("src", "")))
            yield f"{plain(node.content)} ({address})", style + palette.muted
        case "text":
            # Entities were resolved only after the text was sanitised.
            yield plain(node.content).replace("\n", " "), style
        case kind:
            for child in node.children:
                yield from inline_spans(child, style + _STYLES.get(kind, Style.null()), palette)


def split_lines(spans: Iterator[Span]) -> list[list[Span]]:
    lines: list[list[Span]] = [[]]
    for span in spans:
        if span[0] == "\n":
            lines.append([])
        else:
            lines[-1].append(span)
    return lines


SPACE = 2
NARROWEST_COLUMN = 6


def table_rows(
    table: SyntaxTreeNode, width: int, palette: Palette, mark: Callable[[list[Span]], list[Span]]
) -> list[Row]:
    lines = [node for part in table.children for node in part.children]
    styles = {"th": palette.text + BOLD, "td": palette.text}
    cells = [
        [mark(_on_one_line(cell, styles[cell.type], palette)) for cell in line.children]
        for line in lines
    ]
    right = ["right" in str(cell.attrs.get("style", "")) for cell in lines[0].children]
    columns = zip_longest(*cells, fillvalue=[])
    wanted = [max(map(_width, column)) for column in columns][: len(right)]
    widths = fit_columns(wanted, width - SPACE * (len(wanted) - 1))
    header, *body = (list(_line(line, widths, right, palette)) for line in cells)
    rule = Row([("─" * (sum(widths) + SPACE * (len(widths) - 1)), palette.hairline)])
    return [*header, rule, *(row for line in body for row in line)]


def fit_columns(wanted: Sequence[int], width: int) -> list[int]:
    widths = [min(max(1, cells), max(width, NARROWEST_COLUMN)) for cells in wanted]
    while sum(widths) > width and max(widths) > NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _on_one_line(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Span]:
    return [(text.replace("\n", " "), drawn) for text, drawn in inline_spans(node, style, palette)]


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _line(
    cells: Sequence[Sequence[Span]], widths: Sequence[int], right: Sequence[bool], palette: Palette
) -> Iterator[Row]:
    columns = []
    for spans, width in zip(cells, widths, strict=False):
        cuts = word_cuts("".join(text for text, _ in spans), width)
        columns.append([_trim(row) for row in cut_spans(spans, cuts)])
    for row in zip_longest(*columns, fillvalue=[]):
        line: list[Span] = []
        for spans, width, to_right in zip(row, widths, right, strict=False):
            space = (" " * max(0, width - _width(spans)), palette.text)
            line += [space, *spans] if to_right else [*spans, space]
            line.append((" " * SPACE, palette.text))
        yield Row(line[:-1])


def _trim(spans: list[Span]) -> list[Span]:
    if not spans:
        return spans
    text, style = spans[-1]
    return [*spans[:-1], (text.rstrip(" "), style)]


FIGURE = "figure"
"""Key of a figure's cell in a style's `meta`."""


class FigureMarks:
    def __init__(self, figures: Sequence[AnswerFigure], palette: Palette) -> None:
        self._styles: dict[str, Style] = {}
        self._code = palette.panel.bgcolor
        for figure in figures:
            if not figure.found:
                self._styles[plain(figure.text)] = palette.muted + UNDERLINE
            elif figure.cell is not None:
                self._styles[plain(figure.text)] = Style(meta={FIGURE: figure.cell})

    def __call__(self, spans: list[Span]) -> list[Span]:
        """Underline the figures that were not found; the others lead to their cells."""
        marked: list[Span] = []
        for text, style in spans:
            done = 0
            if style.bgcolor == self._code and (mark := self._styles.get(f"`{text}`")):
                style += mark
            for start, end in figure_spans(text):
                if mark := self._styles.get(text[start:end]):
                    marked += [(text[done:start], style), (text[start:end], style + mark)]
                    done = end
            marked.append((text[done:], style))
        return marked


READING_WIDTH = 100
"""Cells of a row of prose; wider ones are hard to read."""
NARROWEST = 8

_LEXED = 20_000
"""Characters of a fenced block to highlight."""

# HTML and link definitions are shown as text, so that nothing in an answer disappears.
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"]).disable(["code", "reference"])

Block = SyntaxTreeNode


def parse(source: str) -> list[Block]:
    return SyntaxTreeNode(_PARSER.parse(source)).children


def first_line(block: Block) -> int:
    return block.map[0] if block.map else 0


class Markdown:
    def __init__(self, palette: Palette, mark: Callable[[list[Span]], list[Span]] = list) -> None:
        """mark: styles the spans of a line or of a table cell."""
        self._palette = palette
        self._mark = mark
        self._drawers: dict[str, Callable[[Block, int], list[Row]]] = {
            "heading": self._heading,
            "paragraph": self._paragraph,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "blockquote": self._quote,
            "fence": self._fence,
            "hr": lambda _, width: [Row([("─" * min(width, READING_WIDTH), palette.hairline)])],
            "table": lambda block, width: table_rows(block, width, palette, mark),
        }

    def rows(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        if block.type == "paragraph":
            return self._paragraph(block, width, lead)
        drawn = self._drawers.get(block.type, self._stack)(block, width)
        return [Row(lead), *drawn] if lead else drawn

    def document(self, source: str, width: int, bar: Style | None = None) -> list[Row]:
        rows = self._stack(SyntaxTreeNode(_PARSER.parse(source)), width)
        return [row._replace(bar=bar) for row in rows]

    def _paragraph(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        rows: list[Row] = []
        for line in split_lines(inline_spans(block, self._palette.text, self._palette)):
            rows += paragraph([*lead, *self._mark(line)], min(width, READING_WIDTH), None)
            lead = ()
        return rows

    def _heading(self, block: Block, width: int) -> list[Row]:
        style = (self._palette.text if block.tag in ("h1", "h2") else self._palette.muted) + BOLD
        spans = _on_one_line(block, style, self._palette)
        rows = list(paragraph(spans, min(width, READING_WIDTH), None))
        if block.tag == "h1":
            widest = max(cell_len(row.text) for row in rows)
            rows.append(Row([("─" * min(widest, width), self._palette.hairline)]))
        return rows

    def _list(self, block: Block, width: int) -> list[Row]:
        ordered = block.type == "ordered_list"
        start = int(block.attrs.get("start", 1)) if ordered else 0
        items = block.children
        muted = self._palette.muted
        marks = [f"{start + number}. " if ordered else "• " for number in range(len(items))]
        mark_width = max(map(len, marks))
        children = (child for item in items for child in item.children)
        loose = any(child.type == "paragraph" and not child.hidden for child in children)
        rows: list[Row] = []
        for mark, item in zip(marks, items, strict=True):
            if rows and loose:
                rows.append(Row())
            inner = self._stack(item, max(NARROWEST, width - mark_width), loose=loose)
            first_indent = (mark.rjust(mark_width), muted)
            rows += _indent(inner or [Row()], first_indent, (" " * mark_width, muted))
        return rows

    def _quote(self, block: Block, width: int) -> list[Row]:
        rows = []
        for row in self._stack(block, max(NARROWEST, width - 2)):
            spans = [(text, style + ITALIC) for text, style in row.spans]
            rows.append(row._replace(spans=spans))
        mark = ("▎ ", self._palette.muted)
        return _indent(rows, mark, mark)

    def _fence(self, block: Block, width: int) -> list[Row]:
        code = block.content.removesuffix("\n").expandtabs(4)
        return list(code_rows(_lexer(block.info, code), code, width, self._palette))

    def _stack(self, block: Block, width: int, *, loose: bool = True) -> list[Row]:
        rows: list[Row] = []
        for child in block.children:
            if rows and loose:
                rows.append(Row())
            rows += self.rows(child, width)
        return rows


def _indent(rows: Sequence[Row], first: Span, rest: Span) -> list[Row]:
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
