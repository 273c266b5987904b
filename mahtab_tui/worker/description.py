"""Describes variables for a model: a few lines each, from metadata and first values. No code of the
user's classes runs.

Objects are recognised by their exact class, and read through the slots of built-in classes.
Anything that only user code could compute is left out.
"""

from __future__ import annotations

import time
import types
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

from .completion.cursor import format_signature
from .detail import (
    SAMPLE,
    SCALARS,
    SEQUENCES,
    describe_types,
    literal,
    short_key,
    short_value,
    stored_fields,
)
from .inspection.children import container_class, field_names
from .inspection.content import text_class as text_base_of
from .objects import (
    BOUND,
    MISSING,
    attributes,
    class_dict,
    class_module,
    is_class,
    is_module,
    name_of,
    own_dict,
    run_with_timeout,
    unwrap,
)
from .table_description import describe_table
from .variables import format_count, looks_secret, one_line, summary, type_name, variable_kind

SECONDS = 1.0
"""Time limit for one variable."""
ALL_SECONDS = 2.0
"""Time limit for all variables; the rest is left out."""

_WIDTH = 240
"""Maximum characters of a line."""
_ITEMS = 12
"""Maximum number of a container's items, or attributes, to show."""
_NAMES = 30
"""Maximum number of names in a line."""
_ONE_LINE = 120
"""Maximum characters of a dict that is shown on one line."""
_TEXT = 100
"""Maximum characters of a text's first line."""
_BYTES = 20
_COUNTED = 50_000_000
"""Maximum characters of a text whose lines are counted."""
_COROUTINE = 0x80
"""Flag of an ``async def``'s code object."""


def describe(namespace: dict[str, Any], names: Sequence[str], limit: int) -> dict[str, str]:
    """Describe variables by name, each in at most `limit` characters.

    Names that do not exist or look like secrets are left out, and variables whose description fails
    or takes too long.
    """
    found: dict[str, str] = {}
    ends = time.monotonic() + ALL_SECONDS
    for name in names:
        value = namespace.get(name, MISSING)
        left = ends - time.monotonic()
        if value is MISSING or left <= 0 or (looks_secret(name) and variable_kind(value) == "data"):
            continue
        try:
            found[name] = run_with_timeout(
                min(SECONDS, left), partial(describe_value, name, value, limit)
            )
        except Exception:  # a library's object in an unforeseen state, or too slow
            continue
    return found


def describe_value(name: str, value: Any, limit: int) -> str:
    """Describe an object in printable lines of at most `limit` characters in total."""
    lines = [one_line(line, _WIDTH) for line in _lines(name, value)]
    if sum(map(len, lines)) + len(lines) - 1 <= limit:
        return "\n".join(lines)
    shown, room = [], limit - len("...")
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return "\n".join([*shown, "..."]) if shown else one_line(lines[0], max(1, limit))


def _lines(name: str, value: Any) -> list[str]:
    kind = variable_kind(value)
    if kind == "function":
        return _function_lines(name, value)
    if kind == "class":
        return _class_lines(name, value)
    if is_module(value):
        known = own_dict(value).get("__name__")
        return [f"{name}: module {known if type(known) is str else ''} {summary(value)}".rstrip()]
    table = describe_table(name, value)
    if table is not None:
        return table
    if text_base_of(value) is str:
        return _text_lines(name, value)
    if text_base_of(value) in (bytes, bytearray):
        return _bytes_lines(name, value)
    base = container_class(value)
    if base is dict:
        return _dict_lines(name, value)
    if base in SEQUENCES:
        return _sequence_lines(name, value, base)
    about = summary(value)
    if about or type(value) in SCALARS:
        return [f"{name}: {type_name(value)} = {about}"]
    return _instance_lines(name, value)


# Texts and containers


def _text_lines(name: str, value: Any) -> list[str]:
    size = str.__len__(value)
    first = str.__getitem__(value, slice(0, _TEXT + 1))
    title = f"{name}: {type_name(value)}, {format_count(size, 'characters')}"
    if size <= _TEXT and "\n" not in first:
        return [f"{title}: {first!r}"]
    lines = f", {format_count(str.count(value, chr(10)) + 1, 'lines')}" if size <= _COUNTED else ""
    return [f"{title}{lines}", f"  first line: {literal(first.partition(chr(10))[0], _TEXT)}"]


def _bytes_lines(name: str, value: Any) -> list[str]:
    base = text_base_of(value)
    size = base.__len__(value)
    first = repr(bytes(base.__getitem__(value, slice(0, _BYTES))))
    shown = first if size <= _BYTES else f"{first[:-1]}…{first[-1]}"
    return [f"{name}: {type_name(value)}, {format_count(size, 'bytes')}: {shown}"]


def _dict_lines(name: str, value: Any) -> list[str]:
    title = f"{name}: {type_name(value)}, {format_count(dict.__len__(value), 'items')}"
    return _item_lines(title, value)


def _item_lines(title: str, value: Any) -> list[str]:
    """Describe the items of a dict, on the line of the title if they fit."""
    size = dict.__len__(value)
    items = list(islice(dict.items(value), _ITEMS + _NAMES))
    words = [f"{short_key(key)}: {short_value(item, key)}" for key, item in items[:_ITEMS]]
    if size <= _ITEMS and sum(map(len, words)) + 2 * size <= _ONE_LINE:
        return [f"{title}: {{{', '.join(words)}}}" if words else title]
    lines = [title, *(f"  {word}" for word in words)]
    if size > _ITEMS:
        names = [
            *(short_key(key) for key, _ in items[_ITEMS:]),
            *(["..."] if size > len(items) else []),
        ]
        lines.append(f"  and {size - _ITEMS:,} more keys: {', '.join(names)}")
    return lines


def _sequence_lines(name: str, value: Any, base: Any) -> list[str]:
    size = base.__len__(value)
    sample = list(islice(base.__iter__(value), SAMPLE))
    kinds = describe_types(sample)
    title = f"{name}: {type_name(value)}, {format_count(size, 'items')}{f' of {kinds}' if kinds else ''}"
    if kinds == "dict" and type(sample[0]) is dict:
        return [title, *_item_lines("  first item", sample[0])]
    fields = field_names(type(value)) if base is tuple else ()
    words = [
        short_value(item, field) for item, field in zip(sample, [*fields, *[""] * _ITEMS][:_ITEMS])
    ]
    if fields:
        words = [f"{field}={word}" for field, word in zip(fields, words)]
    if (
        all(type(item) in SCALARS for item in sample[:_ITEMS])
        and sum(map(len, words)) <= _ONE_LINE * 2
    ):
        more = [f"... and {size - len(words):,} more"] if size > len(words) else []
        return [f"{title}: {', '.join([*words, *more])}" if words else title]
    shown = [
        f"  {word}" if fields or base not in (list, tuple) else f"  [{at}]: {word}"
        for at, word in enumerate(words)
    ]
    return [
        title,
        *shown,
        *([f"  ... and {size - len(words):,} more"] if size > len(words) else []),
    ]


# Functions, classes and instances


def _function_lines(name: str, value: Any) -> list[str]:
    function = unwrap(value)
    word = (
        "function"
        if function is None
        else "async def"
        if function.__code__.co_flags & _COROUTINE
        else "def"
    )
    return [*f"{word} {format_signature(value, name)}".split("\n"), *_doc_line(value)]


def _doc_line(value: Any) -> list[str]:
    """Return the first line of a docstring, if there is one."""
    doc: Any = class_dict(value).get("__doc__") if is_class(value) else None
    if type(value) is types.FunctionType or type(value) is types.BuiltinFunctionType:
        doc = value.__doc__
    elif type(value) is types.MethodType and type(value.__func__) is types.FunctionType:
        doc = value.__func__.__doc__
    first = doc.strip().split("\n", 1)[0].strip() if type(doc) is str else ""
    return [f'    """{one_line(first, _TEXT)}"""'] if first else []


def _class_lines(name: str, value: Any) -> list[str]:
    bases = [
        one_line(name_of(base))
        for base in type.__dict__["__bases__"].__get__(value)
        if base is not object
    ]
    signature = format_signature(value, name)
    methods = _methods(value)
    others = [
        label for label in attributes(value) if not label.startswith("_") and label not in methods
    ]
    return [
        f"class {one_line(name_of(value))}{f'({chr(44).join(bases)})' if bases else ''}",
        *_doc_line(value),
        *([] if signature == f"{name}(…)" else signature.split("\n")),
        *_names_line("methods", methods),
        *_names_line("attributes", others),
    ]


def _methods(value: Any) -> list[str]:
    """Return the names of the public methods of a class or an object."""
    found = attributes(value).items()
    return [
        label
        for label, item in found
        if not label.startswith("_") and (type(item) in BOUND or variable_kind(item) == "function")
    ]


def _names_line(word: str, names: Sequence[str]) -> list[str]:
    more = [f"... and {len(names) - _NAMES:,} more"] if len(names) > _NAMES else []
    return [f"  {word}: {', '.join([*names[:_NAMES], *more])}"] if names else []


def _instance_lines(name: str, value: Any) -> list[str]:
    """Describe an object by its public attributes as stored, and by its methods if its class is the
    user's own."""
    stored = list(stored_fields(value))
    module = class_module(type(value))
    where = "" if module in ("__main__", "builtins", "") else f"{one_line(module)}."
    return [
        f"{name}: {where}{type_name(value)} object",
        *(f"  .{label}: {short_value(item, label)}" for label, item in stored[:_ITEMS]),
        *_names_line("more attributes", [label for label, _ in stored[_ITEMS:]]),
        *_names_line("methods", _methods(value) if module == "__main__" else []),
    ]
