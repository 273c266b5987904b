"""Parses Markdown of answers, in linear time and without losing a word."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.parser_inline import RuleFuncInlineType
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.tree import SyntaxTreeNode

_MAX_NESTING = 20
"""Lists and quotes within each other; deeper ones are not parsed."""
_LINK_MIDDLE = "]("
"""What stands in the middle of each link and picture."""

Block = SyntaxTreeNode
"""A block of a text, such as a paragraph or a list, with its parts."""


def parse_document(source: str) -> SyntaxTreeNode:
    """Return the tree of a Markdown text."""
    return SyntaxTreeNode(_PARSER.parse(source))


def parse(source: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    return parse_document(source).children


def first_line(block: Block) -> int:
    """Return the index of the line of its text with which a block begins."""
    return block.map[0] if block.map else 0


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    # HTML and link definitions are shown as text, so that nothing in an answer disappears.
    parser.disable(["code", "reference"])
    parser.inline.ruler.at("link", _skip_hopeless_brackets(link))
    parser.inline.ruler.at("image", _skip_hopeless_brackets(image))
    return parser


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
