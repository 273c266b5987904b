"""Describes objects that are not tables, in a few lines for a model, without running code of the user's.

`object_lines` chooses by the kind of the object; each kind has its function.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from itertools import islice
from typing import Any

from ..completion.docstrings import doc_line
from ..completion.signatures import format_signature
from ..inspection.children import container_class, field_names
from ..inspection.texts import text_class
from ..values.objects import (
    BOUND,
    SCALARS,
    Classes,
    address_of,
    attributes,
    class_module,
    is_class,
    is_module,
    name_of,
    own_dict,
    unwrap,
)
from ..values.short_values import (
    SEQUENCES,
    describe_types,
    literal,
    short_key,
    short_value,
    stored_fields,
)
from ..values.summaries import format_count, one_line, summary, type_name, variable_kind

_MAX_ITEMS = 12
"""Items, keys or attributes that are written with their values."""
_MAX_NAMES = 30
"""Further names that are listed."""
_MAX_TYPED_ITEMS = 100_000
"""Items of a sequence whose types are read."""
_MAX_DICT_CHARS = 120
"""Characters of a dict that is written in one line."""
_MAX_SEQUENCE_CHARS = 2 * _MAX_DICT_CHARS
"""Characters of the items of a sequence that are written in one line."""
_MAX_TEXT_CHARS = 100
_MAX_BYTES = 20
"""Bytes of a bytes object that are written."""
_MAX_COUNTED_CHARS = 50_000_000
"""Characters of a text whose lines are counted."""
_CO_COROUTINE = 0x80
"""The flag of the code of an asynchronous function."""
_UNNAMED_MODULES = ("__main__", "builtins", "")
"""Modules that are not written before the name of a class."""
_DRAWING_PACKAGES = frozenset({"altair", "bokeh", "matplotlib", "plotly", "seaborn"})
"""Packages for figures. The attributes of their objects say nothing about what is drawn."""
_WITH_DOC = Classes(types.FunctionType, types.BuiltinFunctionType, types.MethodType)
"""Functions whose docstrings are read."""


def object_lines(name: str, value: Any) -> list[str]:
    """Describe an object that is not a table. The lines are not shortened yet."""
    kind = variable_kind(value)
    if kind == "function":
        return _function_lines(name, value)
    if kind == "class":
        return _class_lines(name, value)
    if is_module(value):
        return [_module_line(name, value)]

    value_text_class = text_class(value)
    if value_text_class is str:
        return _text_lines(name, value)
    if value_text_class in (bytes, bytearray):
        return [_bytes_line(name, value, value_text_class)]

    base = container_class(value)
    if base is dict:
        size = format_count(dict.__len__(value), "items")
        return _dict_lines(f"{name}: {type_name(value)}, {size}", value)
    if base in SEQUENCES:
        return _sequence_lines(name, value, base)

    value_summary = summary(value)
    if value_summary or type(value) in SCALARS:
        return [f"{name}: {type_name(value)} = {value_summary}"]
    return _instance_lines(name, value)


def _module_line(name: str, module: object) -> str:
    """Describe a module in a line."""
    module_name = own_dict(module).get("__name__")
    if type(module_name) is not str:
        module_name = ""
    return f"{name}: module {module_name} {summary(module)}".rstrip()


def _text_lines(name: str, value: Any) -> list[str]:
    """Describe a text: all of a short one, of a longer one the first line."""
    # The class of the text may have its own methods.
    size = str.__len__(value)
    beginning = str.__getitem__(value, slice(0, _MAX_TEXT_CHARS + 1))
    title = f"{name}: {type_name(value)}, {format_count(size, 'characters')}"
    if size <= _MAX_TEXT_CHARS and "\n" not in beginning:
        return [f"{title}: {beginning!r}"]
    if size <= _MAX_COUNTED_CHARS:
        line_count = str.count(value, "\n") + (not str.endswith(value, "\n"))
        title += f", {format_count(line_count, 'lines')}"
    first_line = beginning.partition("\n")[0]
    return [title, f"  first line: {literal(first_line, _MAX_TEXT_CHARS)}"]


def _bytes_line(name: str, value: Any, base: Any) -> str:
    """Describe bytes in a line.

    Args:
        name: The variable.
        value: Its value.
        base: The built-in class of the value.
    """
    size = base.__len__(value)
    beginning = repr(bytes(base.__getitem__(value, slice(0, _MAX_BYTES))))
    if size > _MAX_BYTES:
        closing_quote = beginning[-1]
        beginning = f"{beginning[:-1]}…{closing_quote}"
    return f"{name}: {type_name(value)}, {format_count(size, 'bytes')}: {beginning}"


def _dict_lines(title: str, value: Any) -> list[str]:
    """Describe a dict in one line if it is small, else with a line for each of the first keys."""
    size = dict.__len__(value)
    items = list(islice(dict.items(value), _MAX_ITEMS + _MAX_NAMES))
    entries = [f"{short_key(key)}: {short_value(item, key)}" for key, item in items[:_MAX_ITEMS]]
    if not entries:
        return [title]
    line_chars = sum(len(entry) + len(", ") for entry in entries)
    if size <= _MAX_ITEMS and line_chars <= _MAX_DICT_CHARS:
        return [f"{title}: {{{', '.join(entries)}}}"]

    lines = [title, *(f"  {entry}" for entry in entries)]
    if size > _MAX_ITEMS:
        names = [short_key(key) for key, _ in items[_MAX_ITEMS:]]
        if size > len(items):
            names.append("...")
        lines.append(f"  and {size - _MAX_ITEMS:,} more keys: {', '.join(names)}")
    return lines


def _sequence_lines(name: str, value: Any, base: Any) -> list[str]:
    """Describe a list, tuple, set or deque in one line if its first items are short, else with a line
    for each.

    Args:
        name: The variable.
        value: What it contains.
        base: The built-in class of the value.
    """
    first_items = list(islice(base.__iter__(value), _MAX_ITEMS))
    size = base.__len__(value)
    title = f"{name}: {type_name(value)}, {format_count(size, 'items')}"
    types_text = _describe_item_types(value, base)
    if types_text:
        typed_part = f", the first {_MAX_TYPED_ITEMS:,}" if size > _MAX_TYPED_ITEMS else ""
        title += f"{typed_part} of {types_text}"
    if types_text == "dict" and type(first_items[0]) is dict:
        return [title, *_dict_lines("  first item", first_items[0])]

    fields = field_names(type(value))[:_MAX_ITEMS] if base is tuple else ()
    entries = _item_entries(first_items, fields)
    are_short = sum(map(len, entries)) <= _MAX_SEQUENCE_CHARS
    is_one_line = are_short and all(type(item) in SCALARS for item in first_items)
    if not is_one_line and not fields and base in (list, tuple):
        entries = [f"[{index}]: {entry}" for index, entry in enumerate(entries)]
    omitted_count = size - len(entries)
    if omitted_count > 0:
        entries.append(f"... and {omitted_count:,} more")
    if is_one_line:
        return [f"{title}: {', '.join(entries)}" if entries else title]
    return [title, *(f"  {entry}" for entry in entries)]


def _item_entries(items: Sequence[object], fields: Sequence[str]) -> list[str]:
    """Return the first items of a sequence as short texts.

    Args:
        items: The items.
        fields: The names of the fields that the first of them are, as in a named tuple.
    """
    entries: list[str] = []
    for index, item in enumerate(items):
        if index < len(fields):
            entries.append(f"{fields[index]}={short_value(item, fields[index])}")
        else:
            entries.append(short_value(item))
    return entries


def _describe_item_types(value: Any, base: Any) -> str:
    """Return the types of the first items of a sequence; empty without items."""
    typed_items = islice(base.__iter__(value), _MAX_TYPED_ITEMS)
    item_by_type = {address_of(type(item)): item for item in typed_items}
    return describe_types(item_by_type.values())


def _function_lines(name: str, value: object) -> list[str]:
    """Describe a function by its signature and the first line of its docstring."""
    function = unwrap(value)
    if function is None:
        keyword = "function"
    elif function.__code__.co_flags & _CO_COROUTINE:
        keyword = "async def"
    else:
        keyword = "def"
    signature = f"{keyword} {format_signature(value, name)}"
    return [*signature.split("\n"), *_doc_lines(value)]


def _doc_lines(value: object) -> list[str]:
    """Return the first line of a docstring; none if there is no docstring."""
    first_line = ""
    if is_class(value) or type(value) in _WITH_DOC:
        first_line = doc_line(value)
    return [f'    """{first_line}"""'] if first_line else []


def _class_lines(name: str, value: Any) -> list[str]:
    """Describe a class by its bases, its constructor, and the names of its public attributes."""
    bases = [
        one_line(name_of(base))
        for base in type.__dict__["__bases__"].__get__(value)
        if base is not object
    ]
    title = f"class {one_line(name_of(value))}"
    if bases:
        title += f"({','.join(bases)})"
    signature = format_signature(value, name)
    is_known = signature != f"{name}(…)"
    methods = _methods(value)
    other_attributes = [
        label for label in attributes(value) if not label.startswith("_") and label not in methods
    ]
    return [
        title,
        *_doc_lines(value),
        *(signature.split("\n") if is_known else []),
        *_names_line("methods", methods),
        *_names_line("attributes", other_attributes),
    ]


def _methods(value: object) -> list[str]:
    """Return the names of the public methods of a class or an object."""
    return [
        label
        for label, item in attributes(value).items()
        if not label.startswith("_") and (type(item) in BOUND or variable_kind(item) == "function")
    ]


def _names_line(title: str, names: Sequence[str]) -> list[str]:
    """Return a line of names; none if there are no names."""
    if not names:
        return []
    words = list(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        words.append(f"... and {len(names) - _MAX_NAMES:,} more")
    return [f"  {title}: {', '.join(words)}"]


def _instance_lines(name: str, value: object) -> list[str]:
    """Describe an object by its attributes and, if its class is the user's, its methods."""
    module = class_module(type(value))
    prefix = "" if module in _UNNAMED_MODULES else f"{one_line(module)}."
    title = f"{name}: {prefix}{type_name(value)} object"
    if module.partition(".")[0] in _DRAWING_PACKAGES:
        return [title]
    fields = list(stored_fields(value))
    return [
        title,
        *(f"  .{label}: {short_value(item, label)}" for label, item in fields[:_MAX_ITEMS]),
        *_names_line("more attributes", [label for label, _ in fields[_MAX_ITEMS:]]),
        *_names_line("methods", _methods(value) if module == "__main__" else []),
    ]
