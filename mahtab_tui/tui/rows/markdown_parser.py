"""Parses Markdown of answers, in linear time."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.parser_block import RuleFuncBlockType
from markdown_it.parser_inline import RuleFuncInlineType
from markdown_it.rules_block import StateBlock, blockquote, list_block, table
from markdown_it.rules_block.table import escapedSplit, getLine
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

_MAX_NESTING = 20
"""The parser drops blocks that are nested this deep. Each list counts twice, for itself and for its
item, and each quote once. Lists and quotes whose content would be so deep stay text, with their
marks."""
_LIST_LEVELS = 2
_BLOCKS_ENDED_BY_LIST = ("paragraph", "reference", "blockquote")
"""The parser's own table: the blocks that end where a list begins, without an empty line."""
_BLOCKS_ENDED_BY_QUOTE = (*_BLOCKS_ENDED_BY_LIST, "list")
_LINK_MIDDLE = "]("
"""What stands in the middle of each link and picture."""

Block = SyntaxTreeNode
"""A block of a text, such as a paragraph or a list, with its parts."""


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    # Definitions of links stay text, as HTML does, because they would not be drawn. Indented text is
    # no code: models fence their code, and indent what continues a list.
    parser.disable(["code", "reference"])
    parser.block.ruler.at("table", _whole_table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.at(
        "blockquote", _limit_nesting(blockquote), {"alt": list(_BLOCKS_ENDED_BY_QUOTE)}
    )
    parser.block.ruler.at("list", _limit_nesting(list_block), {"alt": list(_BLOCKS_ENDED_BY_LIST)})
    parser.inline.ruler.at("link", _skip_hopeless_brackets(link))
    parser.inline.ruler.at("image", _skip_hopeless_brackets(image))
    return parser


def _whole_table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse a table. What a row has beyond the columns of the header goes into its last cell.

    The parser's own rule drops it.
    """
    first_token = len(state.tokens)
    if not table(state, start_line, end_line, silent):
        return False
    cells: list[Token] = []
    for token in state.tokens[first_token:]:
        if token.type == "tr_open":
            cells = []
        elif token.type == "inline":
            cells.append(token)
        elif token.type == "tr_close" and cells[-1].map is not None:
            line = getLine(state, cells[-1].map[0]).strip()
            texts = escapedSplit(line.removeprefix("|"))
            if texts and not texts[-1]:
                texts.pop()
            further_texts = [text.strip() for text in texts[len(cells) :]]
            cells[-1].content = " | ".join([cells[-1].content, *further_texts])
    return True


def _limit_nesting(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    """Return a rule for lists or quotes that fails where their content would be too deep."""

    def limited_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        if state.level + _LIST_LEVELS >= _MAX_NESTING:
            return False
        return rule(state, start_line, end_line, silent)

    return limited_rule


def _skip_hopeless_brackets(rule: RuleFuncInlineType) -> RuleFuncInlineType:
    """Return a rule for links or pictures that fails at once behind the last middle of a link.

    Otherwise, the parser would search the rest of a text with many brackets for each of them.
    """
    # A text, and where its last middle is. Replaced as a whole, because threads share it.
    last_search: tuple[str, int] = ("", -1)

    def quick_rule(state: StateInline, silent: bool) -> bool:
        nonlocal last_search
        text, last_middle = last_search
        if state.src is not text:
            last_middle = state.src.rfind(_LINK_MIDDLE)
            last_search = (state.src, last_middle)
        return state.pos < last_middle and rule(state, silent)

    return quick_rule


_PARSER = _make_parser()


def parse_document(source: str) -> SyntaxTreeNode:
    """Return the tree of a Markdown text."""
    return SyntaxTreeNode(_PARSER.parse(source))


def parse(source: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    return parse_document(source).children


def first_line(block: Block) -> int:
    """Return the index of the line of its text with which a block begins."""
    return block.map[0] if block.map else 0
