"""Finds what is to be completed at the cursor, and its context."""

from __future__ import annotations

import re
from typing import NamedTuple

from .tokens import Token, Tokens, ends_expression, expression, opening, tokenize

_BINDS = frozenset(("def", "class", "as", "global", "nonlocal"))
"""Keywords that are followed by a new name, which is not completed."""
_FIELD = re.compile(r"\{\{|\}\}|[{}]")


class CompletionPoint(NamedTuple):
    """Expression before the cursor that is to be completed."""

    kind: str
    """name, attribute, string, module, member (of a module, in an import), magic (after its percent
    sign) or none."""
    start: int = 0
    """Its start, in characters."""
    stem: str = ""
    """The part of it that has been typed."""
    target: str = ""
    """The expression that it is an attribute or a subscript of; the module that it is a member or a
    part of."""
    call: str = ""
    """The expression of the function that it is an argument of."""
    argument: bool = False
    """Whether an argument starts here, so that it may be a keyword argument."""
    quote: str = ""
    """The prefix and quotes of a string."""


NONE = CompletionPoint("none")


def call_at(code: str, cursor: int) -> str:
    """Return the function whose call encloses or ends at the cursor, otherwise the expression at
    the cursor; empty if there is none."""
    tokens = tokenize(code[:cursor])
    for bracket in reversed(tokens.open):
        if callee := _callee(code, tokens.all, bracket):
            return callee
    behind = re.match(r"\w*", code[cursor:])
    assert behind is not None
    tokens = tokenize(code[: cursor + behind.end()])
    last = len(tokens.all) - 1
    if last >= 0 and tokens.all[last].text == ")":
        first = opening(tokens.all, last)
        if first is not None and (callee := _callee(code, tokens.all, first)):
            return callee
    return _text(code, tokens.all, last)


def place_at(before: str) -> CompletionPoint:
    """Find what is to be completed at the end of a text."""
    tokens = tokenize(before)
    last = tokens.all[-1] if tokens.all else None
    if last is not None and last.kind == "comment":
        return NONE
    if last is not None and last.quote:
        return _in_string(before, tokens, last)
    if last is not None and last.kind == "number" and last.end == len(before):
        return NONE
    rest, stem, start = tokens.all, "", len(before)
    if last is not None and last.kind == "name" and last.end == start:
        rest, stem, start = tokens.all[:-1], last.text, last.start
    imported = _in_import(rest, stem, start)
    if imported is not None:
        return imported
    previous = rest[-1].text if rest else ""
    if previous in _BINDS:
        return NONE
    if (
        previous == "%"
        and not tokens.open
        and not before[before.rfind("\n") + 1 : start].strip(" \t%")
    ):
        return CompletionPoint("magic", start, stem)
    if previous == ".":
        target = _text(before, rest, len(rest) - 2)
        return CompletionPoint("attribute", start, stem, target) if target else NONE
    target = _callee(before, rest, len(rest) - 1) if previous == "[" else ""
    call = _open_call(before, rest, tokens.open)
    return CompletionPoint("name", start, stem, target, call, bool(call) and previous in ("(", ","))


def _in_string(before: str, tokens: Tokens, string: Token) -> CompletionPoint:
    start = string.start + len(string.quote)
    if "f" in string.quote.lower():
        field = _open_field(before, start)
        if field is not None:
            inner = place_at(before[field:])
            return inner._replace(start=inner.start + field)
    rest = tokens.all[:-1]
    bracket = tokens.open[-1] if tokens.open else None
    target = ""
    if bracket is not None and rest[bracket].text == "[":
        target = _callee(before, rest, bracket)
        if not target and len(tokens.open) > 1 and tokens.open[-2] == bracket - 1:
            target = _callee(before, rest, bracket - 1) if rest[bracket - 1].text == "[" else ""
    return CompletionPoint(
        "string",
        start,
        before[start:],
        target,
        _open_call(before, rest, tokens.open),
        quote=string.quote,
    )


def _open_field(before: str, start: int) -> int | None:
    """Return where the open expression in an f-string starts."""
    opened: list[int] = []
    for match in _FIELD.finditer(before, start):
        if match[0] == "{" or (match[0] == "{{" and opened):
            opened.append(match.end())
        elif match[0] == "}" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _in_import(tokens: list[Token], stem: str, start: int) -> CompletionPoint | None:
    """Return the completion point if the statement is an import."""
    first = (
        max(
            (
                place
                for place, token in enumerate(tokens)
                if token.kind == "newline" or token.text == ";"
            ),
            default=-1,
        )
        + 1
    )
    words = [token.text for token in tokens[first:]]
    if not words or words[0] not in ("import", "from"):
        return None
    if words[-1] == "as":
        return NONE
    if words[0] == "from" and "import" in words:
        module = "".join(words[1 : words.index("import")])
        return (
            CompletionPoint("member", start, stem, module)
            if words[-1] in ("import", ",", "(")
            else NONE
        )
    module = ""
    for word in reversed(words[1:]):
        if word == "," or (word != "." and not (module.startswith(".") or not module)):
            break
        module = word + module
    if module and not module.endswith("."):
        return NONE if words[0] == "import" else CompletionPoint("name", start, stem)
    return (
        CompletionPoint("module", start, stem, module[:-1]) if not module.startswith(".") else NONE
    )


def _open_call(before: str, tokens: list[Token], opened: list[int]) -> str:
    """Return the function whose call encloses the end of the text, also through lists."""
    for bracket in reversed(opened):
        if tokens[bracket].text == "(":
            return _callee(before, tokens, bracket)
    return ""


def _callee(before: str, tokens: list[Token], bracket: int) -> str:
    """Return the expression that an opening bracket calls or subscripts; empty if it does
    neither."""
    if bracket < 1 or not ends_expression(tokens[bracket - 1]):
        return ""
    if bracket > 1 and tokens[bracket - 2].text in ("def", "class"):
        return ""
    return _text(before, tokens, bracket - 1)


def _text(before: str, tokens: list[Token], last: int) -> str:
    """Return the text of the expression that ends with a token."""
    if last < 0:
        return ""
    first = expression(tokens, last)
    return "" if first is None else before[tokens[first].start : tokens[last].end]
