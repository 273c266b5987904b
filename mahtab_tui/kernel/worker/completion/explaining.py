"""Explains an object: signature, docstring, source and its location."""

from __future__ import annotations

import os
import re
import types
from contextlib import suppress
from typing import Any, NamedTuple

from ..detail import doc_of_any, source_of
from ..secret_names import summary_of
from ..statics import MISSING, Classes, class_dict, is_class, is_module, name_of, own_dict
from ..summary import kind_of, one_line, type_name, version_of
from .place import call_at
from .resolve import resolve
from .results import Instance
from .signatures import BUILT_IN, annotated, annotations_of, function_of, parameters

_BOUND = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter in signatures of built-in functions: ``($self, /, …``."""


_WITH_NAMES = Classes(types.FunctionType, types.BuiltinFunctionType)
_LONGEST_SOURCE = 400_000
"""Characters of a source or docstring that are shown."""


class Explanation(NamedTuple):
    """The fields of the host's `Explanation`."""

    name: str
    signature: str
    """Signature of a callable, with one parameter a line if it is long; of others, type and
    summary."""
    doc: str
    where: str
    """File and line, if known."""
    source: str
    """Source of functions and classes, if requested."""


def explain_at(namespace: dict[str, Any], code: str, cursor: int) -> Explanation | None:
    """Explain the function whose call encloses the cursor, or the expression at the cursor; None if
    unknown."""
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    return None if value is MISSING else explain(value, expression)


def explain(value: Any, expression: str, with_source: bool = False) -> Explanation:
    """Explain the value of an expression without running code of its class."""
    if type(value) is Instance:
        value = value.cls
    source, where = source_of(value) if kind_of(value) in ("function", "class") else ("", "")
    doc = doc_of_any(value)
    if is_class(value) and not doc:
        function, _ = function_of(value)
        doc = doc_of_any(function) if function is not None else ""
    return Explanation(
        expression, signature_of(value, expression), doc, where, source if with_source else ""
    )


def signature_of(value: Any, name: str) -> str:
    """Format ``name(parameters) -> result`` for a callable; type and summary for others."""
    function, bound = function_of(value)
    if function is None:
        return _builtin_signature(value, name)
    written = [parameter.text for parameter in parameters(function, bound)]
    result = annotations_of(function).get("return", ...)
    arrow = "" if result is ... or is_class(value) else f" -> {annotated(result)}"
    line = f"{name}({', '.join(written)}){arrow}"
    if len(line) <= 80:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in written) + f"){arrow}"


def _builtin_signature(value: Any, name: str) -> str:
    if type(value) in BUILT_IN or (type(value) is type and class_dict(value).get("__doc__")):
        text = value.__text_signature__
        if type(text) is str:
            return name + _BOUND.sub("(", text)
    if kind_of(value) in ("function", "class"):
        return f"{name}(…)"
    return one_line(f"{name}: {type_name(value)}  {summary_of(name, value)}".rstrip(), 200)


def source(value: Any, expression: str) -> dict[str, Any]:
    """Return signature, docstring, location and source; of a module, its version instead of a
    signature."""
    if is_module(value):
        return _module(value)
    found = explain(value, _name(value) or expression, with_source=True)
    place, _, number = found.where.rpartition(":")
    return {
        "signature": found.signature[:_LONGEST_SOURCE],
        "doc": found.doc[:_LONGEST_SOURCE],
        "where": found.where if place else "",
        "line": int(number) if number.isdigit() else 1,
        "source": found.source[:_LONGEST_SOURCE],
    }


def _name(value: Any) -> str:
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        return one_line(name_of(value))
    return one_line(value.__name__) if type(value) in _WITH_NAMES else ""


def _module(value: Any) -> dict[str, Any]:
    names = own_dict(value)
    file, version, doc = names.get("__file__"), version_of(names), names.get("__doc__")
    text = ""
    if (
        type(file) is str and file.endswith(".py") and os.path.isfile(file)
    ):  # a pipe could block for ever
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LONGEST_SOURCE)
    return {
        "signature": f"version {version}" if version else "",
        "doc": doc[:_LONGEST_SOURCE] if type(doc) is str else "",
        "where": file if type(file) is str else "built in",
        "line": 1,
        "source": text,
    }
