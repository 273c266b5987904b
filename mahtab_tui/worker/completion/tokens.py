"""Splits code into tokens, also code that is not complete, and finds the expression that ends at
one.

Python's own `tokenize` gives up where a string or a bracket is not closed, which is where code is
completed.
"""

from __future__ import annotations

import keyword
import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<string>(?P<prefix>[rRbBuUfFtT]{0,2})(?:"
    # Three quotes, up to three of the same (`c3`), or to the end of the code.
    r"""(?P<q3>\"{3}|'{3})(?:\\.?|(?!(?P=q3)).)*(?P<c3>(?P=q3))?"""
    # One quote, up to the same (`c1`), or to the end of the line.
    r"""|(?P<q1>["'])(?:\\.?|(?!(?P=q1))[^\n\\])*(?P<c1>(?P=q1))?))"""
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<newline>\n)"
    r"|(?P<blank>[^\S\n]+|\\\n)"
    # Any other character.
    r"|(?P<op>.)",
    re.DOTALL,
)
_OPENING_BRACKETS = frozenset("([{")
_CLOSING_BRACKETS = frozenset(")]}")


class Token(NamedTuple):
    """A word, number, string, comment, line break or operator."""

    kind: str
    """The name of a group of `_TOKEN`."""
    text: str
    start: int
    """Its place in the code, in characters."""
    end: int
    quote: str
    """Prefix and quotes, if it is a string that is not closed; otherwise empty."""


class Tokens(NamedTuple):
    """Tokens without blanks, and without line breaks inside brackets."""

    all: list[Token]
    open: list[int]
    """Indexes in `all` of the unclosed brackets, outermost first."""


def tokenize(text: str) -> Tokens:
    """Split code into tokens. Any text has some; what is not Python becomes operators."""
    tokens: list[Token] = []
    open_brackets: list[int] = []
    for match in _TOKEN.finditer(text):
        # The last group of a string is one in it.
        kind = "string" if match["string"] is not None else match.lastgroup or "op"
        if kind == "blank" or (kind == "newline" and open_brackets):
            continue
        quote = ""
        if kind == "string" and not (match["c3"] or match["c1"]):
            quote = match["prefix"] + (match["q3"] or match["q1"])
        if kind == "op" and match[0] in _OPENING_BRACKETS:
            open_brackets.append(len(tokens))
        elif kind == "op" and match[0] in _CLOSING_BRACKETS and open_brackets:
            open_brackets.pop()
        tokens.append(Token(kind, match[0], match.start(), match.end(), quote))
    return Tokens(tokens, open_brackets)


def next_line_start(text: str, start: int) -> int | None:
    """Return where the line after the one at `start` begins, if a statement can begin there.

    Lines inside strings and brackets, and after a backslash, are part of the line before them.

    Args:
        text: The code.
        start: An index where a line begins, outside strings and brackets.

    Returns:
        An index; None if there is no other line.
    """
    depth = 0
    for match in _TOKEN.finditer(text, start):
        if match["newline"] and depth == 0:
            return match.end()
        if match["op"] and match[0] in _OPENING_BRACKETS:
            depth += 1
        elif match["op"] and match[0] in _CLOSING_BRACKETS:
            depth = max(0, depth - 1)
    return None


def expression_text(code: str, tokens: list[Token], last: int) -> str:
    """Return the source of the expression that ends with a token, such as `a.b[1].c`.

    Args:
        code: The code.
        tokens: Its tokens.
        last: The index in `tokens` of the expression's last token; -1 if there is none.

    Returns:
        The source; empty if no expression ends there.
    """
    end = tokens[last].end if last >= 0 else 0
    # Go back from the end: over calls, indexes, and names with a dot before them.
    index = last
    while index >= 0:
        token = tokens[index]
        if token.kind == "op" and token.text in _CLOSING_BRACKETS:
            opening = _find_opening(tokens, index)
            if opening is None:
                return ""
            # A bracket belongs to the expression before it, if there is one: a call or an index.
            if token.text == "}" or opening == 0 or not _ends_expression(tokens[opening - 1]):
                return code[tokens[opening].start : end]
            index = opening - 1
        elif _is_operand(token):
            has_owner = index > 0 and tokens[index - 1].text == "."
            if not has_owner:
                return code[token.start : end]
            index -= 2
        else:
            return ""
    return ""


def _is_operand(token: Token) -> bool:
    """Return whether a token is a value by itself: a number, a string, or a name."""
    if token.kind == "name":
        return not keyword.iskeyword(token.text) or token.text == "None"
    return token.kind in ("number", "string")


def _ends_expression(token: Token) -> bool:
    """Return whether an expression may end with a token, so that a bracket after it belongs to it."""
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.text in _CLOSING_BRACKETS or token.kind == "string"


def _find_opening(tokens: list[Token], closing: int) -> int | None:
    """Return the index of the bracket that a closing bracket closes; None if there is none."""
    depth = 0
    for index in range(closing, -1, -1):
        token = tokens[index]
        if token.kind != "op":
            continue
        if token.text in _CLOSING_BRACKETS:
            depth += 1
        elif token.text in _OPENING_BRACKETS:
            depth -= 1
        if depth == 0:
            return index
    return None


def callee_text(code: str, tokens: list[Token], bracket: int) -> str:
    """Return the source of what an opening bracket calls or indexes; empty if it does neither.

    Args:
        code: The code.
        tokens: Its tokens.
        bracket: The index in `tokens` of the bracket.
    """
    if bracket < 1 or not _ends_expression(tokens[bracket - 1]):
        return ""
    is_definition = bracket > 1 and tokens[bracket - 2].text in ("def", "class")
    if is_definition:
        return ""
    return expression_text(code, tokens, bracket - 1)


def call_at(code: str, cursor: int) -> str:
    """Return the source of what is called around the cursor, else of the expression at it."""
    tokens = tokenize(code[:cursor])
    for bracket in reversed(tokens.open):
        if callee := callee_text(code, tokens.all, bracket):
            return callee

    # The whole word counts, also if the cursor is inside it.
    end = cursor
    while end < len(code) and (code[end].isalnum() or code[end] == "_"):
        end += 1
    tokens_before = tokenize(code[:end]).all
    last = len(tokens_before) - 1
    if last >= 0 and tokens_before[last].text == ")":
        opening = _find_opening(tokens_before, last)
        if opening is not None and (callee := callee_text(code, tokens_before, opening)):
            return callee
    return expression_text(code, tokens_before, last)
