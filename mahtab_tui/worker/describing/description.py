"""Describes variables: in a few lines for a model, and in detail for the user. Anything that
only user code could compute is left out, except on the user's request."""

from __future__ import annotations

import time
import types
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Callable

from ..completion.signatures import doc_line, find_source, format_signature, get_docstring
from ..inspection.children import container_class, field_names
from ..inspection.columns import InspectionError, run_limited
from ..inspection.texts import text_class
from ..values.objects import (
    BOUND,
    MISSING,
    SCALARS,
    Classes,
    address_of,
    attributes,
    class_module,
    is_class,
    is_module,
    limited_repr,
    name_of,
    own_dict,
    run_with_timeout,
    unwrap,
)
from ..values.secret_names import HIDDEN_VALUE, is_hidden, looks_secret
from ..values.short_values import (
    SEQUENCES,
    describe_type,
    describe_types,
    literal,
    short_key,
    short_value,
    stored_fields,
)
from ..values.summaries import (
    PLAIN,
    format_count,
    one_line,
    safe_length,
    summary,
    type_name,
    variable_kind,
)
from ..values.variables import masked_summary
from .table_description import describe_table

DESCRIPTION_TIMEOUT_S = 1.0
ALL_DESCRIPTIONS_TIMEOUT_S = 2.0

_MAX_LINE_CHARS = 240
_MAX_TABLE_LINE_CHARS = 600
_MAX_ITEMS = 12
_MAX_NAMES = 30
_MAX_TYPED_ITEMS = 100_000
"""Items of a sequence whose types are read."""
_MAX_DICT_CHARS = 120
_MAX_TEXT_CHARS = 100
_MAX_BYTES = 20
_MAX_COUNTED_CHARS = 50_000_000
_CO_COROUTINE = 0x80
_DRAWING_PACKAGES = frozenset({"altair", "bokeh", "matplotlib", "plotly", "seaborn"})
"""Packages for figures. The attributes of their objects say nothing about what is drawn."""
_WITH_DOC = Classes(types.FunctionType, types.BuiltinFunctionType, types.MethodType)

MAX_DETAIL_CHARS = 200_000
DETAIL_TIMEOUT_S = 2.0


def describe(namespace: dict[str, object], names: Sequence[str], limit: int) -> dict[str, str]:
    """Describe variables by name, each in at most `limit` characters; without unknown and secret
    ones, and those whose description fails or takes too long."""
    descriptions: dict[str, str] = {}
    deadline = time.monotonic() + ALL_DESCRIPTIONS_TIMEOUT_S
    for name in names:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            break
        value = namespace.get(name, MISSING)
        if value is MISSING or (looks_secret(name) and variable_kind(value) == "data"):
            continue
        work = partial(describe_value, name, value, limit)
        try:
            descriptions[name] = run_with_timeout(
                min(DESCRIPTION_TIMEOUT_S, remaining_seconds), work
            )
        except Exception:  # a library's object in an unforeseen state, or too slow
            continue
    return descriptions


class Describer:
    """Describes variables like `describe`, and keeps the descriptions until a cell has run."""

    def __init__(self, namespace: dict[str, object], version: Callable[[], int | None]) -> None:
        """
        Args:
            version: Returns a number that every cell increases; None while a cell runs.
        """
        self._namespace = namespace
        self._read_version = version
        self._version: int | None = None
        """The version to which the descriptions belong."""
        self._descriptions: dict[tuple[str, int, int], str] = {}
        """By name, limit and the address of the object."""

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        version = self._read_version()
        if version is None:
            return describe(self._namespace, names, limit)
        if version != self._version:
            self._version = version
            self._descriptions = {}

        descriptions = self._descriptions
        keys = {name: (name, limit, address_of(self._namespace.get(name))) for name in names}
        missing_names = [name for name in names if keys[name] not in descriptions]
        new = describe(self._namespace, missing_names, limit)
        texts = {
            name: new[name] if name in new else descriptions[key]
            for name, key in keys.items()
            if name in new or key in descriptions
        }
        # What a cell may have changed meanwhile is not kept.
        if self._read_version() == version:
            descriptions.update({keys[name]: text for name, text in new.items()})
        return texts


def describe_value(name: str, value: object, limit: int) -> str:
    table = None
    if variable_kind(value) == "data":
        table = describe_table(name, value, limit)
    if table is None:
        lines = [one_line(line, _MAX_LINE_CHARS) for line in _lines(name, value)]
    else:
        lines = [one_line(line, _MAX_TABLE_LINE_CHARS) for line in table]
    text = "\n".join(lines)
    if len(text) <= limit:
        return text

    visible_lines: list[str] = []
    remaining_chars = limit - len("...")
    for line in lines:
        remaining_chars -= len(line) + 1
        if remaining_chars < 0:
            break
        visible_lines.append(line)
    if not visible_lines:
        return one_line(lines[0], max(1, limit))
    return "\n".join([*visible_lines, "..."])


def _lines(name: str, value: Any) -> list[str]:
    kind = variable_kind(value)
    if kind == "function":
        return _function_lines(name, value)
    if kind == "class":
        return _class_lines(name, value)
    if is_module(value):
        module_name = own_dict(value).get("__name__")
        return [
            f"{name}: module {module_name if type(module_name) is str else ''} {summary(value)}".rstrip()
        ]
    if text_class(value) is str:
        return _text_lines(name, value)
    if text_class(value) in (bytes, bytearray):
        return _bytes_lines(name, value, text_class(value))
    base = container_class(value)
    if base is dict:
        size = format_count(dict.__len__(value), "items")
        return _dict_lines(f"{name}: {type_name(value)}, {size}", value)
    if base in SEQUENCES:
        return _sequence_lines(name, value, base)
    about = summary(value)
    if about or type(value) in SCALARS:
        return [f"{name}: {type_name(value)} = {about}"]
    return _instance_lines(name, value)


# Texts and containers


def _text_lines(name: str, value: Any) -> list[str]:
    size = str.__len__(value)
    beginning = str.__getitem__(value, slice(0, _MAX_TEXT_CHARS + 1))
    title = f"{name}: {type_name(value)}, {format_count(size, 'characters')}"
    if size <= _MAX_TEXT_CHARS and "\n" not in beginning:
        return [f"{title}: {beginning!r}"]
    if size <= _MAX_COUNTED_CHARS:
        title += f", {format_count(str.count(value, chr(10)) + 1, 'lines')}"
    return [title, f"  first line: {literal(beginning.partition(chr(10))[0], _MAX_TEXT_CHARS)}"]


def _bytes_lines(name: str, value: Any, base: Any) -> list[str]:
    size = base.__len__(value)
    beginning = repr(bytes(base.__getitem__(value, slice(0, _MAX_BYTES))))
    if size <= _MAX_BYTES:
        preview = beginning
    else:
        preview = f"{beginning[:-1]}…{beginning[-1]}"
    return [f"{name}: {type_name(value)}, {format_count(size, 'bytes')}: {preview}"]


def _dict_lines(title: str, value: Any) -> list[str]:
    size = dict.__len__(value)
    items = list(islice(dict.items(value), _MAX_ITEMS + _MAX_NAMES))
    words = [f"{short_key(key)}: {short_value(item, key)}" for key, item in items[:_MAX_ITEMS]]
    if size <= _MAX_ITEMS and sum(map(len, words)) + 2 * size <= _MAX_DICT_CHARS:
        return [f"{title}: {{{', '.join(words)}}}" if words else title]
    lines = [title, *(f"  {word}" for word in words)]
    if size > _MAX_ITEMS:
        names = [short_key(key) for key, _ in items[_MAX_ITEMS:]]
        names += ["..."] if size > len(items) else []
        lines.append(f"  and {size - _MAX_ITEMS:,} more keys: {', '.join(names)}")
    return lines


def _sequence_lines(name: str, value: Any, base: Any) -> list[str]:
    size = base.__len__(value)
    sample = list(islice(base.__iter__(value), _MAX_ITEMS))
    typed_items = islice(base.__iter__(value), _MAX_TYPED_ITEMS)
    item_by_type = {address_of(type(item)): item for item in typed_items}
    kinds = describe_types(item_by_type.values())
    title = f"{name}: {type_name(value)}, {format_count(size, 'items')}"
    if kinds and size > _MAX_TYPED_ITEMS:
        title += f", the first {_MAX_TYPED_ITEMS:,}"
    if kinds:
        title += f" of {kinds}"
    if kinds == "dict" and type(sample[0]) is dict:
        return [title, *_dict_lines("  first item", sample[0])]
    fields: tuple[str, ...] = ()
    if base is tuple:
        fields = field_names(type(value))[:_MAX_ITEMS]
    field_or_empty = [*fields, *[""] * _MAX_ITEMS]
    words = [short_value(item, field) for item, field in zip(sample, field_or_empty)]
    if fields:
        words = [f"{field}={word}" for field, word in zip(fields, words)]
    omitted_line = []
    if size > len(words):
        omitted_line = [f"... and {size - len(words):,} more"]
    if (
        all(type(item) in SCALARS for item in sample)
        and sum(map(len, words)) <= _MAX_DICT_CHARS * 2
    ):
        return [f"{title}: {', '.join([*words, *omitted_line])}" if words else title]
    if not fields and base in (list, tuple):
        words = [f"[{at}]: {word}" for at, word in enumerate(words)]
    return [title, *(f"  {word}" for word in [*words, *omitted_line])]


# Functions, classes and instances


def _function_lines(name: str, value: object) -> list[str]:
    function = unwrap(value)
    word = "function"
    if function is not None:
        word = "def"
        if function.__code__.co_flags & _CO_COROUTINE:
            word = "async def"
    return [*f"{word} {format_signature(value, name)}".split("\n"), *_doc_lines(value)]


def _doc_lines(value: object) -> list[str]:
    summary_line = ""
    if is_class(value) or type(value) in _WITH_DOC:
        summary_line = doc_line(value)
    if summary_line:
        return [f'    """{summary_line}"""']
    return []


def _class_lines(name: str, value: Any) -> list[str]:
    above = type.__dict__["__bases__"].__get__(value)
    bases = [one_line(name_of(base)) for base in above if base is not object]
    signature = format_signature(value, name)
    methods = _methods(value)
    public = (label for label in attributes(value) if not label.startswith("_"))
    attribute_labels = [label for label in public if label not in methods]
    return [
        f"class {one_line(name_of(value))}{f'({chr(44).join(bases)})' if bases else ''}",
        *_doc_lines(value),
        *([] if signature == f"{name}(…)" else signature.split("\n")),
        *_names_line("methods", methods),
        *_names_line("attributes", attribute_labels),
    ]


def _methods(value: object) -> list[str]:
    return [
        label
        for label, item in attributes(value).items()
        if not label.startswith("_") and (type(item) in BOUND or variable_kind(item) == "function")
    ]


def _names_line(word: str, names: Sequence[str]) -> list[str]:
    omitted_note = []
    if len(names) > _MAX_NAMES:
        omitted_note = [f"... and {len(names) - _MAX_NAMES:,} more"]
    if names:
        return [f"  {word}: {', '.join([*names[:_MAX_NAMES], *omitted_note])}"]
    return []


def _instance_lines(name: str, value: object) -> list[str]:
    field_items = list(stored_fields(value))
    module = class_module(type(value))
    if module in ("__main__", "builtins", ""):
        where = ""
    else:
        where = f"{one_line(module)}."
    title = f"{name}: {where}{type_name(value)} object"
    if module.partition(".")[0] in _DRAWING_PACKAGES:
        return [title]
    return [
        title,
        *(f"  .{label}: {short_value(item, label)}" for label, item in field_items[:_MAX_ITEMS]),
        *_names_line("more attributes", [label for label, _ in field_items[_MAX_ITEMS:]]),
        *_names_line("methods", _methods(value) if module == "__main__" else []),
    ]


# In detail, for the user


def describe_detail(
    namespace: dict[str, object], name: str, *, run_code: bool = True
) -> dict[str, Any]:
    """Return the fields of the host's `Detail`. run_code: allow code of the user's classes, such
    as `__repr__`, for some seconds. Raises `KeyError`."""
    value = namespace[name]
    source, where = find_source(value)
    result: dict[str, Any] = {
        "name": name,
        "type": type_name(value),
        "summary": masked_summary(name, value),
        "text": "",
        "cut": 0,
        "doc": get_docstring(value),
        "source": source,
        "where": where,
        "error": "",
    }
    if is_hidden(name, value):
        error = f"The value of {name} is hidden, because its name looks like a secret's."
        return {**result, "text": HIDDEN_VALUE, "error": error}
    is_plain = type(value) in PLAIN

    def write() -> tuple[str, bool]:
        if run_code:
            return limited_repr(value, MAX_DETAIL_CHARS)
        if not is_plain:
            return describe_value(name, value, MAX_DETAIL_CHARS), False
        return limited_repr(value, MAX_DETAIL_CHARS, _write_item)

    try:
        result["text"], was_cut = run_limited(write, "Its __repr__", DETAIL_TIMEOUT_S)
    except InspectionError as error:
        return {**result, "error": str(error)}
    if not run_code and not is_plain:
        advice = f"a cell with `{name}` shows more"
        result["error"] = f"Described without running code of its class; {advice}."
    if was_cut:
        size = safe_length(value) if type(value) in SCALARS else None
        result["cut"] = 1 if size is None else max(1, size - MAX_DETAIL_CHARS)
    return result


def _write_item(value: object) -> str:
    if type(value) in PLAIN:
        return repr(value)
    return describe_type(value)
