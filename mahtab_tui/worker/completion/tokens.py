"""Splits code into tokens, also code that is not complete, and finds the expression that ends at
one."""

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
_CLOSES = frozenset(")]}")


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    quote: str
    """Prefix and quotes, if the string is unclosed."""


class Tokens(NamedTuple):
    """Tokens without blanks, and without line breaks inside brackets."""

    all: list[Token]
    open: list[int]
    """Indexes in `all` of the unclosed brackets, outermost first."""


def tokenize(text: str) -> Tokens:
    """Split code into tokens. Any text has some; what is not Python becomes operators."""
    tokens: list[Token] = []
    opened: list[int] = []
    for match in _TOKEN.finditer(text):
        if match["string"] is not None:
            kind = "string"
        else:
            kind = match.lastgroup or "op"
        if kind == "blank" or (kind == "newline" and opened):
            continue
        quote = ""
        if kind == "string" and not (match["c3"] or match["c1"]):
            quote = match["prefix"] + (match["q3"] or match["q1"])
        if kind == "op" and match[0] in "([{":
            opened.append(len(tokens))
        elif kind == "op" and match[0] in _CLOSES and opened:
            opened.pop()
        tokens.append(Token(kind, match[0], match.start(), match.end(), quote))
    return Tokens(tokens, opened)


def next_line_start(text: str, start: int) -> int | None:
    """Return where the line after the one at `start` begins, if a statement can begin there.

    Lines inside strings and brackets, and after a backslash, are part of the line before them.

    Args:
        text: the code.
        start: an index where a line begins, outside strings and brackets.

    Returns:
        An index; None if there is no other line.
    """
    depth = 0
    for match in _TOKEN.finditer(text, start):
        if match["newline"] and depth == 0:
            return match.end()
        if match["op"] and match[0] in "([{":
            depth += 1
        elif match["op"] and match[0] in _CLOSES:
            depth = max(0, depth - 1)
    return None


def expression_text(code: str, tokens: list[Token], last: int) -> str:
    """Return the source of the expression that ends with a token, such as `a.b[1].c`.

    Args:
        code: the code.
        tokens: its tokens.
        last: the index in `tokens` of the expression's last token; -1 if there is none.

    Returns:
        The source; empty if no expression ends there.
    """
    end = tokens[last].end if last >= 0 else 0
    index = last
    while index >= 0:
        token = tokens[index]
        if token.kind == "op" and token.text in _CLOSES:
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
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.text in _CLOSES or token.kind == "string"


def _find_opening(tokens: list[Token], closing: int) -> int | None:
    """Return the index of the bracket that a closing bracket closes; None if there is none."""
    depth = 0
    for index in range(closing, -1, -1):
        token = tokens[index]
        if token.kind != "op":
            continue
        if token.text in _CLOSES:
            depth += 1
        elif token.text in "([{":
            depth -= 1
        if depth == 0:
            return index
    return None


def callee_text(code: str, tokens: list[Token], bracket: int) -> str:
    """Return the source of what an opening bracket calls or indexes; empty if it does neither.

    Args:
        code: the code.
        tokens: its tokens.
        bracket: the index in `tokens` of the bracket.
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
    while cursor < len(code) and (code[cursor].isalnum() or code[cursor] == "_"):
        cursor += 1
    word_tokens = tokenize(code[:cursor]).all
    last = len(word_tokens) - 1
    if last >= 0 and word_tokens[last].text == ")":
        opening = _find_opening(word_tokens, last)
        if opening is not None and (callee := callee_text(code, word_tokens, opening)):
            return callee
    return expression_text(code, word_tokens, last)
