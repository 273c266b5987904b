"""Renders Markdown as rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from markdown_it import MarkdownIt
from markdown_it.parser_inline import RuleFuncInlineType
from markdown_it.rules_inline import StateInline, image, link
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

_INLINE_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE}
COLUMN_GAP = 2
MIN_COLUMN_WIDTH = 6
FIGURE_KEY = "figure"
"""The key, in the `meta` of a style, of the number of the cell that printed a figure."""
READING_WIDTH = 100
"""In cells; wider rows of prose are hard to read."""
MIN_TEXT_WIDTH = 8
MAX_HIGHLIGHTED_CHARS = 20_000
"""A longer fenced block is not highlighted."""
# HTML and link definitions are shown as text, so that nothing in an answer disappears.
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"]).disable(["code", "reference"])
_LINK_MIDDLE = "]("
"""What stands in the middle of each link and picture."""
Block = SyntaxTreeNode


def _is_only_tried_where_possible(rule: RuleFuncInlineType) -> RuleFuncInlineType:
    """Return a rule for links or pictures that fails at once if none can follow: otherwise, each of
    many brackets would be searched up to all others."""

    # A text, and where in it the last middle is. Replaced as a whole, because threads share it.
    last_search: tuple[str, int] = ("", -1)

    def quick_rule(state: StateInline, silent: bool) -> bool:
        nonlocal last_search
        text, last_middle = last_search
        if state.src is not text:
            last_middle = state.src.rfind(_LINK_MIDDLE)
            last_search = (state.src, last_middle)
        return state.pos < last_middle and rule(state, silent)

    return quick_rule


for _name, _rule in (("link", link), ("image", image)):
    _PARSER.inline.ruler.at(_name, _is_only_tried_where_possible(_rule))


def inline_spans(node: SyntaxTreeNode, style: Style, palette: Palette) -> Iterator[Span]:
    """Yield the spans of an inline node. A line break is the span "\\n"."""
    match node.type:
        case "code_inline":
            yield plain(node.content), style + palette.panel
        case "softbreak" | "hardbreak":
            # Models use single line breaks for lists.
            yield "\n", style
        case "link":
            address = plain(str(node.attrs.get("href", "")))
            spans: list[Span] = []
            for child in node.children:
                spans += inline_spans(child, style + UNDERLINE, palette)
            yield from spans
            if address and "".join(text for text, _ in spans) != address:
                yield f" ({address})", style + palette.muted
        case "image":
            address = plain(str(node.attrs.get("src", "")))
            yield f"{plain(node.content)} ({address})", style + palette.muted
        case "text":
            # Entities were resolved only after the text was sanitised.
            yield plain(node.content).replace("\n", " "), style
        case kind:
            inner_style = style + _INLINE_STYLES.get(kind, Style.null())
            for child in node.children:
                yield from inline_spans(child, inner_style, palette)


def split_lines(spans: Iterator[Span]) -> list[list[Span]]:
    """Divide spans at those that are line breaks."""
    lines: list[list[Span]] = [[]]
    for text, style in spans:
        if text == "\n":
            lines.append([])
        else:
            lines[-1].append((text, style))
    return lines


def table_rows(
    table: SyntaxTreeNode, width: int, palette: Palette, mark: Callable[[list[Span]], list[Span]]
) -> list[Row]:
    """Draw a table. mark: styles the spans of a cell."""
    lines = [line for section in table.children for line in section.children]
    styles = {"th": palette.text + BOLD, "td": palette.text}
    cells = []
    for line in lines:
        cells.append(
            [mark(_on_one_line(cell, styles[cell.type], palette)) for cell in line.children]
        )

    # The first line is the header; it decides how many columns there are.
    aligns_right = ["right" in str(cell.attrs.get("style", "")) for cell in lines[0].children]
    columns = zip_longest(*cells, fillvalue=[])
    content_widths = [max(map(_width, column)) for column in columns][: len(aligns_right)]
    gaps_width = COLUMN_GAP * (len(content_widths) - 1)
    widths = fit_columns(content_widths, width - gaps_width)

    rows = list(_table_line(cells[0], widths, aligns_right, palette))
    rule_width = sum(widths) + COLUMN_GAP * (len(widths) - 1)
    rows.append(Row([("─" * rule_width, palette.hairline)]))
    for line_cells in cells[1:]:
        rows += _table_line(line_cells, widths, aligns_right, palette)
    return rows


def fit_columns(content_widths: Sequence[int], width: int) -> list[int]:
    """Make the widest columns narrower until all fit, or none can be narrower."""
    max_width = max(width, MIN_COLUMN_WIDTH)
    widths = [min(max(1, content_width), max_width) for content_width in content_widths]
    while sum(widths) > width and max(widths) > MIN_COLUMN_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    return widths


def _on_one_line(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Span]:
    spans = inline_spans(node, style, palette)
    return [(text.replace("\n", " "), span_style) for text, span_style in spans]


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _table_line(
    cells: Sequence[Sequence[Span]],
    widths: Sequence[int],
    aligns_right: Sequence[bool],
    palette: Palette,
) -> Iterator[Row]:
    """Draw a line of a table, whose cells may be wrapped to several rows."""
    columns = []
    for spans, width in zip(cells, widths, strict=False):
        cuts = word_cuts("".join(text for text, _ in spans), width)
        columns.append([_trim(row) for row in cut_spans(spans, cuts)])
    for cell_rows in zip_longest(*columns, fillvalue=[]):
        row: list[Span] = []
        for spans, width, is_right in zip(cell_rows, widths, aligns_right, strict=False):
            if row:
                row.append((" " * COLUMN_GAP, palette.text))
            padding = (" " * max(0, width - _width(spans)), palette.text)
            row += [padding, *spans] if is_right else [*spans, padding]
        yield Row(row)


def _trim(spans: list[Span]) -> list[Span]:
    if not spans:
        return spans
    text, style = spans[-1]
    return [*spans[:-1], (text.rstrip(" "), style)]


class FigureMarks:
    """Marks figures of an answer: some are in the output of a cell, others were not found."""

    def __init__(self, figures: Sequence[AnswerFigure], palette: Palette) -> None:
        self._styles: dict[str, Style] = {}
        self._code_background = palette.panel.bgcolor
        for figure in figures:
            if not figure.found:
                self._styles[plain(figure.text)] = palette.muted + UNDERLINE
            elif figure.cell is not None:
                self._styles[plain(figure.text)] = Style(meta={FIGURE_KEY: figure.cell})

    def __call__(self, spans: list[Span]) -> list[Span]:
        """Underline the figures that were not found; the others lead to their cells."""
        marked: list[Span] = []
        for text, style in spans:
            # Inline code may be a figure as a whole.
            if style.bgcolor == self._code_background:
                style += self._styles.get(f"`{text}`", Style.null())
            offset = 0
            for start, end in figure_spans(text):
                figure_style = self._styles.get(text[start:end])
                if figure_style:
                    marked.append((text[offset:start], style))
                    marked.append((text[start:end], style + figure_style))
                    offset = end
            marked.append((text[offset:], style))
        return marked


def parse(source: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    return SyntaxTreeNode(_PARSER.parse(source)).children


def first_line(block: Block) -> int:
    """Return the line of its text with which a block begins, from 0."""
    return block.map[0] if block.map else 0


class MarkdownRenderer:
    """Draws Markdown with the colours of a palette."""

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
        """Draw a block. lead: what stands before its text."""
        if block.type == "paragraph":
            return self._paragraph(block, width, lead)
        draw = self._drawers.get(block.type, self._stack)
        rows = draw(block, width)
        return [Row(lead), *rows] if lead else rows

    def document(self, source: str, width: int, bar: Style | None = None) -> list[Row]:
        """Draw a whole text. bar: the style of a bar on the left; None for none."""
        tree = SyntaxTreeNode(_PARSER.parse(source))
        rows = self._stack(tree, width)
        # Without the cycles, it is freed at once. All threads wait for a collection of garbage.
        for node in list(tree.walk()):
            node.parent = None
        return [row._replace(bar=bar) for row in rows]

    def _paragraph(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        rows: list[Row] = []
        for line in split_lines(inline_spans(block, self._palette.text, self._palette)):
            rows += paragraph([*lead, *self._mark(line)], min(width, READING_WIDTH), None)
            lead = ()
        return rows

    def _heading(self, block: Block, width: int) -> list[Row]:
        is_main = block.tag in ("h1", "h2")
        colour = self._palette.text if is_main else self._palette.muted
        spans = _on_one_line(block, colour + BOLD, self._palette)
        rows = list(paragraph(spans, min(width, READING_WIDTH), None))
        if block.tag == "h1":
            widest = max(cell_len(row.text) for row in rows)
            rows.append(Row([("─" * min(widest, width), self._palette.hairline)]))
        return rows

    def _list(self, block: Block, width: int) -> list[Row]:
        """Draw the items of a list below each other, behind their marks."""
        items = block.children
        if block.type == "ordered_list":
            start = int(block.attrs.get("start", 1))
            marks = [f"{start + index}. " for index in range(len(items))]
        else:
            marks = ["• "] * len(items)
        mark_width = max(map(len, marks))

        # The parser hides the paragraphs of a list without empty lines.
        children = [child for item in items for child in item.children]
        is_loose = any(child.type == "paragraph" and not child.hidden for child in children)
        muted = self._palette.muted
        rows: list[Row] = []
        for mark, item in zip(marks, items, strict=True):
            if rows and is_loose:
                rows.append(Row())
            inner_width = max(MIN_TEXT_WIDTH, width - mark_width)
            item_rows = self._stack(item, inner_width, loose=is_loose) or [Row()]
            first_indent = (mark.rjust(mark_width), muted)
            rows += _indent(item_rows, first_indent, (" " * mark_width, muted))
        return rows

    def _quote(self, block: Block, width: int) -> list[Row]:
        rows = []
        for row in self._stack(block, max(MIN_TEXT_WIDTH, width - 2)):
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


def _indent(rows: Sequence[Row], first: Span, others: Span) -> list[Row]:
    """Put a span before the first row, and another one before the others."""
    indented = []
    for index, row in enumerate(rows):
        indent = others if index else first
        text, _ = indent
        spans = [indent, *row.spans]
        indented.append(row._replace(spans=spans, indent=row.indent + len(text)))
    return indented


def _lexer(info: str, code: str) -> Lexer:
    """Return the lexer for a fenced block. info: what follows its fence."""
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    if language and len(code) <= MAX_HIGHLIGHTED_CHARS:
        try:
            return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
        except ClassNotFound:
            pass
    return TextLexer(stripnl=False, ensurenl=False)
