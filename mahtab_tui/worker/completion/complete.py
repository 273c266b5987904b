"""Completes code from the live namespace, without running code of the user's objects."""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import sys
import types
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..magics import SUMMARIES
from ..objects import (
    MISSING,
    attributes,
    class_module,
    find_in_class,
    get_if_loaded,
    is_module,
    own_dict,
)
from ..variables import bound_names
from .cursor import CompletionPoint, Names, names_at, point_at, tokenize
from .resolve import Instance, get_class, list_columns, list_keys, quote_literal, resolve
from .signatures import (
    Candidate,
    builtin_keywords,
    doc_line,
    fixed_description,
    function_of,
    instance_names,
    parameters,
    rank,
    value_candidate,
)

LARGEST = 2_000_000
"""Maximum bytes of source files that are searched for names."""

_SUFFIXES = (".py", ".so", ".pyd", ".pyc")


def module_names(package: str) -> Iterator[Candidate]:
    """Yield the modules in a package; without a package, all top-level modules."""
    names: set[str] = set()
    if not package:
        names.update(sys.builtin_module_names, getattr(sys, "stdlib_module_names", ()))
        names.update(name for name in list(sys.modules) if "." not in name)
    for folder in _folders(package):
        names.update(_modules_in(folder))
    for name in names:
        if name.isidentifier() and name != "__main__":
            yield Candidate(name, _described(f"{package}.{name}" if package else name))


def member_names(module: str) -> Iterator[Candidate]:
    """Yield the names that can be imported from a module, including submodules."""
    found = sys.modules.get(module)
    if found is not None:
        yield from (value_candidate(name, value) for name, value in module_members(found).items())
    else:
        for name in _names_in_source(module):
            yield Candidate(name, fixed_description("data", f"of {module}"))
    yield from (candidate._replace(order=2) for candidate in module_names(module))


def module_members(module: object) -> dict[str, Any]:
    """Return the names in a loaded module; those in `__all__` that are not loaded yet have the
    value None."""
    own = own_dict(module)
    names: dict[str, Any] = {name: value for name, value in list(own.items()) if type(name) is str}
    exported = own.get("__all__")
    if isinstance(exported, (list, tuple)):
        names.update((name, None) for name in exported if type(name) is str and name not in names)
    return names


def _described(name: str) -> Any:
    return lambda: ("module", doc_line(sys.modules.get(name)))


def _folders(package: str) -> list[str]:
    """Return the folders of a package's modules; without a package, the import path."""
    if not package:
        return [entry or "." for entry in list(sys.path) if type(entry) is str]
    found = sys.modules.get(package)
    if is_module(found):
        path = own_dict(found).get("__path__", ())
        try:
            return [str(entry) for entry in path]
        except Exception:  # a module may have put anything there
            return []
    parent, _, name = package.rpartition(".")
    folders = (os.path.join(folder, name) for folder in _folders(parent))
    return [folder for folder in folders if os.path.isdir(folder)]


def _modules_in(folder: str) -> frozenset[str]:
    try:
        return _listed(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(512)
def _listed(folder: str, changed: int) -> frozenset[str]:
    """List the modules in a folder. changed: the folder's modification time, which is part of the
    cache key."""
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name, dot, _ = entry.name.partition(".")
            if (not dot and entry.is_dir() and name != "__pycache__") or entry.name.endswith(
                _SUFFIXES
            ):
                names.add(name)
    names.discard("__init__")
    return frozenset(names)


def _names_in_source(module: str) -> list[str]:
    parent, _, name = module.rpartition(".")
    for folder in _folders(parent):
        for path in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
            if os.path.isfile(path):
                return _top_level(path)
    return []


def _top_level(path: str) -> list[str]:
    """Return the names bound at the top level of a source file."""
    try:
        if os.path.getsize(path) > LARGEST:
            return []
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(bound_names(ast.parse(file.read())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


_SERVERS = f"{__package__.rpartition('.')[0]}.servers"
"""The module of MCP servers, whose tools can be completed once they are known."""
MOST = 200
"""Maximum number of candidates to send."""
_ENTRIES = 20_000
"""Maximum number of a folder's entries to examine."""


def complete(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, Any]:
    """Return the fields of the host's `Completions`. cursor: offset in characters."""
    point = point_at(code[:cursor])
    names = names_at(namespace, code[: point.start])
    if point.kind == "string":
        return _in_string(names, point, code, cursor)
    # Checked first, because tools that arrive meanwhile are listed.
    pending = point.kind == "attribute" and _start_server(resolve(point.target, names.values))
    return {
        **_listing(_candidates(namespace, names, point, code), point.stem, point.start),
        "pending": pending,
    }


def _start_server(value: Any) -> bool:
    """Start an MCP server whose tools are not known yet; tell whether it is starting."""
    return type(value) is get_if_loaded(_SERVERS, "Server") and value.load_in_background()


def _listing(candidates: Iterator[Candidate], stem: str, start: int) -> dict[str, Any]:
    found, more = rank(candidates, stem, MOST)
    items = []
    for candidate in found:
        kind, doc = candidate.describe()
        text = candidate.label if candidate.text is None else candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": more}


def _candidates(
    namespace: dict[str, Any], names: Names, point: CompletionPoint, code: str
) -> Iterator[Candidate]:
    if point.kind == "magic":
        yield from (
            Candidate(name, fixed_description("magic", summary))
            for name, summary in SUMMARIES.items()
        )
    elif point.kind == "module":
        yield from module_names(point.target)
    elif point.kind == "member":
        yield from member_names(point.target)
    elif point.kind == "attribute":
        yield from _attributes(names, point.target)
    elif point.kind == "name":
        if point.argument:
            yield from _arguments(names, point.call)
        if point.target:
            for key in list_keys(resolve(point.target, names.values)):
                yield (
                    key
                    if key.text is None
                    else key._replace(label=repr(key.text), text=repr(key.text))
                )
        yield from _names(namespace, point, code)


def _names(namespace: dict[str, Any], point: CompletionPoint, code: str) -> Iterator[Candidate]:
    if not point.stem and point.target:
        return
    names = dict(list(namespace.items()))
    for name, value in names.items():
        if type(name) is str and name != "__builtins__":
            yield value_candidate(name, value)
    for name in _words(code, point):
        if name not in names:
            yield Candidate(name, fixed_description("name", "in this text"))
    for name, value in list(builtins.__dict__.items()):
        if name not in names and not name.startswith("__mahtab"):
            yield value_candidate(name, value)._replace(order=2)
    for word in keyword.kwlist:
        yield Candidate(word, fixed_description("keyword"), order=2)


def _words(code: str, point: CompletionPoint) -> set[str]:
    """Return the names in the code itself, which may not have run yet."""
    around = code[: point.start] + " " + code[point.start + len(point.stem) :]
    return {token.text for token in tokenize(around).all if token.kind == "name"}.difference(
        keyword.kwlist
    )


def _attributes(names: Names, target: str) -> Iterator[Candidate]:
    if target in names.modules:
        yield from member_names(names.modules[target])
        return
    value = resolve(target, names.values)
    if value is MISSING:
        return
    if class_module(get_class(value)).partition(".")[0] == "pandas":
        for column in list_columns(value):
            if column.isidentifier() and not keyword.iskeyword(column):
                yield Candidate(column, fixed_description("column"), order=0)
    if type(value) is Instance:
        value = value.cls
        for name in instance_names(value):
            yield Candidate(name, fixed_description("data"))
    found = module_members(value) if is_module(value) else attributes(value)
    for name, item in found.items():
        yield value_candidate(name, item)


def _arguments(names: Names, call: str) -> Iterator[Candidate]:
    value = resolve(call, names.values)
    if type(value) is Instance:
        called = find_in_class(value.cls, "__call__")
        value = types.MethodType(called, value) if type(called) is types.FunctionType else MISSING
    function, bound = function_of(value)
    if function is None:
        for name in builtin_keywords(value):
            yield Candidate(f"{name}=", fixed_description("argument"), order=0)
    for parameter in parameters(function, bound) if function is not None else ():
        if parameter.keyword:
            yield Candidate(
                f"{parameter.name}=", fixed_description("argument", parameter.text), order=0
            )


def _in_string(names: Names, point: CompletionPoint, code: str, cursor: int) -> dict[str, Any]:
    """Complete keys or columns if the string may be one, otherwise files."""
    keys = (
        [key for key in list_keys(resolve(point.target, names.values)) if key.text is not None]
        if point.target
        else []
    )
    if not keys and point.call:
        # The string may name a column of a table whose method is called, as in `df.groupby("`.
        holder, dot, _ = point.call.rpartition(".")
        keys = (
            [
                Candidate(name, fixed_description("column"), name)
                for name in list_columns(resolve(holder, names.values))
            ]
            if dot
            else []
        )
    if keys:
        after = code[cursor:]
        found = _listing(
            (key._replace(text=quote_literal(key.label, point.quote, after)) for key in keys),
            point.stem,
            point.start,
        )
        if found["items"]:
            return found
    if point.target or "\n" in point.stem:
        return {"start": point.start, "items": [], "more": 0}
    folder, name = _split(point.stem)
    return _listing(_files(point.stem), name, point.start + len(folder))


def _split(stem: str) -> tuple[str, str]:
    """Split typed text into the folder and the start of the name."""
    folder, separator, name = stem.rpartition("/")
    return folder + separator, name


def _files(stem: str) -> Iterator[Candidate]:
    """Yield the contents of the folder named by a string; nothing if it cannot be read."""
    folder, name = _split(stem)
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except (OSError, ValueError):
        return
    with entries:
        for count, entry in enumerate(entries):
            if count >= _ENTRIES:
                return
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            label = entry.name + ("/" if is_folder else "")
            if label.isprintable() and not set(label) & set("\"'\\"):
                yield Candidate(label, fixed_description("folder" if is_folder else "file"))
