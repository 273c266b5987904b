"""Python text in pieces, as far as that can be told of a text that is not finished: strings, comments, brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_PIECE = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?(?:"""|\\?\Z)|' + r"'''(?:[^\\]|\\.)*?(?:'''|\\?\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|' + r"'(?:[^'\\\n]|\\.)*'?)|(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])",
    re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


class Span(NamedTuple):
    """A string, or a bracket and its partner with what stands between them; offsets in characters, `end` is that of the last one."""

    start: int
    end: int
    bracket: bool


def spans(text: str) -> Iterator[Span]:
    """The strings and the pairs of brackets of a text, in the order of their ends. A bracket without a partner is left out."""
    opened: list[tuple[str, int]] = []
    for piece in _PIECE.finditer(text):
        if piece["string"]:
            yield Span(piece.start(), piece.end() - 1, bracket=False)
        elif (bracket := piece["bracket"]) in _CLOSES:
            if opened and opened[-1][0] == _CLOSES[bracket]:
                yield Span(opened.pop()[1], piece.start(), bracket=True)
        elif bracket:
            opened.append((bracket, piece.start()))


def bare(text: str) -> str:
    """The text without comments, and with empty strings."""
    return _PIECE.sub(lambda piece: '""' if piece["string"] else piece["bracket"] or "", text)


def outside_of_strings(text: str, changed: Callable[[str], str]) -> str:
    """The text with what stands outside of its strings and comments changed."""
    parts: list[str] = []
    end = 0
    for piece in _PIECE.finditer(text):
        if not piece["bracket"]:
            parts += [changed(text[end : piece.start()]), piece[0]]
            end = piece.end()
    return "".join([*parts, changed(text[end:])])
