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

_FUNCTIONS = Classes(types.FunctionType, types.BuiltinFunctionType)
"""Functions whose own name stands before their signature."""
_MAX_EXPLANATION_CHARS = 400_000
"""Maximum characters of a signature, a docstring and a source."""


def explain(value: object, expression: str) -> dict[str, str]:
    """Explain the value of an expression.

    Args:
        value: The value.
        expression: Its code, which stands before the signature.

    Returns:
        ``signature``: the signature, or type and summary. ``doc``: the docstring. ``where``: the file
        of the source, with the number of its first line. ``source``: the source. The last three are
        empty if they are unknown.
    """
    source = find_source(value)
    doc = get_docstring(value)
    if is_class(value) and not doc:
        constructor = function_of(value).function
        if constructor is not None:
            doc = get_docstring(constructor)
    return {
        "signature": format_signature(value, expression)[:_MAX_EXPLANATION_CHARS],
        "doc": doc[:_MAX_EXPLANATION_CHARS],
        "where": source.location,
        "source": source.text[:_MAX_EXPLANATION_CHARS],
    }


def explain_with_source(value: object, expression: str) -> dict[str, Any]:
    """Explain a value as `explain` does, a module with its whole file.

    Returns:
        What `explain` returns, and ``line``: the number of the source's first line; 1 if it is
        unknown.
    """
    if is_module(value):
        return _explain_module(value)
    function: Any = value.__func__ if type(value) is types.MethodType else value
    if is_class(function):
        expression = one_line(name_of(function))
    elif type(function) in _FUNCTIONS:
        expression = one_line(function.__name__)
    explanation: dict[str, Any] = {**explain(value, expression), "line": 1}
    _, _, line = explanation["where"].rpartition(":")
    if line.isdigit():
        explanation["line"] = int(line)
    return explanation


def _explain_module(module: object) -> dict[str, object]:
    """Explain a module: its version, its docstring, and its whole file."""
    names = own_dict(module)
    version = module_version(names)
    file = names.get("__file__")
    location = file if type(file) is str else "built in"
    source = ""
    # Only regular files are read, because a pipe could block forever.
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            source = opened.read(_MAX_EXPLANATION_CHARS)
    return {
        "signature": f"version {version}" if version else "",
        "doc": get_doc(module)[:_MAX_EXPLANATION_CHARS],
        "where": location,
        "line": 1,
        "source": source,
    }
