"""What stands at the cursor: a name, an attribute, a string, a module, or nothing to complete."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from .tokens import Token, Tokens, callee_text, expression_text, tokenize

_NAMING_WORDS = frozenset(("def", "class", "as", "global", "nonlocal"))
"""Keywords after which a name is new, so that nothing completes it."""
_FIELD_BRACES = re.compile(r"\{\{|\}\}|[{}]")
"""The braces of an f-string; doubled ones stand for themselves."""


class CompletionPoint(NamedTuple):
    """What stands at the cursor."""

    kind: str
    """One of name, attribute, string, module, member (of a module), magic and none."""
    start: int = 0
    """Where the text to complete begins, in characters from the code's start."""
    stem: str = ""
    """The text to complete."""
    target: str = ""
    """The expression, or module, that it belongs to."""
    call: str = ""
    """What is called by the brackets around it."""
    argument: bool = False
    """Whether an argument starts here."""
    quote: str = ""
    """Prefix and quotes of a string."""


NONE = CompletionPoint("none")
"""Where there is nothing to complete."""


def point_at(code: str) -> CompletionPoint:
    """Return what stands at the end of code, which is the cursor."""
    tokens = tokenize(code)
    earlier_tokens = tokens.all
    stem = ""
    start = len(code)
    if earlier_tokens:
        last_token = earlier_tokens[-1]
        if last_token.quote:
            return _string_point(code, tokens, last_token)
        is_number = last_token.kind == "number" and last_token.end == start
        if is_number or last_token.kind == "comment":
            return NONE
        if last_token.kind == "name" and last_token.end == start:
            earlier_tokens = earlier_tokens[:-1]
            stem = last_token.text
            start = last_token.start

    import_point = _import_point(earlier_tokens, stem, start)
    if import_point is not None:
        return import_point
    previous = earlier_tokens[-1].text if earlier_tokens else ""
    if previous in _NAMING_WORDS:
        return NONE
    line_before = code[code.rfind("\n") + 1 : start]
    if previous == "%" and not tokens.open and not line_before.strip(" \t%"):
        return CompletionPoint("magic", start, stem)
    if previous == ".":
        target = expression_text(code, earlier_tokens, len(earlier_tokens) - 2)
        if target:
            return CompletionPoint("attribute", start, stem, target)
        return NONE

    target = ""
    if previous == "[":
        target = callee_text(code, earlier_tokens, len(earlier_tokens) - 1)
    call = _innermost_call(code, earlier_tokens, tokens.open)
    starts_argument = bool(call) and previous in ("(", ",")
    return CompletionPoint("name", start, stem, target, call, starts_argument)


def _string_point(code: str, tokens: Tokens, string: Token) -> CompletionPoint:
    """Return the point in a string that is not closed, the last token."""
    start = string.start + len(string.quote)
    if "f" in string.quote.lower():
        field_start = _open_field(code, start)
        if field_start is not None:
            point = point_at(code[field_start:])
            return point._replace(start=point.start + field_start)

    earlier_tokens = tokens.all[:-1]
    target = ""
    if tokens.open and earlier_tokens[tokens.open[-1]].text == "[":
        bracket = tokens.open[-1]
        target = callee_text(code, earlier_tokens, bracket)
        # In `df[["`, the string is one of a list of columns.
        is_list = tokens.open[-2:-1] == [bracket - 1] and earlier_tokens[bracket - 1].text == "["
        if not target and is_list:
            target = callee_text(code, earlier_tokens, bracket - 1)
    call = _innermost_call(code, earlier_tokens, tokens.open)
    return CompletionPoint("string", start, code[start:], target, call, quote=string.quote)


def _open_field(code: str, start: int) -> int | None:
    """Return where the innermost open field of an f-string begins; None if none is open."""
    field_starts: list[int] = []
    for match in _FIELD_BRACES.finditer(code, start):
        if match[0] == "{" or (match[0] == "{{" and field_starts):
            field_starts.append(match.end())
        elif match[0] == "}" and field_starts:
            field_starts.pop()
    return field_starts[-1] if field_starts else None


def _import_point(tokens: list[Token], stem: str, start: int) -> CompletionPoint | None:
    """Return the point in an import statement; None if the last statement is another."""
    statement = takewhile(
        lambda token: token.kind != "newline" and token.text != ";", reversed(tokens)
    )
    words = [token.text for token in statement][::-1]
    if not words or words[0] not in ("import", "from"):
        return None
    if words[-1] == "as":
        return NONE
    if words[0] == "from" and "import" in words:
        module = "".join(words[1 : words.index("import")])
        is_name = words[-1] in ("import", ",", "(")
        if is_name:
            return CompletionPoint("member", start, stem, module)
        return NONE

    package = _dotted_end(words[1:])
    if package and not package.endswith("."):
        # A whole module name is followed by `import`, if by anything.
        if words[0] == "import":
            return NONE
        return CompletionPoint("name", start, stem)
    if package.startswith("."):
        return NONE
    return CompletionPoint("module", start, stem, package[:-1])


def _dotted_end(words: list[str]) -> str:
    """Return the dotted name at the end of words, with its dots, such as `os.`."""
    name = ""
    for word in reversed(words):
        expects_dot = bool(name) and not name.startswith(".")
        if word == "," or (expects_dot and word != "."):
            break
        name = word + name
    return name


def _innermost_call(code: str, tokens: list[Token], open_brackets: list[int]) -> str:
    """Return the source of what the innermost open parenthesis calls; empty if nothing."""
    parenthesis = next((index for index in reversed(open_brackets) if tokens[index].text == "("), 0)
    return callee_text(code, tokens, parenthesis)
