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
from itertools import islice
from typing import Any, Callable, NamedTuple

from ..cells.compiling import bound_names
from ..magic.syntax import SUMMARIES
from ..stdlib import late_import
from ..values.objects import (
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
from ..values.summaries import one_line, summary, type_name, variable_kind
from ..values.variables import masked_summary
from .instances import Instance, get_class
from .point import CompletionPoint, point_at
from .preceding_lines import NamesAtCursor, names_at
from .resolve import list_keys, resolve
from .signatures import (
    MAX_DOC_LINE_CHARS,
    builtin_keywords,
    doc_line,
    explain,
    function_of,
    parameters,
)
from .table_columns import list_columns
from .tokens import call_at, tokenize

MAX_COMPLETIONS = 200
MAX_SOURCE_BYTES = 2_000_000
_MAX_FOLDER_ENTRIES = 20_000
_SUFFIXES = (".py", ".so", ".pyd", ".pyc")
_SERVERS = f"{__package__.rpartition('.')[0]}.tools.servers"


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
    listing = _listing(_candidates(namespace, names, point, code), point.stem, point.start)
    return {**listing, "pending": pending}


def explain_at(namespace: dict[str, object], code: str, cursor: int) -> dict[str, str] | None:
    """Return the fields of the host's `Explanation` of the call at the cursor; None if unknown."""
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    if type(value) is Instance:
        value = value.cls
    if value is MISSING:
        return None
    return {**explain(value, expression), "name": expression, "source": ""}


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


def _of_value(name: str, value: object, order: int = 1) -> Candidate:
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
        return kind, one_line(
            f"{type_name(value)}  {masked_summary(name, value)}".rstrip(), MAX_DOC_LINE_CHARS
        )
    about = summary(value) if kind == "function" else ""
    return kind, one_line(f"{about}  {doc_line(value)}".strip(), MAX_DOC_LINE_CHARS)


def _listing(candidates: Iterable[Candidate], stem: str, start: int) -> dict[str, Any]:
    """Return the best matches, and the number of others. Private names are listed once an
    underscore is typed; those with two come last, until two are."""
    total = 0

    def fitting() -> Iterator[tuple[tuple[Any, ...], int, Candidate]]:
        nonlocal total
        lower = stem.lower()
        letters = re.compile(".*?".join(map(re.escape, lower)), re.DOTALL)
        for number, candidate in enumerate(candidates):
            label = candidate.label
            low = candidate.label.lower()
            spread = 0
            private = candidate.is_name and label.startswith("_")
            if private and not stem.startswith("_"):
                continue
            if label.startswith(stem):
                fit = int(label != stem)
            elif low.startswith(lower):
                fit = 2
            elif len(stem) > 1 and (match := letters.search(low)):
                fit = 3
                spread = match.end()
            else:
                continue
            total += 1
            is_special = private and label.startswith("__") and not stem.startswith("__")
            yield (is_special, fit, spread, candidate.order, low, label), number, candidate

    # Not sorted as a whole: ten thousand live tuples would start the garbage collector.
    best = {
        candidate.label: candidate
        for _, _, candidate in reversed(nsmallest(MAX_COMPLETIONS, fitting()))
    }
    items = []
    for candidate in reversed(best.values()):
        kind, doc = candidate.describe()
        if candidate.text is None:
            text = candidate.label
        else:
            text = candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": total - len(best)}


def _candidates(
    namespace: dict[str, object], names: NamesAtCursor, point: CompletionPoint, code: str
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


def _attributes(names: NamesAtCursor, target: str) -> Iterator[Candidate]:
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
        members = _module_members(value)
    elif type(value) is get_if_loaded(_SERVERS, "Server"):
        members = {name: item for name, item in own_dict(value).items() if name != "__doc__"}
    else:
        members = attributes(value)
    yield from (_of_value(name, item) for name, item in members.items())


def _instance_names(cls: type) -> list[str]:
    function = find_in_class(cls, "__init__")
    if type(function) is not types.FunctionType or not function.__code__.co_argcount:
        return []
    owner = function.__code__.co_varnames[0]
    instructions = list(late_import("dis").get_instructions(function.__code__))
    # From Python 3.13 on, one instruction may load two variables.
    return [
        store.argval
        for load, store in zip(instructions, instructions[1:])
        if store.opname == "STORE_ATTR"
        and owner == (load.argval[-1] if type(load.argval) is tuple else load.argval)
    ]


def _arguments(names: NamesAtCursor, call: str) -> Iterator[Candidate]:
    value = resolve(call, names.values)
    if type(value) is Instance:
        called = find_in_class(value.cls, "__call__")
        if type(called) is types.FunctionType:
            value = types.MethodType(called, value)
        else:
            value = MISSING
    function, bound = function_of(value)
    if function is None:
        texts_by_name = dict.fromkeys(builtin_keywords(value), "")
    else:
        texts_by_name = {
            parameter.name: parameter.text
            for parameter in parameters(function, bound)
            if parameter.keyword
        }
    yield from (
        _fixed(f"{name}=", "argument", text, order=0) for name, text in texts_by_name.items()
    )


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
    loaded_module = sys.modules.get(module)
    if loaded_module is not None:
        yield from (
            _of_value(name, value) for name, value in _module_members(loaded_module).items()
        )
    else:
        yield from (_fixed(name, "data", f"of {module}") for name in _names_in_source(module))
    yield from (candidate._replace(order=2) for candidate in _module_names(module))


def _module_members(module: object) -> dict[str, Any]:
    members = own_dict(module)
    names: dict[str, Any] = {
        name: value for name, value in list(members.items()) if type(name) is str
    }
    exported = members.get("__all__")
    if isinstance(exported, (list, tuple)):
        names.update((name, None) for name in exported if type(name) is str and name not in names)
    return names


def _folders(package: str) -> list[str]:
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    loaded_module = sys.modules.get(package)
    if is_module(loaded_module):
        try:
            return [str(entry) for entry in own_dict(loaded_module).get("__path__", ())]
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
                    source = file.read(MAX_SOURCE_BYTES + 1)
                    return bound_names(ast.parse(source if len(source) <= MAX_SOURCE_BYTES else ""))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                return frozenset()
    return frozenset()


# Strings


def _keys(value: object) -> list[Candidate]:
    if columns := list_columns(value):
        return [_column(name) for name in columns]
    return [_key(key, item) for key, item in list_keys(value)]


def _column(name: str) -> Candidate:
    return Candidate(name, lambda: ("column", ""), name, 0)


def _key(key: object, item: object) -> Candidate:
    label = key if type(key) is str else repr(key)
    return Candidate(
        label,
        lambda: ("key", f"{type_name(item)}  {masked_summary(label, item)}".rstrip()),
        label if type(key) is str else None,
        0,
        is_name=False,
    )


def _complete_string(
    names: NamesAtCursor, point: CompletionPoint, code_after: str
) -> dict[str, Any]:
    keys: list[Candidate] = []
    if point.target:
        keys = [key for key in _keys(resolve(point.target, names.values)) if key.text is not None]
    if not keys and "." in point.call:
        # The string may name a column of a table whose method is called, as in `df.groupby("`.
        table = resolve(point.call.rpartition(".")[0], names.values)
        keys = [_column(name)._replace(order=1) for name in list_columns(table)]
    if keys:
        quoted = (key._replace(text=_quote(key.label, point.quote, code_after)) for key in keys)
        listing = _listing(quoted, point.stem, point.start)
        if listing["items"]:
            return listing
    if point.target or "\n" in point.stem:
        return _listing((), "", point.start)
    folder, separator, name = point.stem.rpartition("/")
    folder += separator
    entries = _files(folder, name)
    closed = (
        entry
        if entry.label.endswith("/")
        else entry._replace(text=_quote(entry.label, point.quote, code_after))
        for entry in entries
    )
    return _listing(closed, name, point.start + len(folder))


def _quote(text: str, quote: str, code_after: str) -> str:
    """Escape a text for a string opened with `quote`, and close it if it is open."""
    marks = quote.lstrip("rRbBuUfFtT")
    if "r" not in quote[: -len(marks)].lower():
        text = "".join(
            c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode("ascii")
            for c in text
        )
        text = text.replace(marks[0], "\\" + marks[0])
    if code_after.startswith(marks):
        return text
    return text + marks


def _files(folder: str, name: str) -> Iterator[Candidate]:
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except (OSError, ValueError):
        return
    with entries:
        for entry in islice(entries, _MAX_FOLDER_ENTRIES):
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            label = entry.name + ("/" if is_folder else "")
            if label.isprintable() and not set(label) & set("\"'\\"):
                yield _fixed(label, "folder" if is_folder else "file")
