"""Puts texts by others into Markdown, harmless also for programs that draw tags and load
pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mahtab_tui.bus.sanitize import one_line

SCHEMES = ("http", "https", "mailto")
"""Schemes of links that lead to a page."""
_AFTER = "what follows"
_LONG = 200_000
"""Characters; of more, the parser would need many seconds."""
_MARKUP = re.compile("[<[]|```|~~~")
"""Without it, a text has no tag, picture, link or open block of code."""
_DEEP = 20
"""Levels of nesting that are read."""
_TRUSTING = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEP})
_TRUSTING.validateLink = lambda url: True  # type: ignore[method-assign]


def escaped(text: str) -> str:
    """Return a text as one line of Markdown that has no markup."""
    return re.sub(r"([\\`*_\[\]>#&~|!])", r"\\\1", one_line(text)).replace("<", "&lt;")


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of Markdown, which nothing in it ends."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def inert(text: str) -> str:
    """Return Markdown as it is if it draws no tag and no picture, links to pages only and ends
    where it ends; else as a block of code."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    if _MARKUP.search(text) and (len(text) > _LONG or not _is_inert(text)):
        return fenced(text, "text")
    return text


def _is_inert(made: str) -> bool:
    """Return whether a program that trusts a text would draw no tag and no picture, link to pages
    only, and end it where it ends."""
    tokens = _TRUSTING.parse(f"{made}\n\n{_AFTER}")
    ends = any(
        token.type == "inline" and token.content == _AFTER and token.level == 1
        for token in tokens[-2:-1]
    )
    return ends and all(map(_is_harmless, _all(tokens)))


def _is_harmless(token: Token) -> bool:
    return (
        token.level < _DEEP - 1
        and token.type not in ("html_block", "html_inline", "image")
        and _may_be_linked(token)
    )


def _all(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _may_be_linked(token: Token) -> bool:
    """Return whether a token that is a link leads to a page, or to a place in the text."""
    try:
        address = urlsplit(str(token.attrGet("href") or "").strip())
    except ValueError:
        return False
    return address.scheme.lower() in SCHEMES or not (address.scheme or address.netloc)
