"""The colours of a text in a programming or markup language, which Pygments finds."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress

from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType
from pygments.util import ClassNotFound
from rich.style import Style

from mahtab_tui.tui.theme import Palette

LEXER_TIMEOUT_S = 3.0
"""After this many seconds, no more tokens of a text are looked for."""
_SAMPLE_CHARS = 2000
"""The characters at the start of a text in which its first sign is looked for."""
_MARKUP = re.compile(r"\s*<(?:\?xml|!doctype|[a-z][\w:-]*[\s/>])", re.IGNORECASE)
"""The start of a text in XML or HTML."""


def guess_language(text: str) -> str:
    """Return ``json``, ``xml`` or ``html``; empty if a text is in none of these."""
    if text[:_SAMPLE_CHARS].lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return "json"
    if _MARKUP.match(text):
        is_html = re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE)
        return "html" if is_html else "xml"
    return ""


class TokenColours:
    """The tokens of a text, which give it its colours. They are found once, for all widths."""

    def __init__(self, text: str, language: str) -> None:
        """Find the tokens of a text.

        Args:
            text: The text.
            language: Pygments' name of its language.

        Raises:
            TimeoutError: `LEXER_TIMEOUT_S` have passed: a wrong language can keep a lexer busy for
                hours.
        """
        self.language = language
        """Pygments' name of the language."""
        self._tokens: list[tuple[int, int, TokenType]] = []
        """The start, the end and the kind of each token, in order. Offsets are in characters."""
        deadline = time.monotonic() + LEXER_TIMEOUT_S
        for start, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(text):
            self._tokens.append((start, start + len(value), kind))
            if time.monotonic() > deadline:
                raise TimeoutError
        self._starts = [token[0] for token in self._tokens]

    def spans(self, start: int, end: int, palette: Palette) -> Iterator[tuple[int, int, Style]]:
        """Yield the style of each token between two offsets, with the part of it that lies there.

        Args:
            start: The first character.
            end: The character after the last one.
            palette: The colours for the kinds of tokens.

        Yields:
            The start and the end of the part, and its style.
        """
        # The first token may begin before `start`.
        first_token = max(0, bisect_right(self._starts, start) - 1)
        end_token = bisect_left(self._starts, end)
        for token_start, token_end, kind in self._tokens[first_token:end_token]:
            yield max(start, token_start), min(end, token_end), palette.token(kind)


def colour_text(text: str, language: str = "") -> TokenColours | None:
    """Return the colours of a text. Any thread may call this, and wait for `LEXER_TIMEOUT_S`.

    Args:
        text: The text.
        language: Pygments' name of its language; empty to guess it.

    Returns:
        The colours; None if the language is unknown, or finding them takes too long.
    """
    language = language or guess_language(text)
    if not language:
        return None
    try:
        return TokenColours(text, language)
    except (ClassNotFound, TimeoutError):
        return None
