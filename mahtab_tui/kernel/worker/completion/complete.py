"""Completes code from the live namespace, without running code of the user's objects."""

from __future__ import annotations

import builtins
import keyword
import os
import types
from collections.abc import Iterator
from typing import Any

from ..habits.magics import SUMMARIES
from ..statics import MISSING, attributes, in_class, is_module, loaded, module_of
from .candidates import Candidate, fixed, named, ranked
from .modules import member_names, module_members, module_names
from .place import CompletionPoint, place_at
from .resolve import resolve
from .results import Instance, class_of
from .signatures import builtin_keywords, function_of, instance_names, parameters
from .subscripts import columns_of, keys_of, literal
from .tokens import tokenize
from .unrun import Names, names_at

_SERVERS = f"{__package__.rpartition('.')[0]}.servers"
"""The module of MCP servers, whose tools are completed once they are known."""
MOST = 200
"""Candidates that are sent at most."""
_ENTRIES = 20_000
"""Entries of a folder that are examined."""


def complete(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, Any]:
    """Return the fields of the host's `Completions`. cursor: in characters from the start."""
    place = place_at(code[:cursor])
    names = names_at(namespace, code[: place.start])
    if place.kind == "string":
        return _in_string(names, place, code, cursor)
    pending = place.kind == "attribute" and _waits(
        resolve(place.target, names.values)
    )  # before: what comes meanwhile is listed
    return {
        **_listing(_candidates(namespace, names, place, code), place.stem, place.start),
        "pending": pending,
    }


def _waits(value: Any) -> bool:
    """Start an MCP server whose tools are not known yet; tell whether it is starting."""
    return type(value) is loaded(_SERVERS, "Server") and value.load_soon()


def _listing(candidates: Iterator[Candidate], stem: str, start: int) -> dict[str, Any]:
    found, more = ranked(candidates, stem, MOST)
    items = []
    for candidate in found:
        kind, doc = candidate.describe()
        text = candidate.label if candidate.text is None else candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": more}


def _candidates(
    namespace: dict[str, Any], names: Names, place: CompletionPoint, code: str
) -> Iterator[Candidate]:
    if place.kind == "magic":
        yield from (Candidate(name, fixed("magic", summary)) for name, summary in SUMMARIES.items())
    elif place.kind == "module":
        yield from module_names(place.target)
    elif place.kind == "member":
        yield from member_names(place.target)
    elif place.kind == "attribute":
        yield from _attributes(names, place.target)
    elif place.kind == "name":
        if place.argument:
            yield from _arguments(names, place.call)
        if place.target:
            for key in keys_of(resolve(place.target, names.values)):
                yield (
                    key
                    if key.text is None
                    else key._replace(label=repr(key.text), text=repr(key.text))
                )
        yield from _names(namespace, place, code)


def _names(namespace: dict[str, Any], place: CompletionPoint, code: str) -> Iterator[Candidate]:
    if not place.stem and place.target:
        return
    names = dict(list(namespace.items()))
    for name, value in names.items():
        if type(name) is str and name != "__builtins__":
            yield named(name, value)
    for name in _words(code, place):
        if name not in names:
            yield Candidate(name, fixed("name", "in this text"))
    for name, value in list(builtins.__dict__.items()):
        if name not in names and not name.startswith("__mahtab"):
            yield named(name, value)._replace(order=2)
    for word in keyword.kwlist:
        yield Candidate(word, fixed("keyword"), order=2)


def _words(code: str, place: CompletionPoint) -> set[str]:
    """Return the names in the code itself, which may not have run yet."""
    around = code[: place.start] + " " + code[place.start + len(place.stem) :]
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
    if module_of(class_of(value)).partition(".")[0] == "pandas":
        for column in columns_of(value):
            if column.isidentifier() and not keyword.iskeyword(column):
                yield Candidate(column, fixed("column"), order=0)
    if type(value) is Instance:
        value = value.cls
        for name in instance_names(value):
            yield Candidate(name, fixed("data"))
    found = module_members(value) if is_module(value) else attributes(value)
    for name, item in found.items():
        yield named(name, item)


def _arguments(names: Names, call: str) -> Iterator[Candidate]:
    value = resolve(call, names.values)
    if type(value) is Instance:
        called = in_class(value.cls, "__call__")
        value = types.MethodType(called, value) if type(called) is types.FunctionType else MISSING
    function, bound = function_of(value)
    if function is None:
        for name in builtin_keywords(value):
            yield Candidate(f"{name}=", fixed("argument"), order=0)
    for parameter in parameters(function, bound) if function is not None else ():
        if parameter.keyword:
            yield Candidate(f"{parameter.name}=", fixed("argument", parameter.text), order=0)


def _in_string(names: Names, place: CompletionPoint, code: str, cursor: int) -> dict[str, Any]:
    """Complete keys or columns if the string may be one, otherwise files."""
    keys = (
        [key for key in keys_of(resolve(place.target, names.values)) if key.text is not None]
        if place.target
        else []
    )
    if not keys and place.call:
        holder, dot, _ = place.call.rpartition(
            "."
        )  # of a table whose method is called, as in `df.groupby("`
        keys = (
            [
                Candidate(name, fixed("column"), name)
                for name in columns_of(resolve(holder, names.values))
            ]
            if dot
            else []
        )
    if keys:
        after = code[cursor:]
        found = _listing(
            (key._replace(text=literal(key.label, place.quote, after)) for key in keys),
            place.stem,
            place.start,
        )
        if found["items"]:
            return found
    if place.target or "\n" in place.stem:
        return {"start": place.start, "items": [], "more": 0}
    folder, name = _split(place.stem)
    return _listing(_files(place.stem), name, place.start + len(folder))


def _split(stem: str) -> tuple[str, str]:
    """Split typed text into the folder and the start of the name."""
    folder, separator, name = stem.rpartition("/")
    return folder + separator, name


def _files(stem: str) -> Iterator[Candidate]:
    """Yield the contents of the folder that a string names; nothing if it cannot be read."""
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
                yield Candidate(label, fixed("folder" if is_folder else "file"))
