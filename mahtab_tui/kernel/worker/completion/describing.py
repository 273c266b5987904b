"""Describes an object as stored in a namespace or a class: its kind and a line."""

from __future__ import annotations

import types
from typing import Any

from ..secret_names import summary_of
from ..statics import BOUND, SLOTS, Classes, class_dict, is_class, is_module, loaded, own_dict
from ..summary import kind_of, one_line, summary, type_name
from .candidates import Candidate

WIDTH = 100
"""Characters of the line."""

_DOCUMENTED = Classes(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
"""Types whose `__doc__` is implemented in C."""


def named(name: str, value: Any) -> Candidate:
    """Return the candidate for a name that has a value."""
    return Candidate(name, lambda: describe(name, value))


def describe(name: str, value: Any) -> tuple[str, str]:
    """Return the kind of a name's value (function, class, module, property, data) and a line about it."""
    if type(value) in BOUND:
        value = value.__func__
    if type(value) is property:
        return "property", doc_line(value.fget)
    if type(value) is loaded("functools", "cached_property"):
        return "property", doc_line(own_dict(value).get("func"))
    if type(value) in SLOTS:
        return "property", doc_line(value)
    kind = kind_of(value)
    if kind == "data":
        return kind, one_line(f"{type_name(value)}  {summary_of(name, value)}".rstrip(), WIDTH)
    about = summary(value) if kind == "function" else ""
    return kind, one_line(f"{about}  {doc_line(value)}".strip(), WIDTH)


def doc_of(value: Any) -> str:
    """Return the docstring if it is a plain string; no user code runs."""
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        doc = class_dict(value).get("__doc__")
    elif is_module(value):
        doc = own_dict(value).get("__doc__")
    elif type(value) in _DOCUMENTED:
        doc = value.__doc__
    else:
        doc = None
    return doc if type(doc) is str else ""


def doc_line(value: Any) -> str:
    """Return the first line of the docstring."""
    return one_line(doc_of(value).strip().split("\n", 1)[0].strip(), WIDTH)
