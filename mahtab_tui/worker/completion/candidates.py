"""What completes a name, an attribute, an argument or a key, without running user code."""

from __future__ import annotations

import builtins
import keyword
import sys
import types
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

from ..magic.summaries import SUMMARIES
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
from ..values.short_values import scalar_literal
from ..values.summaries import one_line, summary, type_name, variable_kind
from ..values.variables import masked_summary
from .docstrings import MAX_DOC_LINE_CHARS, doc_line
from .instances import Instance, get_class
from .module_names import find_member_names, find_module_names, module_members
from .point import CompletionPoint
from .preceding_lines import NamesAtCursor
from .resolve import list_keys, resolve
from .signatures import builtin_keywords, function_of, parameters
from .table_columns import list_columns
from .tokens import tokenize

_SERVERS = f"{__package__.rpartition('.')[0]}.tools.servers"
"""The module of MCP servers, which may not be loaded."""
_OWN_BUILTINS = "__mahtab"
"""What the names that we add to builtins for our own use begin with."""

# Candidates of a lower order are listed first, if they fit equally well.
_FIRST = 0
_ORDINARY = 1
_LAST = 2


class CandidateInfo(NamedTuple):
    """What is shown beside a candidate."""

    kind: str
    doc: str
    """A line about it; may be empty."""


class Candidate(NamedTuple):
    """Something that may complete the text at the cursor."""

    label: str
    describe: Callable[[], CandidateInfo]
    """Called only for those that are listed."""
    text: str | None = None
    """The inserted text, if it is not the label."""
    order: int = _ORDINARY
    is_name: bool = True
    """Whether leading underscores make it private."""


def fixed_candidate(label: str, kind: str, doc: str = "", order: int = _ORDINARY) -> Candidate:
    """Return a candidate about which everything is known."""
    return Candidate(label, lambda: CandidateInfo(kind, doc), order=order)


def column_candidate(name: str, order: int = _FIRST) -> Candidate:
    """Return the candidate for a column of a table, which is inserted in quotes."""
    return Candidate(name, lambda: CandidateInfo("column", ""), name, order)


def _value_candidate(name: str, value: object, order: int = _ORDINARY) -> Candidate:
    """Return the candidate for a name, which is described by its value."""
    return Candidate(name, lambda: _describe(name, value), order=order)


def _describe(name: str, value: Any) -> CandidateInfo:
    """Describe the value of a name in a line."""
    if type(value) in BOUND:
        value = value.__func__
    if type(value) is property:
        return CandidateInfo("property", doc_line(value.fget))
    if type(value) is get_if_loaded("functools", "cached_property"):
        return CandidateInfo("property", doc_line(own_dict(value).get("func")))
    if type(value) in SLOTS:
        return CandidateInfo("property", doc_line(value))

    kind = variable_kind(value)
    if kind == "data":
        doc = f"{type_name(value)}  {masked_summary(name, value)}"
    elif kind == "function":
        doc = f"{summary(value)}  {doc_line(value)}"
    else:
        doc = doc_line(value)
    return CandidateInfo(kind, one_line(doc.strip(), MAX_DOC_LINE_CHARS))


def find_candidates(
    namespace: dict[str, object], names: NamesAtCursor, point: CompletionPoint, code: str
) -> Iterator[Candidate]:
    """Yield what may complete the text at the cursor, unless it is in a string.

    Args:
        namespace: The user's namespace.
        names: The namespace after the preceding lines.
        point: What stands at the cursor.
        code: The whole code.
    """
    if point.kind == "magic":
        yield from (fixed_candidate(name, "magic", about) for name, about in SUMMARIES.items())
    elif point.kind == "module":
        yield from _module_candidates(point.target)
    elif point.kind == "member":
        yield from _member_candidates(point.target)
    elif point.kind == "attribute":
        yield from _attribute_candidates(names, point.target)
    elif point.kind == "name":
        if point.argument:
            yield from _argument_candidates(names, point.call)
        if point.target:
            yield from _index_candidates(names, point.target)
        # In `table[`, the keys of the table come first; names are listed once one begins.
        if point.stem or not point.target:
            yield from _name_candidates(namespace, point, code)


def _name_candidates(
    namespace: dict[str, object], point: CompletionPoint, code: str
) -> Iterator[Candidate]:
    """Yield variables, names in the code, builtins and keywords. The parameters are those of
    `find_candidates`."""
    names = dict(list(namespace.items()))
    for name, value in names.items():
        if type(name) is str and name != "__builtins__":
            yield _value_candidate(name, value)

    # Names in the code itself, which may not have run yet.
    code_around = code[: point.start] + " " + code[point.start + len(point.stem) :]
    words = {token.text for token in tokenize(code_around).all if token.kind == "name"}
    for name in words.difference(keyword.kwlist, names):
        yield fixed_candidate(name, "name", "in this text")

    for name, value in list(builtins.__dict__.items()):
        if name not in names and not name.startswith(_OWN_BUILTINS):
            yield _value_candidate(name, value, order=_LAST)
    yield from (fixed_candidate(word, "keyword", order=_LAST) for word in keyword.kwlist)


def _attribute_candidates(names: NamesAtCursor, target: str) -> Iterator[Candidate]:
    """Yield the attributes of an expression.

    Args:
        target: Its code.
    """
    if target in names.modules:
        yield from _member_candidates(names.modules[target])
        return
    value = resolve(target, names.values)
    if value is MISSING:
        return

    if class_module(get_class(value)).partition(".")[0] == "pandas":
        for column in list_columns(value):
            if column.isidentifier() and not keyword.iskeyword(column):
                yield fixed_candidate(column, "column", order=_FIRST)
    if type(value) is Instance:
        value = value.cls
        yield from (fixed_candidate(name, "data") for name in _names_set_by_init(value))
    yield from (_value_candidate(name, item) for name, item in _members(value).items())


def is_server(value: object) -> bool:
    """Return whether a value is an MCP server, whose attributes are its tools."""
    return type(value) is get_if_loaded(_SERVERS, "Server")


def _members(value: object) -> dict[str, Any]:
    """Return the attributes of an object by name."""
    if is_module(value):
        return module_members(value)
    if is_server(value):
        return {name: item for name, item in own_dict(value).items() if name != "__doc__"}
    return attributes(value)


def _names_set_by_init(cls: type) -> list[str]:
    """Return the attributes that the `__init__` of a class sets, by its instructions."""
    function = find_in_class(cls, "__init__")
    if type(function) is not types.FunctionType or not function.__code__.co_argcount:
        return []
    self_name = function.__code__.co_varnames[0]
    instructions = list(late_import("dis").get_instructions(function.__code__))
    names = []
    for load, store in zip(instructions, instructions[1:]):
        if store.opname != "STORE_ATTR":
            continue
        # From Python 3.13 on, one instruction may load two variables.
        owner = load.argval[-1] if type(load.argval) is tuple else load.argval
        if owner == self_name:
            names.append(store.argval)
    return names


def _argument_candidates(names: NamesAtCursor, call: str) -> Iterator[Candidate]:
    """Yield the keyword arguments of a call.

    Args:
        call: The code of what is called.
    """
    value = resolve(call, names.values)
    if type(value) is Instance:
        call_method = find_in_class(value.cls, "__call__")
        if type(call_method) is types.FunctionType:
            value = types.MethodType(call_method, value)
        else:
            value = MISSING

    function, bound_count = function_of(value)
    texts_by_name: dict[str, str] = {}
    if function is None:
        texts_by_name = dict.fromkeys(builtin_keywords(value), "")
    else:
        for parameter in parameters(function, bound_count):
            if parameter.keyword:
                texts_by_name[parameter.name] = parameter.text
    for name, text in texts_by_name.items():
        yield fixed_candidate(f"{name}=", "argument", text, order=_FIRST)


# Keys


def key_candidates(value: object) -> list[Candidate]:
    """Return the columns of a table, or the keys of a dict. Those without a text are not strings."""
    if columns := list_columns(value):
        return [column_candidate(name) for name in columns]
    labels = [(_key_label(key), key, item) for key, item in list_keys(value)]
    return [_key_candidate(label, key, item) for label, key, item in labels if label is not None]


def _key_label(key: Any) -> str | None:
    """Return how a key is listed; None for a number that is too large to be written."""
    return str(key) if type(key) is str else scalar_literal(key)


def _key_candidate(label: str, key: object, item: object) -> Candidate:
    """Return the candidate for a key of a dict, which is described by its item."""
    is_string = type(key) is str

    def describe() -> CandidateInfo:
        return CandidateInfo("key", f"{type_name(item)}  {masked_summary(label, item)}".rstrip())

    return Candidate(label, describe, label if is_string else None, _FIRST, is_name=False)


def _index_candidates(names: NamesAtCursor, target: str) -> Iterator[Candidate]:
    """Yield the keys of an expression as code.

    Args:
        target: Its code.
    """
    for key in key_candidates(resolve(target, names.values)):
        if key.text is None:
            yield key
        else:
            code = repr(key.text)
            yield key._replace(label=code, text=code)


# Modules


def _module_candidates(package: str) -> Iterator[Candidate]:
    """Yield the modules in a package; those of the top level if it is empty."""
    for name in find_module_names(package):
        path = f"{package}.{name}" if package else name
        yield Candidate(name, _module_describer(path))


def _module_describer(path: str) -> Callable[[], CandidateInfo]:
    return lambda: CandidateInfo("module", doc_line(sys.modules.get(path)))


def _member_candidates(module: str) -> Iterator[Candidate]:
    """Yield what can be imported from a module, which may not be loaded."""
    loaded_module = sys.modules.get(module)
    if loaded_module is not None:
        for name, value in module_members(loaded_module).items():
            yield _value_candidate(name, value)
    else:
        for name in find_member_names(module):
            yield fixed_candidate(name, "data", f"of {module}")
    for candidate in _module_candidates(module):
        yield candidate._replace(order=_LAST)
