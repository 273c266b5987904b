"""Explains a value: its signature, docstring and source, which the editor, `?` and `??`, and the
inspector show. Nothing runs the user's code."""

from __future__ import annotations

import os
import types
from contextlib import suppress
from typing import Any

from ..values.objects import Classes, is_class, is_module, name_of, own_dict
from ..values.summaries import module_version, one_line
from .docstrings import get_doc, get_docstring
from .signatures import format_signature, function_of
from .source_code import find_source

_WITH_NAMES = Classes(types.FunctionType, types.BuiltinFunctionType)
_MAX_SOURCE_CHARS = 400_000


def explain(value: object, expression: str) -> dict[str, str]:
    """Explain the value of an expression.

    Args:
        value: The value.
        expression: Its code, for the signature.

    Returns:
        signature: The signature, or type and summary.
        doc: The docstring.
        where: The file of the source, with the number of its first line.
        source: The source. These three are empty if unknown.
    """
    source = find_source(value)
    doc = get_docstring(value)
    if is_class(value) and not doc:
        constructor = function_of(value).function
        doc = "" if constructor is None else get_docstring(constructor)
    return {
        "signature": format_signature(value, expression)[:_MAX_SOURCE_CHARS],
        "doc": doc[:_MAX_SOURCE_CHARS],
        "where": source.location,
        "source": source.text[:_MAX_SOURCE_CHARS],
    }


def explain_with_source(value: object, expression: str) -> dict[str, Any]:
    """Explain a value as `explain` does, with the number of the source's first line (`line`), and a
    module with its whole file."""
    if is_module(value):
        return _explain_module(value)
    function: Any = value.__func__ if type(value) is types.MethodType else value
    if is_class(function):
        expression = one_line(name_of(function))
    elif type(function) in _WITH_NAMES:
        expression = one_line(function.__name__)
    explanation = explain(value, expression)
    line = explanation["where"].rpartition(":")[2]
    return {**explanation, "line": int(line) if line.isdigit() else 1}


def _explain_module(module: object) -> dict[str, object]:
    names = own_dict(module)
    file = names.get("__file__")
    version = module_version(names)
    text = ""
    # A pipe could block forever.
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_MAX_SOURCE_CHARS)
    return {
        "signature": f"version {version}" if version else "",
        "doc": get_doc(module)[:_MAX_SOURCE_CHARS],
        "where": file if type(file) is str else "built in",
        "line": 1,
        "source": text,
    }
