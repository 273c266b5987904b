"""Describes one variable in detail, at the user's request.

No code of the user's classes runs: containers are recognised by their exact class.
"""

from __future__ import annotations

import ast
import collections
import inspect
import linecache
import sys
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .inspection.children import key_label, stored_attribute
from .objects import (
    MISSING,
    Classes,
    TimeLimitError,
    class_dict,
    copy_text_keys,
    is_class,
    is_module,
    limited_repr,
    mro_of,
    own_dict,
    run_with_timeout,
    unwrap,
)
from .stdlib import late_import
from .variables import (
    UNTOLD,
    WIDTH,
    describe_variable,
    format_count,
    is_hidden,
    looks_secret,
    masked_summary,
    one_line,
    safe_length,
    summary,
    type_name,
    variable_kind,
)

SCALARS = Classes(bool, int, float, complex, str, bytes, type(None))
SEQUENCES = Classes(list, tuple, set, frozenset, collections.deque)
SAMPLE = 100
"""Maximum number of a container's items whose types are examined."""

_ITEMS = 8
"""Maximum number of a container's items to show."""
_TEXT, _KEY = 60, 40
"""Maximum characters of a text, and of a key."""
_FIELDS, _FIELD = 6, 24
"""Maximum number of an object's fields on one line, and characters of each name and value."""


def short_value(value: Any, name: Any = "") -> str:
    """Format a value. name: its key or attribute, which may be that of a secret."""
    if type(name) is str and looks_secret(name):
        return UNTOLD if is_hidden(name, value) else _kind(value)
    cls = type(value)
    if cls is str:
        return literal(value, _TEXT)
    if cls is dict:
        return _shape(value)
    if cls in SEQUENCES:
        return _short_sequence(value)
    return (cls in SCALARS and summary(value)) or describe_type(value)


def stored_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public attributes of an object, from its ``__dict__`` and ``__slots__``."""
    names = dict.fromkeys(copy_text_keys(own_dict(value)))
    for base in mro_of(type(value)):
        slots = copy_text_keys(class_dict(base)) if "__slots__" in class_dict(base) else {}
        names.update(
            dict.fromkeys(
                label for label, item in slots.items() if type(item) is types.MemberDescriptorType
            )
        )
    for label in names:
        found = MISSING if label.startswith("_") else stored_attribute(value, label)
        if found is not MISSING:
            yield label, found


def fields(value: Any) -> str:
    """Format the first fields of an object, as in ``(id=7, total=3.5)``; empty if it has none.

    No value is truncated, because a secret is recognised only as a whole.
    """
    words: list[str] = []
    room = WIDTH - len("(…)")
    for label, item in stored_fields(value):
        word = f"{one_line(label, _FIELD)}={_field(item, label)}"
        room -= len(word) + len(", ")
        if room < 0 or len(words) == _FIELDS:
            words.append("…")
            break
        words.append(word)
    return f"({', '.join(words)})" if words else ""


def _field(value: Any, name: str) -> str:
    text = one_line(short_value(value, name), _FIELD + 1)
    if len(text) <= _FIELD:
        return text
    return format_count(str.__len__(value), "chars") if type(value) is str else type_name(value)


def literal(text: str, width: int) -> str:
    """Write a string as a Python literal; a longer one is truncated, with a sign at its end."""
    if len(text) <= width:
        return repr(text)
    written = repr(text[:width])
    return f"{written[:-1]}…{written[-1]}"


def short_key(key: Any) -> str:
    """Format the key of a dict."""
    if type(key) is str:
        return literal(key, _KEY)
    if type(key) is tuple:
        return f"({', '.join(map(short_key, key))})"
    return key_label(key) if type(key) in SCALARS else describe_type(key)


def describe_type(value: Any) -> str:
    """Describe the type of an object, including what its metadata tells."""
    kind = variable_kind(value)
    if kind != "data":
        return f"<{kind}>"
    words = summary(value)
    return f"<{type_name(value)}{' ' * bool(words)}{words}>"


def describe_types(sample: Iterable[Any]) -> str:
    """Describe the types of some objects, as in ``int or str``."""
    names = list(dict.fromkeys(map(type_name, sample)))
    return " or ".join([*names[:3], *(["others"] if len(names) > 3 else [])])


def _shape(value: dict[Any, Any]) -> str:
    """Format a dict by its keys and the types of their values."""
    words = [f"{short_key(key)}: {_kind(item)}" for key, item in islice(value.items(), _ITEMS)]
    return f"{{{', '.join([*words, *(['...'] if len(value) > _ITEMS else [])])}}}"


def _short_sequence(value: Any) -> str:
    """Format a list by its items, if they are few and simple, otherwise by their types."""
    size, sample = len(value), list(islice(value, SAMPLE))
    if size <= _ITEMS and all(type(item) in SCALARS for item in sample):
        text = ", ".join(map(short_value, sample))
        if len(text) <= _TEXT:
            return f"[{text}]"
    kinds = describe_types(sample)
    if kinds == "dict" and all(type(item) is dict for item in sample):
        keys = list(
            dict.fromkeys(
                short_key(key) for item in sample[:_ITEMS] for key in islice(item, _ITEMS)
            )
        )
        kinds = f"dict with keys {', '.join([*keys[:_ITEMS], *(['...'] if len(keys) > _ITEMS else [])])}"
    return f"[{kinds}] x {size:,}"


def _kind(value: Any) -> str:
    """Describe the type of an object, with the size of a container."""
    cls = type(value)
    if cls is dict or cls in SEQUENCES:
        return f"{type_name(value)} of {len(value):,}"
    return type_name(value) if cls in SCALARS else describe_type(value)


SECONDS = 2.0
"""Time limit for an object's `__repr__`."""
CHARACTERS = 200_000
ATTRIBUTES = 500
_PLAIN = Classes(
    bool, int, float, complex, str, bytes, bytearray, type(None), list, tuple, set, frozenset, dict
)
"""Classes whose `repr` only contains the objects inside them."""
_SEARCHED = 1_000_000
"""Maximum characters of a file that is searched for a class."""


def describe(namespace: dict[str, Any], name: str, *, run_code: bool = True) -> dict[str, Any]:
    """Return the fields of the host's `Detail`. Takes little more than `SECONDS`. Raises `KeyError`
    for an unknown name.

    run_code: whether code of the user's classes may run, such as a `__repr__`.
    """
    value = namespace[name]
    result: dict[str, Any] = {
        "name": name,
        "type": type_name(value),
        "summary": masked_summary(name, value),
        "text": "",
        "cut": 0,
        "attributes": _attributes(value),
        "doc": get_docstring(value),
        "source": "",
        "where": "",
        "error": "",
    }
    if is_hidden(name, value):
        result["text"] = UNTOLD
        result["error"] = f"The value of {name} is hidden, because its name looks like a secret's."
        return result
    try:
        if run_code:
            result["text"], was_cut = run_with_timeout(
                SECONDS, lambda: limited_repr(value, CHARACTERS)
            )
        else:
            result["text"], was_cut = run_with_timeout(
                SECONDS, lambda: _text_without_code(name, value)
            )
            if type(value) not in _PLAIN:
                result["error"] = (
                    f"Described without running code of its class; a cell with `{name}` shows more."
                )
    except TimeLimitError:
        result["error"] = f"Its __repr__ did not end within {SECONDS:g} s."
    except BaseException as error:  # raised by the object's code, including SystemExit
        result["error"] = f"Its __repr__ raised {type(error).__name__}: {_message(error)}"
    else:
        if was_cut:
            size = safe_length(value)
            result["cut"] = (
                max(1, size - CHARACTERS) if size is not None and type(value) in (str, bytes) else 1
            )
    if variable_kind(value) in ("function", "class"):
        result["source"], result["where"] = find_source(value)
    return result


def _text_without_code(name: str, value: Any) -> tuple[str, bool]:
    """Format a value without running code; also returns whether it was truncated. Objects inside a
    container are shown by their type."""
    if type(value) not in _PLAIN:
        description = late_import(
            f"{__package__}.description"
        )  # imported late, because it imports this file
        return description.describe_value(name, value, CHARACTERS), False
    return limited_repr(
        value, CHARACTERS, lambda each: repr(each) if type(each) in _PLAIN else describe_type(each)
    )


def _message(error: BaseException) -> str:
    try:
        return one_line(str(error), 500)
    except BaseException:  # the message's code may fail too
        return "(its message could not be read)"


def _attributes(value: Any) -> list[dict[str, Any]]:
    """Describe the object's own attributes and those of its class, without special names.
    Properties are not evaluated."""
    found: dict[str, Any] = {}
    for cls in reversed(mro_of(type(value))):
        found.update(copy_text_keys(class_dict(cls)))
    found.update(copy_text_keys(class_dict(value) if is_class(value) else own_dict(value)))
    names = sorted(
        (name for name in found if not name.startswith("__")),
        key=lambda name: (name.startswith("_"), name),
    )
    return [_attribute(name, found[name]) for name in names[:ATTRIBUTES]]


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if type(value) is property:
        return {"name": name, "type": "property", "summary": "(…)", "kind": "data"}
    return describe_variable(name, value)


def get_docstring(value: Any) -> str:
    """Return the docstring of a function, class or module, otherwise that of the object or its
    class, if it is a plain string."""
    holder = value if variable_kind(value) != "data" else type(value)
    if holder is not value and type(own := own_dict(value).get("__doc__")) is str:
        return inspect.cleandoc(own)
    try:
        doc = inspect.getattr_static(holder, "__doc__", None)
    except Exception:  # raised by an object of the user's
        return ""
    if isinstance(doc, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        doc = getattr(holder, "__doc__", None)
    return inspect.cleandoc(doc) if type(doc) is str else ""


def find_source(value: Any) -> tuple[str, str]:
    """Return source and "file:line" of a function or class, if known. Runs no code of metaclasses
    or wrapped objects."""
    if is_class(value):
        source, file, number = _class_source(value)
        return source, f"{file}:{number}" if file else ""
    code = _code_of(value)
    if code is None:
        return "", ""
    try:
        lines, number = inspect.getsourcelines(code)
    except (OSError, TypeError, SyntaxError, IndexError):
        return "", ""
    return "".join(lines), f"{code.co_filename}:{number or 1}"


def _code_of(value: Any) -> types.CodeType | None:
    """Return the code object of a function, or of the function that it wraps."""
    while type(value) is types.MethodType:
        value = value.__func__
    function = unwrap(value)
    return None if function is None else function.__code__


def _class_source(cls: Any) -> tuple[str, str, int]:
    """Return source, file and line, found by the class's name and its functions; empty if
    unknown."""
    file = _file(cls)
    lines = linecache.getlines(file) if file else []
    text = "".join(lines)
    if not text or len(text) > _SEARCHED:
        return "", "", 0
    found = _definition(text, type.__dict__["__qualname__"].__get__(cls).split("."))
    if found is None:
        return "", "", 0
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    return "".join(lines[first - 1 : found.end_lineno]), file, first


def _file(cls: Any) -> str:
    """Return the file of one of the class's functions, or of its module."""
    names = class_dict(cls)
    module = names.get("__module__")
    for item in list(names.values()):
        function = (
            item.fget
            if type(item) is property
            else item.__func__
            if type(item) is staticmethod or type(item) is classmethod
            else item
        )
        if type(function) is types.FunctionType and function.__module__ == module:
            return function.__code__.co_filename
    loaded = sys.modules.get(module) if type(module) is str else None
    file = own_dict(loaded).get("__file__") if is_module(loaded) else None
    return file if type(file) is str else ""


def _definition(text: str, way: list[str]) -> ast.ClassDef | None:
    try:
        node: ast.AST = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for name in way:
        inside = [
            child
            for child in ast.walk(node)
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and child.name == name
        ]
        if name == "<locals>":
            continue
        if not inside:
            return None
        node = inside[-1]
    return node if isinstance(node, ast.ClassDef) else None
