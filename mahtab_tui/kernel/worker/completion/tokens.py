"""Splits Python code, which may be incomplete or wrong, into tokens."""

from __future__ import annotations

import keyword
import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<string>(?P<prefix>[rRbBuUfFtT]{0,2})(?:(?P<q3>\"{3}|'{3})(?:\\.?|(?!(?P=q3)).)*(?P<c3>(?P=q3))?|"""
    r"""(?P<q1>["'])(?:\\.?|(?!(?P=q1))[^\n\\])*(?P<c1>(?P=q1))?))"""
    r"""|(?P<comment>\#[^\n]*)|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<newline>\n)|(?P<blank>[^\S\n]+|\\\n)|(?P<op>.)""",
    re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    """A token; offsets in characters."""

    kind: str
    """string, comment, name, number, newline or op."""
    text: str
    start: int
    end: int
    quote: str
    """Prefix and quotes of an unclosed string; otherwise empty."""


class Tokens(NamedTuple):
    """The tokens of a text, without blanks and without line breaks inside brackets."""

    all: list[Token]
    open: list[int]
    """Indices in `all` of the unclosed brackets, outermost first."""


def tokenize(text: str) -> Tokens:
    """Split a text into tokens."""
    found: list[Token] = []
    opened: list[int] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "op"
        if match["string"] is not None:
            kind = "string"
        if kind == "blank" or (kind == "newline" and opened):
            continue
        quote = ""
        if kind == "string" and not (match["c3"] or match["c1"]):
            quote = match["prefix"] + (match["q3"] or match["q1"])
        if kind == "op" and match[0] in "([{":
            opened.append(len(found))
        elif kind == "op" and match[0] in _CLOSES and opened:
            opened.pop()
        found.append(Token(kind, match[0], match.start(), match.end(), quote))
    return Tokens(found, opened)


def ends_expression(token: Token) -> bool:
    """Tell whether an opening bracket after the token is a call or a subscript."""
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.text in (")", "]", "}") or token.kind == "string"


def expression(tokens: list[Token], last: int) -> int | None:
    """Return the index of the first token of the expression (names, attributes, calls, subscripts,
    literals) that ends with the token `last`; None if there is none."""
    place = last
    while place >= 0:
        token = tokens[place]
        if token.text in _CLOSES and token.kind == "op":
            first = opening(tokens, place)
            if first is None:
                return None
            before = first - 1
            if token.text == "}" or before < 0 or not ends_expression(tokens[before]):
                return first
            place = before
        elif token.kind in ("name", "number", "string") and not (
            token.kind == "name" and keyword.iskeyword(token.text) and token.text != "None"
        ):
            if place == 0 or tokens[place - 1].text != ".":
                return place
            place -= 2
        else:
            return None
    return None


def opening(tokens: list[Token], closing: int) -> int | None:
    """Return the index of the bracket that a closing one closes."""
    depth = 0
    for place in range(closing, -1, -1):
        token = tokens[place]
        if token.kind != "op":
            continue
        depth += (token.text in _CLOSES) - (token.text in "([{")
        if depth == 0:
            return place
    return None
