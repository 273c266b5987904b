"""A look inside one variable, when a person asks for it."""

from __future__ import annotations

import inspect
import types
from typing import Any

from .class_source import class_source
from .limited_repr import limited_repr
from .limits import TooSlow, within
from .secret_names import UNTOLD, hides, summary_of
from .statics import is_class
from .summary import kind_of, one_line, size_of, type_name
from .variables import described

SECONDS = 2.0
"""How long an object's own `__repr__` may take."""
CHARACTERS = 200_000
ATTRIBUTES = 500
_WRAPPED = 20
"""Decorators that are looked through."""


def describe(namespace: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields of the host's `Detail`. May take `SECONDS` and a little. Raises `KeyError` where there is no such name."""
    value = namespace[name]
    result: dict[str, Any] = {
        "name": name,
        "type": type_name(value),
        "summary": summary_of(name, value),
        "text": "",
        "cut": 0,
        "attributes": _attributes(value),
        "doc": doc_of_any(value),
        "source": "",
        "where": "",
        "error": "",
    }
    if hides(name, value):
        result["text"] = UNTOLD
        result["error"] = f"The value of {name} is not told, since its name looks like a secret's."
        return result
    try:
        result["text"], was_cut = within(SECONDS, lambda: limited_repr(value, CHARACTERS))
    except TooSlow:
        result["error"] = f"Its __repr__ did not end within {SECONDS:g} s."
    except BaseException as error:  # the object's own code, SystemExit included
        result["error"] = f"Its __repr__ raised {type(error).__name__}: {_message(error)}"
    else:
        if was_cut:
            size = size_of(value)
            result["cut"] = max(1, size - CHARACTERS) if size is not None and isinstance(value, (str, bytes)) else 1
    if kind_of(value) in ("function", "class"):
        result["source"], result["where"] = source_of(value)
    return result


def _message(error: BaseException) -> str:
    try:
        return one_line(str(error), 500)
    except BaseException:  # the message is the user's object, too
        return "(its message could not be read)"


def _attributes(value: Any) -> list[dict[str, Any]]:
    """Attributes of the object itself, and of its class what is not special; properties are named, not run."""
    found: dict[str, Any] = {}
    for cls in reversed(type(value).__mro__[:-1] or ()):
        found.update((name, item) for name, item in list(type.__dict__["__dict__"].__get__(cls).items()) if type(name) is str)
    try:
        own = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        own = None
    if type(own) in (dict, types.MappingProxyType):
        found.update((name, item) for name, item in list(own.items()) if type(name) is str)
    names = sorted((name for name in found if not name.startswith("__")), key=lambda name: (name.startswith("_"), name))
    return [_attribute(name, found[name]) for name in names[:ATTRIBUTES]]


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if type(value) is property:
        return {"name": name, "type": "property", "summary": "(…)", "kind": "data"}
    return described(name, value)


def doc_of_any(value: Any) -> str:
    """The docstring of a function, class or module, else of the object's class; only where it is a plain string."""
    holder = value if kind_of(value) != "data" else type(value)
    try:
        doc = inspect.getattr_static(holder, "__doc__", None)
    except Exception:  # around an object of the user's
        return ""
    if isinstance(doc, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        doc = getattr(holder, "__doc__", None)
    return inspect.cleandoc(doc) if type(doc) is str else ""


def source_of(value: Any) -> tuple[str, str]:
    """Source and "file:line" of a function or class, where they are known. Nothing of a metaclass or a wrapped object runs."""
    if is_class(value):
        source, file, number = class_source(value)
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
    """The code of a function, or of the one that it wraps."""
    for _ in range(_WRAPPED):
        if type(value) is types.MethodType:
            value = value.__func__
        elif type(value) is types.FunctionType and type(value.__dict__.get("__wrapped__")) is types.FunctionType:
            value = value.__dict__["__wrapped__"]
        else:
            break
    return value.__code__ if type(value) is types.FunctionType else None
