"""Finds the expression at the cursor, and explains it."""

from __future__ import annotations

import keyword
import os
import re
import sys
import types
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..detail import find_source, get_docstring
from ..objects import MISSING, Classes, class_dict, is_class, is_module, name_of, own_dict
from ..variables import masked_summary, module_version, one_line, type_name, variable_kind
from .resolve import Instance, resolve
from .signatures import BUILT_IN, annotations_of, format_annotation, function_of, parameters

_TOKEN = re.compile(
    r"""(?P<string>(?P<prefix>[rRbBuUfFtT]{0,2})(?:(?P<q3>\"{3}|'{3})(?:\\.?|(?!(?P=q3)).)*(?P<c3>(?P=q3))?|"""
    r"""(?P<q1>["'])(?:\\.?|(?!(?P=q1))[^\n\\])*(?P<c1>(?P=q1))?))"""
    r"""|(?P<comment>\#[^\n]*)|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<newline>\n)|(?P<blank>[^\S\n]+|\\\n)|(?P<op>.)""",
    re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    """A token, with offsets in characters."""

    kind: str
    """One of string, comment, name, number, newline and op."""
    text: str
    start: int
    end: int
    quote: str
    """Prefix and quotes of an unclosed string; otherwise empty."""


class Tokens(NamedTuple):
    """The tokens of a text, without blanks and without line breaks inside brackets."""

    all: list[Token]
    open: list[int]
    """Indexes in `all` of the unclosed brackets, outermost first."""


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
    """Return whether an opening bracket after the token starts a call or a subscript."""
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.text in (")", "]", "}") or token.kind == "string"


def expression(tokens: list[Token], last: int) -> int | None:
    """Return the index of the first token of the expression (names, attributes, calls, subscripts,
    literals) that ends with the token `last`; None if there is none."""
    start = last
    while start >= 0:
        token = tokens[start]
        if token.text in _CLOSES and token.kind == "op":
            first = opening(tokens, start)
            if first is None:
                return None
            before = first - 1
            if token.text == "}" or before < 0 or not ends_expression(tokens[before]):
                return first
            start = before
        elif token.kind in ("name", "number", "string") and not (
            token.kind == "name" and keyword.iskeyword(token.text) and token.text != "None"
        ):
            if start == 0 or tokens[start - 1].text != ".":
                return start
            start -= 2
        else:
            return None
    return None


def opening(tokens: list[Token], closing: int) -> int | None:
    """Return the index of the bracket that matches a closing one."""
    depth = 0
    for start in range(closing, -1, -1):
        token = tokens[start]
        if token.kind != "op":
            continue
        depth += (token.text in _CLOSES) - (token.text in "([{")
        if depth == 0:
            return start
    return None


_BINDS = frozenset(("def", "class", "as", "global", "nonlocal"))
"""Keywords followed by a new name, which is not completed."""
_FIELD = re.compile(r"\{\{|\}\}|[{}]")


class CompletionPoint(NamedTuple):
    """The expression to complete before the cursor."""

    kind: str
    """One of name, attribute, string, module, member (of a module, in an import), magic (after its
    percent sign) and none."""
    start: int = 0
    """Its start, in characters."""
    stem: str = ""
    """The part that has been typed."""
    target: str = ""
    """The expression whose attribute or subscript it is, or the module that it belongs to."""
    call: str = ""
    """The function whose argument it is, as an expression."""
    argument: bool = False
    """Whether an argument starts here, which may be a keyword argument."""
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


def point_at(before: str) -> CompletionPoint:
    """Find what to complete at the end of a text."""
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
            inner = point_at(before[field:])
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
    """Return the start of the open expression in an f-string."""
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
                index
                for index, token in enumerate(tokens)
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
    """Return the function whose call encloses the end of the text, even inside lists."""
    for bracket in reversed(opened):
        if tokens[bracket].text == "(":
            return _callee(before, tokens, bracket)
    return ""


def _callee(before: str, tokens: list[Token], bracket: int) -> str:
    """Return the expression that an opening bracket calls or subscripts; empty if there is none."""
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


_LINES = 200
"""Lines above the cursor to read."""
_LONGEST_LINE = 500
"""Maximum characters of a line to read."""
_ASSIGNED = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::[^=]+)?=(?!=)\s*(\S.*)")
_OPENED = re.compile(r"(?:async\s+)?with\b(.*)\bas\s+(\w+)\s*:")
_EACH = re.compile(r"(?:async\s+)?for\s+(\w+)\s+in\b(.*):")
_IMPORTED = re.compile(r"import\s+([\w.]+)(?:\s+as\s+(\w+))?")


class Names(NamedTuple):
    """The namespace as it would be after the preceding lines, as far as known."""

    values: Mapping[str, Any]
    modules: dict[str, str]
    """Imported but not loaded modules, by the name that they get."""


def names_at(namespace: dict[str, Any], before: str) -> Names:
    """Return the names known at the end of a text."""
    found: dict[str, Any] = {}
    names = Names(ChainMap(found, namespace), {})
    for line in before.rsplit("\n", _LINES + 1)[-_LINES - 1 : -1]:
        if len(line) > _LONGEST_LINE:
            continue
        for name, value in _bindings(line.strip(), names):
            if value is not MISSING:
                found[name] = value
                names.modules.pop(name, None)
    return names


def _bindings(line: str, names: Names) -> Iterator[tuple[str, Any]]:
    """Yield the names that a line binds, with their values; `MISSING` for unknown ones."""
    if imported := _IMPORTED.fullmatch(line):
        path, alias = imported.groups()
        name, module = (alias, path) if alias else (path.partition(".")[0],) * 2
        if module not in sys.modules:
            names.modules[name] = module
        yield name, sys.modules.get(module, MISSING)
    elif assigned := _ASSIGNED.fullmatch(line):
        targets = [target.strip() for target in assigned[1].split(",")]
        for index, target in enumerate(targets):
            yield (
                target,
                resolve(
                    f"({assigned[2]})[{index}]" if len(targets) > 1 else assigned[2], names.values
                ),
            )
    elif opened := _OPENED.fullmatch(line):
        yield opened[2], resolve(f"{opened[1].strip()}.__enter__()", names.values)
    elif each := _EACH.fullmatch(line):
        whole = resolve(each[2].strip(), names.values)
        if type(whole) in (list, tuple):
            yield each[1], Instance(type(whole[0])) if whole else MISSING
        elif type(whole) is Instance and whole.items:
            yield each[1], whole.items[0]


_BOUND = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter in signatures of built-in functions: ``($self, /, …``."""


_WITH_NAMES = Classes(types.FunctionType, types.BuiltinFunctionType)
_LONGEST_SOURCE = 400_000
"""Maximum characters of a source or docstring to show."""


class Explanation(NamedTuple):
    """The fields of the host's `Explanation`."""

    name: str
    signature: str
    """The signature of a callable, with one parameter per line if it is long; for others, type and
    summary."""
    doc: str
    where: str
    """File and line, if known."""
    source: str
    """Source of a function or class, if requested."""


def explain_at(namespace: dict[str, Any], code: str, cursor: int) -> Explanation | None:
    """Explain the function whose call encloses the cursor, or the expression at the cursor; None if
    unknown."""
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    return None if value is MISSING else explain(value, expression)


def explain(value: Any, expression: str, with_source: bool = False) -> Explanation:
    """Explain the value of an expression without running code of its class."""
    if type(value) is Instance:
        value = value.cls
    source, where = (
        find_source(value) if variable_kind(value) in ("function", "class") else ("", "")
    )
    doc = get_docstring(value)
    if is_class(value) and not doc:
        function, _ = function_of(value)
        doc = get_docstring(function) if function is not None else ""
    return Explanation(
        expression, format_signature(value, expression), doc, where, source if with_source else ""
    )


def format_signature(value: Any, name: str) -> str:
    """Format ``name(parameters) -> result`` for a callable; type and summary for other values."""
    function, bound = function_of(value)
    if function is None:
        return _builtin_signature(value, name)
    written = [parameter.text for parameter in parameters(function, bound)]
    result = annotations_of(function).get("return", ...)
    arrow = "" if result is ... or is_class(value) else f" -> {format_annotation(result)}"
    line = f"{name}({', '.join(written)}){arrow}"
    if len(line) <= 80:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in written) + f"){arrow}"


def _builtin_signature(value: Any, name: str) -> str:
    if type(value) in BUILT_IN or (type(value) is type and class_dict(value).get("__doc__")):
        text = value.__text_signature__
        if type(text) is str:
            return name + _BOUND.sub("(", text)
    if variable_kind(value) in ("function", "class"):
        return f"{name}(…)"
    return one_line(f"{name}: {type_name(value)}  {masked_summary(name, value)}".rstrip(), 200)


def source(value: Any, expression: str) -> dict[str, Any]:
    """Return signature, docstring, location and source; for a module, its version instead of a
    signature."""
    if is_module(value):
        return _module(value)
    found = explain(value, _name(value) or expression, with_source=True)
    file, _, number = found.where.rpartition(":")
    return {
        "signature": found.signature[:_LONGEST_SOURCE],
        "doc": found.doc[:_LONGEST_SOURCE],
        "where": found.where if file else "",
        "line": int(number) if number.isdigit() else 1,
        "source": found.source[:_LONGEST_SOURCE],
    }


def _name(value: Any) -> str:
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        return one_line(name_of(value))
    return one_line(value.__name__) if type(value) in _WITH_NAMES else ""


def _module(value: Any) -> dict[str, Any]:
    names = own_dict(value)
    file, version, doc = names.get("__file__"), module_version(names), names.get("__doc__")
    text = ""
    # A pipe could block forever.
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LONGEST_SOURCE)
    return {
        "signature": f"version {version}" if version else "",
        "doc": doc[:_LONGEST_SOURCE] if type(doc) is str else "",
        "where": file if type(file) is str else "built in",
        "line": 1,
        "source": text,
    }
