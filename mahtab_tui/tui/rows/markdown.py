"""Renders Markdown as rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

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
from mahtab_tui.tui.rows.markdown_parser import Block, parse_document
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, paragraph, word_cuts
from mahtab_tui.tui.theme import BOLD, ITALIC, STRIKE, UNDERLINE, Palette

READING_WIDTH = 100
"""The maximum width of prose, in cells, because wider rows are hard to read."""
MIN_TEXT_WIDTH = 8
"""Text in lists and quotes gets at least this many cells, however deeply they are nested."""
COLUMN_GAP = 2
"""Cells between the columns of a table."""
MIN_COLUMN_WIDTH = 6
"""A column is not made narrower than this many cells."""
MAX_HIGHLIGHTED_CHARS = 20_000
"""A longer fenced block is not highlighted."""
FIGURE_KEY = "figure"
"""The key, in the `meta` of a style, of the number of the cell that printed a figure."""
_INLINE_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE}

MarkSpans = Callable[[list[Span]], list[Span]]
"""Gets the spans of a line or of a table cell, and returns them with further styles."""


class MarkdownRenderer:
    """Draws Markdown with the colours of a palette."""

    def __init__(self, palette: Palette, mark: MarkSpans = list) -> None:
        """
        Args:
            palette: The colours.
            mark: Styles the spans of a line, or of a cell of a table.
        """
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
        """The methods that draw a block in a width, by the type of the block."""

    def rows(self, block: Block, width: int, lead: Sequence[Span] = ()) -> list[Row]:
        """Draw a block.

        Args:
            block: The block.
            width: The width of a row, in cells.
            lead: Spans that stand before the text of a paragraph, or on a row above another block.
        """
        if block.type == "paragraph":
            return self._paragraph(block, width, lead)
        draw = self._drawers.get(block.type, self._stack)
        rows = draw(block, width)
        return [Row(lead), *rows] if lead else rows

    def document(self, source: str, width: int, bar: Style | None = None) -> list[Row]:
        """Draw a whole text.

        Args:
            source: The text, in Markdown.
            width: The width of a row, in cells.
            bar: The style of a bar on the left; None for no bar.
        """
        tree = parse_document(source)
        rows = self._stack(tree, width)
        # Without its cycles, the tree is freed at once. A collection of garbage would stop all threads.
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
        """Draw the items of a list below each other, with their marks before them."""
        items = block.children
        if block.type == "ordered_list":
            start = int(block.attrs.get("start", 1))
            marks = [f"{start + index}. " for index in range(len(items))]
        else:
            marks = ["• "] * len(items)
        mark_width = max(map(len, marks))

        # In a list without empty lines, the parser marks the paragraphs as hidden.
        children = [child for item in items for child in item.children]
        is_loose = any(child.type == "paragraph" and not child.hidden for child in children)
        muted = self._palette.muted
        rows: list[Row] = []
        for mark, item in zip(marks, items, strict=True):
            if rows and is_loose:
                rows.append(Row())
            inner_width = max(MIN_TEXT_WIDTH, width - mark_width)
            item_rows = self._stack(item, inner_width, is_loose=is_loose) or [Row()]
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
        rows = list(code_rows(_lexer(block.info, code), code, width, self._palette))
        # The first word is the language. There are rarely others.
        _, *title_words = block.info.split() or [""]
        if title_words:
            title = (plain(" ".join(title_words)), self._palette.muted)
            rows[:0] = paragraph([title], width, None)
        return rows

    def _rule(self, block: Block, width: int) -> list[Row]:
        return [Row([("─" * min(width, READING_WIDTH), self._palette.hairline)])]

    def _table(self, block: Block, width: int) -> list[Row]:
        return table_rows(block, width, self._palette, self._mark)

    def _stack(self, block: Block, width: int, *, is_loose: bool = True) -> list[Row]:
        """Draw the blocks in a block below each other. If it is loose, an empty row separates them."""
        rows: list[Row] = []
        for child in block.children:
            if rows and is_loose:
                rows.append(Row())
            rows += self.rows(child, width)
        return rows


def _indent(rows: Sequence[Row], first: Span, others: Span) -> list[Row]:
    """Put a span before the first row, and another one before the others."""
    indented: list[Row] = []
    for index, row in enumerate(rows):
        indent = others if index else first
        text, _ = indent
        spans = [indent, *row.spans]
        indented.append(row._replace(spans=spans, indent=row.indent + len(text)))
    return indented


def _lexer(info: str, code: str) -> Lexer:
    """Return the lexer for a fenced block.

    Args:
        info: What follows the opening fence, which begins with the name of a language.
        code: The code in the block.
    """
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    if language and len(code) <= MAX_HIGHLIGHTED_CHARS:
        try:
            return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
        except ClassNotFound:
            pass
    return TextLexer(stripnl=False, ensurenl=False)


def table_rows(
    table: SyntaxTreeNode, width: int, palette: Palette, mark: MarkSpans = list
) -> list[Row]:
    """Draw a table.

    Args:
        table: The table, with its header and its body.
        width: The width of a row, in cells.
        palette: The colours.
        mark: Styles the spans of a cell.
    """
    lines = [line for section in table.children for line in section.children]
    styles = {"th": palette.text + BOLD, "td": palette.text}
    cells: list[list[list[Span]]] = []
    for line in lines:
        line_cells = [_on_one_line(cell, styles[cell.type], palette) for cell in line.children]
        cells.append([mark(spans) for spans in line_cells])

    # The first line is the header. It decides how many columns there are.
    aligns_right = ["right" in str(cell.attrs.get("style", "")) for cell in lines[0].children]
    columns = zip_longest(*cells, fillvalue=[])
    content_widths = [max(map(_width, column)) for column in columns][: len(aligns_right)]
    gaps_width = COLUMN_GAP * (len(content_widths) - 1)
    widths = fit_columns(content_widths, width - gaps_width)

    header_cells, *body_cells = cells
    rows = list(_table_line(header_cells, widths, aligns_right, palette))
    rows.append(Row([("─" * (sum(widths) + gaps_width), palette.hairline)]))
    for line_cells in body_cells:
        rows += _table_line(line_cells, widths, aligns_right, palette)
    return rows


def fit_columns(content_widths: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns. The widest become narrower until all fit, or none can be narrower.

    Args:
        content_widths: The width of the widest cell of each column.
        width: The width of all columns together.
    """
    max_width = max(width, MIN_COLUMN_WIDTH)
    widths = [min(max(1, content_width), max_width) for content_width in content_widths]
    while sum(widths) > width and max(widths) > MIN_COLUMN_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    return widths


def _table_line(
    cells: Sequence[Sequence[Span]],
    widths: Sequence[int],
    aligns_right: Sequence[bool],
    palette: Palette,
) -> Iterator[Row]:
    """Yield the rows of one line of a table. There are several if a cell is wrapped."""
    columns: list[list[list[Span]]] = []
    for spans, width in zip(cells, widths, strict=False):
        cuts = word_cuts("".join(text for text, _ in spans), width)
        columns.append([_trim(row_spans) for row_spans in cut_spans(spans, cuts)])
    for row_cells in zip_longest(*columns, fillvalue=[]):
        row: list[Span] = []
        for spans, width, is_right in zip(row_cells, widths, aligns_right, strict=False):
            if row:
                row.append((" " * COLUMN_GAP, palette.text))
            padding = (" " * max(0, width - _width(spans)), palette.text)
            row += [padding, *spans] if is_right else [*spans, padding]
        yield Row(row)


def _trim(spans: list[Span]) -> list[Span]:
    """Return spans without the blanks at their end."""
    if not spans:
        return spans
    text, style = spans[-1]
    return [*spans[:-1], (text.rstrip(" "), style)]


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def inline_spans(node: SyntaxTreeNode, style: Style, palette: Palette) -> Iterator[Span]:
    """Yield the spans of a node within a paragraph, heading or cell. A line break is the span "\\n".

    Args:
        node: The node.
        style: The style of the text around it.
        palette: The colours.
    """
    match node.type:
        case "code_inline":
            yield plain(node.content), style + palette.panel
        case "softbreak" | "hardbreak":
            # Models use single line breaks for lists.
            yield "\n", style
        case "link":
            address = _address(node, "href")
            spans: list[Span] = []
            for child in node.children:
                spans += inline_spans(child, style + UNDERLINE, palette)
            yield from spans
            if address and "".join(text for text, _ in spans) != address:
                yield f" ({address})", style + palette.muted
        case "image":
            yield f"{plain(node.content)} ({_address(node, 'src')})", style + palette.muted
        case "text":
            # Entities were resolved only after the text was sanitised.
            yield plain(node.content).replace("\n", " "), style
        case kind:
            inner_style = style + _INLINE_STYLES.get(kind, Style.null())
            for child in node.children:
                yield from inline_spans(child, inner_style, palette)


def _address(node: SyntaxTreeNode, attribute: str) -> str:
    """Return the address of a link or picture, with its title if it has one."""
    address = str(node.attrs.get(attribute, ""))
    title = str(node.attrs.get("title", "")).replace("\n", " ")
    return plain(f'{address} "{title}"' if title else address)


def split_lines(spans: Iterable[Span]) -> list[list[Span]]:
    """Return the spans of each line. Spans that are line breaks separate the lines."""
    lines: list[list[Span]] = [[]]
    for text, style in spans:
        if text == "\n":
            lines.append([])
        else:
            lines[-1].append((text, style))
    return lines


def _on_one_line(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Span]:
    """Return the spans of a node, with blanks in place of line breaks."""
    spans = inline_spans(node, style, palette)
    return [(text.replace("\n", " "), span_style) for text, span_style in spans]


class FigureMarks:
    """Marks the figures of an answer, as `MarkSpans`.

    Figures that are in the output of a cell lead to the cell. Figures that are in no output are
    underlined.
    """

    def __init__(self, figures: Sequence[AnswerFigure], palette: Palette) -> None:
        self._styles: dict[str, Style] = {}
        """The styles of the figures, by their texts."""
        self._code_background = palette.panel.bgcolor
        for figure in figures:
            if not figure.has_source:
                self._styles[plain(figure.text)] = palette.muted + UNDERLINE
            elif figure.cell is not None:
                self._styles[plain(figure.text)] = Style(meta={FIGURE_KEY: figure.cell})

    def __call__(self, spans: list[Span]) -> list[Span]:
        """Return spans in which the figures are marked."""
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
