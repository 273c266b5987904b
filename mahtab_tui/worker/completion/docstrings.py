"""Docstrings, read without running the user's code."""

from __future__ import annotations

import inspect
import types
from typing import Any

from ..values.objects import FUNCTIONS, SLOTS, class_dict, is_class, is_from, is_module, own_dict
from ..values.summaries import one_line, variable_kind

MAX_DOC_LINE_CHARS = 100


def get_doc(value: Any) -> str:
    """Return the docstring of a class, module, function or attribute as it is; empty for others."""
    if type(value) is types.MethodType:
        value = value.__func__
    doc = None
    if is_class(value):
        doc = class_dict(value).get("__doc__")
    elif is_module(value):
        doc = own_dict(value).get("__doc__")
    elif type(value) in FUNCTIONS or type(value) in SLOTS:
        doc = value.__doc__
    return doc if type(doc) is str else ""


def doc_line(value: object) -> str:
    """Return the first line of a docstring."""
    first_line = get_doc(value).strip().partition("\n")[0]
    return one_line(first_line.strip(), MAX_DOC_LINE_CHARS)


def get_docstring(value: object) -> str:
    """Return the docstring of a value or its class."""
    doc: Any = get_doc(value)
    if not doc and variable_kind(value) == "data":
        instance_doc = own_dict(value).get("__doc__")
        if type(instance_doc) is str:
            doc = instance_doc
        else:
            doc = get_doc(type(value))
    elif not doc and is_from(value, "numpy"):
        doc = value.__doc__  # of a ufunc
    if type(doc) is str:
        return inspect.cleandoc(doc)
    return ""
