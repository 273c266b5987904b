"""Completes and explains code at the cursor from the live namespace, without running user code."""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import re
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import nsmallest
from itertools import islice, takewhile
from typing import Any, Callable, NamedTuple

from ..magics import SUMMARIES
from ..objects import (
    BOUND,
    MISSING,
    SLOTS,
    attributes,
    class_module,
    find_in_class,
    get_if_loaded,
    is_module,
    own_dict,
)
from ..stdlib import late_import
from ..variables import bound_names, masked_summary, one_line, summary, type_name, variable_kind
from .resolve import Instance, Names, get_class, list_columns, list_keys, names_at, resolve
from .signatures import WIDTH, builtin_keywords, doc_line, explain, function_of, parameters

MOST = 200
LARGEST = 2_000_000
_MOST_ENTRIES = 20_000
_SUFFIXES = (".py", ".so", ".pyd", ".pyc")
_SERVERS = f"{__package__.rpartition('.')[0]}.servers"


def complete(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, Any]:
    """Return the fields of the host's `Completions`. cursor: offset in characters."""
    point = point_at(code[:cursor])
    names = names_at(namespace, code[: point.start])
    if point.kind == "string":
        return _complete_string(names, point, code[cursor:])
    # Checked first, so that tools that arrive meanwhile are listed.
    pending = False
    if point.kind == "attribute":
        server = resolve(point.target, names.values)
        is_server = type(server) is get_if_loaded(_SERVERS, "Server")
        pending = is_server and server.load_in_background()
    found = _listing(_candidates(namespace, names, point, code), point.stem, point.start)
    return {**found, "pending": pending}


def explain_at(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, str] | None:
    """Return the fields of the host's `Explanation` of the call at the cursor; None if unknown."""
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    if type(value) is Instance:
        value = value.cls
    if value is MISSING:
        return None
    return {**explain(value, expression), "name": expression, "source": ""}


# Tokens

_TOKEN = re.compile(
    r"""(?P<string>(?P<prefix>[rRbBuUfFtT]{0,2})(?:(?P<q3>\"{3}|'{3})(?:\\.?|(?!(?P=q3)).)*(?P<c3>(?P=q3))?|"""
    r"""(?P<q1>["'])(?:\\.?|(?!(?P=q1))[^\n\\])*(?P<c1>(?P=q1))?))"""
    r"""|(?P<comment>\#[^\n]*)|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<newline>\n)|(?P<blank>[^\S\n]+|\\\n)|(?P<op>.)""",
    re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


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
    found: list[Token] = []
    opened: list[int] = []
    for match in _TOKEN.finditer(text):
        kind = "string" if match["string"] is not None else match.lastgroup or "op"
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


def _expression_text(before: str, tokens: list[Token], last: int) -> str:
    start = last
    while start >= 0:
        token = tokens[start]
        if token.text in _CLOSES and token.kind == "op":
            first = _find_opening(tokens, start)
            if first is None:
                return ""
            if token.text == "}" or first == 0 or not _ends_expression(tokens[first - 1]):
                return before[tokens[first].start : tokens[last].end]
            start = first - 1
        elif token.kind in ("number", "string") or (
            token.kind == "name" and (not keyword.iskeyword(token.text) or token.text == "None")
        ):
            if start == 0 or tokens[start - 1].text != ".":
                return before[token.start : tokens[last].end]
            start -= 2
        else:
            return ""
    return ""


def _ends_expression(token: Token) -> bool:
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.text in _CLOSES or token.kind == "string"


def _find_opening(tokens: list[Token], closing: int) -> int | None:
    depth = 0
    for start in range(closing, -1, -1):
        token = tokens[start]
        if token.kind == "op":
            depth += (token.text in _CLOSES) - (token.text in "([{")
            if depth == 0:
                return start
    return None


def _callee(before: str, tokens: list[Token], bracket: int) -> str:
    if bracket < 1 or not _ends_expression(tokens[bracket - 1]):
        return ""
    if bracket > 1 and tokens[bracket - 2].text in ("def", "class"):
        return ""
    return _expression_text(before, tokens, bracket - 1)


def call_at(code: str, cursor: int) -> str:
    tokens = tokenize(code[:cursor])
    for bracket in reversed(tokens.open):
        if callee := _callee(code, tokens.all, bracket):
            return callee
    while cursor < len(code) and (code[cursor].isalnum() or code[cursor] == "_"):
        cursor += 1
    found = tokenize(code[:cursor]).all
    last = len(found) - 1
    if last >= 0 and found[last].text == ")":
        first = _find_opening(found, last)
        if first is not None and (callee := _callee(code, found, first)):
            return callee
    return _expression_text(code, found, last)


# The point to complete

_BINDS = frozenset(("def", "class", "as", "global", "nonlocal"))
_FIELD = re.compile(r"\{\{|\}\}|[{}]")


class CompletionPoint(NamedTuple):
    kind: str
    """One of name, attribute, string, module, member (of a module), magic and none."""
    start: int = 0
    stem: str = ""
    target: str = ""
    """The expression, or module, that it belongs to."""
    call: str = ""
    argument: bool = False
    """Whether an argument starts here."""
    quote: str = ""


NONE = CompletionPoint("none")


def point_at(before: str) -> CompletionPoint:
    tokens = tokenize(before)
    rest, stem, start = tokens.all, "", len(before)
    if rest:
        last = rest[-1]
        if last.quote:
            return _string_point(before, tokens, last)
        if last.kind == "comment" or (last.kind == "number" and last.end == start):
            return NONE
        if last.kind == "name" and last.end == start:
            rest, stem, start = rest[:-1], last.text, last.start
    imported = _import_point(rest, stem, start)
    if imported is not None:
        return imported
    previous = rest[-1].text if rest else ""
    if previous in _BINDS:
        return NONE
    line = before[before.rfind("\n") + 1 : start]
    if previous == "%" and not tokens.open and not line.strip(" \t%"):
        return CompletionPoint("magic", start, stem)
    if previous == ".":
        target = _expression_text(before, rest, len(rest) - 2)
        return CompletionPoint("attribute", start, stem, target) if target else NONE
    target = _callee(before, rest, len(rest) - 1) if previous == "[" else ""
    call = _open_call(before, rest, tokens.open)
    return CompletionPoint("name", start, stem, target, call, bool(call) and previous in ("(", ","))


def _string_point(before: str, tokens: Tokens, string: Token) -> CompletionPoint:
    start = string.start + len(string.quote)
    if "f" in string.quote.lower():
        opened: list[int] = []
        for match in _FIELD.finditer(before, start):
            if match[0] == "{" or (match[0] == "{{" and opened):
                opened.append(match.end())
            elif match[0] == "}" and opened:
                opened.pop()
        if opened:
            inner = point_at(before[opened[-1] :])
            return inner._replace(start=inner.start + opened[-1])
    rest, target = tokens.all[:-1], ""
    if tokens.open and rest[tokens.open[-1]].text == "[":
        bracket = tokens.open[-1]
        target = _callee(before, rest, bracket)
        if not target and tokens.open[-2:-1] == [bracket - 1] and rest[bracket - 1].text == "[":
            target = _callee(before, rest, bracket - 1)  # of a list of columns
    call = _open_call(before, rest, tokens.open)
    return CompletionPoint("string", start, before[start:], target, call, quote=string.quote)


def _import_point(tokens: list[Token], stem: str, start: int) -> CompletionPoint | None:
    statement = takewhile(
        lambda each: each.kind != "newline" and each.text != ";", reversed(tokens)
    )
    words = [token.text for token in statement][::-1]
    if not words or words[0] not in ("import", "from"):
        return None
    if words[-1] == "as":
        return NONE
    if words[0] == "from" and "import" in words:
        module = "".join(words[1 : words.index("import")])
        is_name = words[-1] in ("import", ",", "(")
        return CompletionPoint("member", start, stem, module) if is_name else NONE
    module = ""
    for word in reversed(words[1:]):
        if word == "," or (word != "." and not (module.startswith(".") or not module)):
            break
        module = word + module
    if module and not module.endswith("."):
        return NONE if words[0] == "import" else CompletionPoint("name", start, stem)
    return NONE if module.startswith(".") else CompletionPoint("module", start, stem, module[:-1])


def _open_call(before: str, tokens: list[Token], opened: list[int]) -> str:
    bracket = next((index for index in reversed(opened) if tokens[index].text == "("), 0)
    return _callee(before, tokens, bracket)


# Candidates


class Candidate(NamedTuple):
    label: str
    describe: Callable[[], tuple[str, str]]
    """Returns its kind and a line about it."""
    text: str | None = None
    """The inserted text, if it is not the label."""
    order: int = 1
    is_name: bool = True
    """Whether leading underscores make it private."""


def _fixed(label: str, kind: str, doc: str = "", order: int = 1) -> Candidate:
    return Candidate(label, lambda: (kind, doc), order=order)


def _of_value(name: str, value: Any, order: int = 1) -> Candidate:
    return Candidate(name, lambda: _describe(name, value), order=order)


def _describe(name: str, value: Any) -> tuple[str, str]:
    if type(value) in BOUND:
        value = value.__func__
    if type(value) is property:
        return "property", doc_line(value.fget)
    if type(value) is get_if_loaded("functools", "cached_property"):
        return "property", doc_line(own_dict(value).get("func"))
    if type(value) in SLOTS:
        return "property", doc_line(value)
    kind = variable_kind(value)
    if kind == "data":
        return kind, one_line(f"{type_name(value)}  {masked_summary(name, value)}".rstrip(), WIDTH)
    about = summary(value) if kind == "function" else ""
    return kind, one_line(f"{about}  {doc_line(value)}".strip(), WIDTH)


def _listing(candidates: Iterable[Candidate], stem: str, start: int) -> dict[str, Any]:
    """Return the best matches, and the number of others. Private names are listed once an
    underscore is typed; those with two come last, until two are."""
    total = 0

    def fitting() -> Iterator[tuple[tuple[Any, ...], int, Candidate]]:
        nonlocal total
        lower = stem.lower()
        letters = re.compile(".*?".join(map(re.escape, lower)), re.DOTALL)
        for number, candidate in enumerate(candidates):
            label, low, spread = candidate.label, candidate.label.lower(), 0
            private = candidate.is_name and label.startswith("_")
            if private and not stem.startswith("_"):
                continue
            if label.startswith(stem):
                fit = int(label != stem)
            elif low.startswith(lower):
                fit = 2
            elif len(stem) > 1 and (found := letters.search(low)):
                fit, spread = 3, found.end()
            else:
                continue
            total += 1
            last = private and label.startswith("__") and not stem.startswith("__")
            yield (last, fit, spread, candidate.order, low, label), number, candidate

    # Not sorted as a whole: ten thousand live tuples would start the garbage collector.
    best = {candidate.label: candidate for _, _, candidate in reversed(nsmallest(MOST, fitting()))}
    items = []
    for candidate in reversed(best.values()):
        kind, doc = candidate.describe()
        text = candidate.label if candidate.text is None else candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": total - len(best)}


def _candidates(
    namespace: dict[str, Any], names: Names, point: CompletionPoint, code: str
) -> Iterator[Candidate]:
    if point.kind == "magic":
        yield from (_fixed(name, "magic", about) for name, about in SUMMARIES.items())
    elif point.kind == "module":
        yield from _module_names(point.target)
    elif point.kind == "member":
        yield from _member_names(point.target)
    elif point.kind == "attribute":
        yield from _attributes(names, point.target)
    elif point.kind == "name":
        if point.argument:
            yield from _arguments(names, point.call)
        if point.target:
            for key in _keys(resolve(point.target, names.values)):
                text = None if key.text is None else repr(key.text)
                yield key._replace(label=text or key.label, text=text)
        if point.stem or not point.target:
            yield from _names(namespace, point, code)


def _names(namespace: dict[str, Any], point: CompletionPoint, code: str) -> Iterator[Candidate]:
    names = dict(list(namespace.items()))
    for name, value in names.items():
        if type(name) is str and name != "__builtins__":
            yield _of_value(name, value)
    # Names in the code itself, which may not have run yet.
    around = code[: point.start] + " " + code[point.start + len(point.stem) :]
    words = {token.text for token in tokenize(around).all if token.kind == "name"}
    for name in words.difference(keyword.kwlist, names):
        yield _fixed(name, "name", "in this text")
    for name, value in list(builtins.__dict__.items()):
        if name not in names and not name.startswith("__mahtab"):
            yield _of_value(name, value, order=2)
    yield from (_fixed(word, "keyword", order=2) for word in keyword.kwlist)


def _attributes(names: Names, target: str) -> Iterator[Candidate]:
    if target in names.modules:
        yield from _member_names(names.modules[target])
        return
    value = resolve(target, names.values)
    if value is MISSING:
        return
    if class_module(get_class(value)).partition(".")[0] == "pandas":
        for column in list_columns(value):
            if column.isidentifier() and not keyword.iskeyword(column):
                yield _fixed(column, "column", order=0)
    if type(value) is Instance:
        value = value.cls
        yield from (_fixed(name, "data") for name in _instance_names(value))
    if is_module(value):
        found = _module_members(value)
    elif type(value) is get_if_loaded(_SERVERS, "Server"):
        found = {name: item for name, item in own_dict(value).items() if name != "__doc__"}
    else:
        found = attributes(value)
    yield from (_of_value(name, item) for name, item in found.items())


def _instance_names(cls: type) -> list[str]:
    function = find_in_class(cls, "__init__")
    if type(function) is not types.FunctionType or not function.__code__.co_argcount:
        return []
    owner = function.__code__.co_varnames[0]
    found = list(late_import("dis").get_instructions(function.__code__))
    # From Python 3.13 on, one instruction may load two variables.
    return [
        one.argval
        for before, one in zip(found, found[1:])
        if one.opname == "STORE_ATTR"
        and owner == (before.argval[-1] if type(before.argval) is tuple else before.argval)
    ]


def _arguments(names: Names, call: str) -> Iterator[Candidate]:
    value = resolve(call, names.values)
    if type(value) is Instance:
        called = find_in_class(value.cls, "__call__")
        value = types.MethodType(called, value) if type(called) is types.FunctionType else MISSING
    function, bound = function_of(value)
    if function is None:
        found = dict.fromkeys(builtin_keywords(value), "")
    else:
        found = {each.name: each.text for each in parameters(function, bound) if each.keyword}
    yield from (_fixed(f"{name}=", "argument", text, order=0) for name, text in found.items())


# Modules


def _module_names(package: str) -> Iterator[Candidate]:
    names: set[str] = set()
    if not package:
        names.update(sys.builtin_module_names, getattr(sys, "stdlib_module_names", ()))
        names.update(name for name in list(sys.modules) if "." not in name)
    for folder in _folders(package):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                name, dot, _ = entry.name.partition(".")
                if entry.name.endswith(_SUFFIXES) or (not dot and entry.is_dir()):
                    names.add(name)
    for name in names.difference(("__init__", "__pycache__", "__main__")):
        if name.isidentifier():
            yield Candidate(name, _module_describer(f"{package}.{name}" if package else name))


def _module_describer(module: str) -> Callable[[], tuple[str, str]]:
    return lambda: ("module", doc_line(sys.modules.get(module)))


def _member_names(module: str) -> Iterator[Candidate]:
    found = sys.modules.get(module)
    if found is not None:
        yield from (_of_value(name, value) for name, value in _module_members(found).items())
    else:
        yield from (_fixed(name, "data", f"of {module}") for name in _names_in_source(module))
    yield from (candidate._replace(order=2) for candidate in _module_names(module))


def _module_members(module: object) -> dict[str, Any]:
    own = own_dict(module)
    names: dict[str, Any] = {name: value for name, value in list(own.items()) if type(name) is str}
    exported = own.get("__all__")
    if isinstance(exported, (list, tuple)):
        names.update((name, None) for name in exported if type(name) is str and name not in names)
    return names


def _folders(package: str) -> list[str]:
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    found = sys.modules.get(package)
    if is_module(found):
        try:
            return [str(entry) for entry in own_dict(found).get("__path__", ())]
        except Exception:  # a module may have put anything there
            return []
    parent, _, name = package.rpartition(".")
    folders = (os.path.join(folder, name) for folder in _folders(parent))
    return [folder for folder in folders if os.path.isdir(folder)]


def _names_in_source(module: str) -> frozenset[str]:
    parent, _, name = module.rpartition(".")
    for folder in _folders(parent):
        for path in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
            if not os.path.isfile(path):
                continue
            try:
                with open(path, "rb") as file, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    source = file.read(LARGEST + 1)
                    return bound_names(ast.parse(source if len(source) <= LARGEST else ""))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                return frozenset()
    return frozenset()


# Strings


def _keys(value: Any) -> list[Candidate]:
    if columns := list_columns(value):
        return [_column(name) for name in columns]
    return [_key(key, item) for key, item in list_keys(value)]


def _column(name: str) -> Candidate:
    return Candidate(name, lambda: ("column", ""), name, 0)


def _key(key: Any, item: Any) -> Candidate:
    label = key if type(key) is str else repr(key)
    return Candidate(
        label,
        lambda: ("key", f"{type_name(item)}  {masked_summary(label, item)}".rstrip()),
        label if type(key) is str else None,
        0,
        is_name=False,
    )


def _complete_string(names: Names, point: CompletionPoint, after: str) -> dict[str, Any]:
    keys: list[Candidate] = []
    if point.target:
        keys = [key for key in _keys(resolve(point.target, names.values)) if key.text is not None]
    if not keys and "." in point.call:
        # The string may name a column of a table whose method is called, as in `df.groupby("`.
        table = resolve(point.call.rpartition(".")[0], names.values)
        keys = [_column(name)._replace(order=1) for name in list_columns(table)]
    if keys:
        quoted = (key._replace(text=_quote(key.label, point.quote, after)) for key in keys)
        found = _listing(quoted, point.stem, point.start)
        if found["items"]:
            return found
    if point.target or "\n" in point.stem:
        return _listing((), "", point.start)
    folder, separator, name = point.stem.rpartition("/")
    folder += separator
    entries = _files(folder, name)
    closed = (
        entry
        if entry.label.endswith("/")
        else entry._replace(text=_quote(entry.label, point.quote, after))
        for entry in entries
    )
    return _listing(closed, name, point.start + len(folder))


def _quote(text: str, quote: str, after: str) -> str:
    """Escape a text for a string opened with `quote`, and close it if it is open."""
    marks = quote.lstrip("rRbBuUfFtT")
    if "r" not in quote[: -len(marks)].lower():
        text = "".join(
            c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode("ascii")
            for c in text
        )
        text = text.replace(marks[0], "\\" + marks[0])
    return text if after.startswith(marks) else text + marks


def _files(folder: str, name: str) -> Iterator[Candidate]:
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except (OSError, ValueError):
        return
    with entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            label = entry.name + ("/" if is_folder else "")
            if label.isprintable() and not set(label) & set("\"'\\"):
                yield _fixed(label, "folder" if is_folder else "file")
