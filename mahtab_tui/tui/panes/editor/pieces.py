"""Finds strings, comments and brackets in Python text that may be incomplete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_PIECE = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?(?:"""|\\?\Z)|' + r"'''(?:[^\\]|\\.)*?(?:'''|\\?\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    + r"'(?:[^'\\\n]|\\.)*'?)|(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])",
    re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


class SourceSpan(NamedTuple):
    """A string, or a pair of brackets with the text between them. Offsets are in characters; `end`
    is inclusive."""

    start: int
    end: int
    bracket: bool


def spans(text: str) -> Iterator[SourceSpan]:
    """Yield the strings and pairs of brackets of a text, in the order of their ends. Brackets
    without a partner are left out."""
    opened: list[tuple[str, int]] = []
    for piece in _PIECE.finditer(text):
        if piece["string"]:
            yield SourceSpan(piece.start(), piece.end() - 1, bracket=False)
        elif (bracket := piece["bracket"]) in _CLOSES:
            if opened and opened[-1][0] == _CLOSES[bracket]:
                yield SourceSpan(opened.pop()[1], piece.start(), bracket=True)
        elif bracket:
            opened.append((bracket, piece.start()))


def bare(text: str) -> str:
    """Remove comments, and empty all strings."""
    return _PIECE.sub(lambda piece: '""' if piece["string"] else piece["bracket"] or "", text)


def outside_of_strings(text: str, changed: Callable[[str], str]) -> str:
    """Apply a function to the text outside of strings and comments."""
    parts: list[str] = []
    end = 0
    for piece in _PIECE.finditer(text):
        if not piece["bracket"]:
            parts += [changed(text[end : piece.start()]), piece[0]]
            end = piece.end()
    return "".join([*parts, changed(text[end:])])
