"""Colours for texts in known languages."""

from __future__ import annotations

import ast
import json
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType
from rich.style import Style

from mahtab_tui.tui.rows.palette import Palette

MOST = 200_000
"""Characters of a text that is coloured."""
SECONDS = 3.0
"""How long that may take."""
_HEAD = 20_000
"""Characters at the beginning from which the language is guessed."""

_MARKUP = re.compile(r"\s*<(?:\?xml|!doctype|[a-z][\w:-]*[\s/>])", re.IGNORECASE)
_MARKDOWN = re.compile(
    r"^(?:#{1,6} \S|```|[-*] \S.*\n[-*] \S|\d+\. \S|\|.*\|$)|\[[^\[\]\n]{1,200}\]\([^()\n]{1,500}\)|\*\*\S",
    re.MULTILINE,
)
_CODE = re.compile(
    r"^(?:def |class |import |from \w+ import |@\w|async def )|^\w+(?:\.\w+)* = ", re.MULTILINE
)


def language_of(text: str) -> str:
    """Guess ``json``, ``xml``, ``html``, ``python``, ``markdown``, or an empty text for plain
    text."""
    begins = text[:2000].lstrip()
    if begins[:1] in ("{", "[") and _parses(text):
        return "json"
    if _MARKUP.match(text):
        return "html" if re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE) else "xml"
    if _CODE.search(text[:_HEAD]) and _is_code(text):
        return "python"
    return "markdown" if _MARKDOWN.search(text[:_HEAD]) else ""


class Colours:
    """The kinds of the characters of a text."""

    def __init__(self, text: str, language: str) -> None:
        """Raises `TimeoutError` after `SECONDS`, because a text in another language can keep a
        lexer busy for hours."""
        self.language = language
        self._tokens: list[tuple[int, int, TokenType]] = []
        """Starts, ends and kinds."""
        end = time.monotonic() + SECONDS
        for start, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(text):
            self._tokens.append((start, start + len(value), kind))
            if time.monotonic() > end:
                raise TimeoutError
        self._starts = [token[0] for token in self._tokens]

    def spans(self, start: int, end: int, palette: Palette) -> Iterator[tuple[int, int, Style]]:
        """Yield the styles of a part, with their places in the text."""
        place = max(0, bisect_right(self._starts, start) - 1)
        for first, after, kind in self._tokens[place : bisect_left(self._starts, end)]:
            yield max(start, first), min(end, after), palette.token(kind)


def colours_of(text: str, language: str = "") -> Colours | None:
    """Colour a text in a language, by default the guessed one; None if it is not known, or takes
    too long."""
    written = language or language_of(text)
    try:
        return Colours(text, written) if written else None
    except TimeoutError:
        return None


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_code(text: str) -> bool:
    """Whether the beginning of a text, up to an empty line, is Python. No more is parsed, because
    parsing blocks the other threads."""
    if len(text) > _HEAD:
        text = text[: max(text.rfind("\n\n", 0, _HEAD), 0)]
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
