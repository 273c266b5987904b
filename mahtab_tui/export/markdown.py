"""Markdown that is shown to others: escaped texts, code blocks, and what must do nothing."""

from __future__ import annotations

import re
from itertools import chain
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mahtab_tui.bus.sanitize import one_line

SAFE_SCHEMES = ("http", "https", "mailto")
"""Schemes of links that lead to a page."""
FOLLOWING_TEXT = "what follows"
"""A paragraph that is put after a text: it becomes part of any block that the text leaves open."""
MAX_PARSED_CHARS = 200_000
"""With more characters, the parser would take many seconds."""
MAX_MARKDOWN_DEPTH = 20
_MARKUP = re.compile("[<[]|```|~~~")
"""Text without it has no tag, picture, link or open code block."""
_HTML_PARSER = MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_MARKDOWN_DEPTH})
# The parser must not leave out links, because `_is_harmless` has to see them.
_HTML_PARSER.validateLink = lambda url: True  # type: ignore[method-assign]


def escape_markdown(text: str) -> str:
    """Return a text on one line whose characters have no meaning in Markdown."""
    return re.sub(r"([\\`*_\[\]>#&~|!])", r"\\\1", one_line(text)).replace("<", "&lt;")


def code_block(text: str, language: str = "") -> str:
    """Return a text as a Markdown code block that nothing in the text can close."""
    longest_run = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest_run + 1)
    code = text.rstrip("\n")
    return f"{fence}{language}\n{code}\n{fence}"


def make_inert(text: str) -> str:
    """Return Markdown as it is if it is harmless, otherwise as a code block.

    Harmless Markdown contains neither tags nor pictures, links only to pages, and closes its
    blocks.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    if not _MARKUP.search(text):
        return text
    if len(text) > MAX_PARSED_CHARS or not _is_inert(text):
        return code_block(text, "text")
    return text


def _is_inert(text: str) -> bool:
    """Return whether Markdown closes its blocks, and contains nothing that acts."""
    tokens = _HTML_PARSER.parse(f"{text}\n\n{FOLLOWING_TEXT}")
    if len(tokens) < 2:
        return False
    # The last token ends the paragraph that follows, the one before is its content.
    following = tokens[-2]
    is_paragraph = following.type == "inline" and following.level == 1
    if not is_paragraph or following.content != FOLLOWING_TEXT:
        return False
    inline_tokens = chain.from_iterable(token.children or () for token in tokens)
    return all(map(_is_harmless, chain(tokens, inline_tokens)))


def _is_harmless(token: Token) -> bool:
    """Return whether a piece of Markdown is neither markup nor a picture, and links only to a page."""
    if token.type in ("html_block", "html_inline", "image"):
        return False
    # The parser stops at its depth, and would leave what is deeper unparsed.
    if token.level >= MAX_MARKDOWN_DEPTH - 1:
        return False
    try:
        address = urlsplit(str(token.attrGet("href") or "").strip())
    except ValueError:
        return False
    is_relative = not address.scheme and not address.netloc
    return is_relative or address.scheme.lower() in SAFE_SCHEMES
