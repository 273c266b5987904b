"""Explains an object: signature, docstring, source location."""

from __future__ import annotations

import re
import types
from typing import Any, NamedTuple

from ..detail import doc_of_any, source_of
from ..secret_names import summary_of
from ..statics import MISSING, Classes, class_dict, is_class
from ..summary import kind_of, one_line, type_name
from .place import call_at
from .resolve import Instance, resolve
from .signatures import annotated, annotations_of, function_of, parameters

_BOUND = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter in signatures of built-in functions: ``($self, /, …``."""


_BUILT_IN = Classes(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)


class Explanation(NamedTuple):
    """The fields of the host's `Explanation`."""

    name: str
    signature: str
    """Of a callable, with one parameter a line if it is long; of others, type and summary."""
    doc: str
    where: str
    """File and line, if known."""
    source: str
    """Of functions and classes, if requested."""


def explain_at(namespace: dict[str, Any], code: str, cursor: int) -> Explanation | None:
    """Explain the function whose call encloses the cursor, or the expression at the cursor; None if unknown."""
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
    return Explanation(expression, signature_of(value, expression), doc, where, source if with_source else "")


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
    if type(value) in _BUILT_IN or (type(value) is type and class_dict(value).get("__doc__")):
        text = value.__text_signature__
        if type(text) is str:
            return name + _BOUND.sub("(", text)
    if kind_of(value) in ("function", "class"):
        return f"{name}(…)"
    return one_line(f"{name}: {type_name(value)}  {summary_of(name, value)}".rstrip(), 200)
