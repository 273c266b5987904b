"""Writes annotations as text, as far as this is possible without running the user's code.

Signatures and completions show them; `annotations` finds the classes that they stand for.
"""

from __future__ import annotations

import sys
import types
from typing import Any, NamedTuple

from ..stdlib import late_import
from ..values.objects import (
    MISSING,
    SCALARS,
    class_module,
    get_if_loaded,
    is_class,
    is_from,
    name_of,
    own_dict,
)
from ..values.short_values import scalar_literal
from ..values.summaries import one_line, type_name


class GenericParts(NamedTuple):
    """The parts of a type such as ``list[int]``."""

    origin: object
    """`list`; `MISSING` for other types, and for unions written with ``|``."""
    arguments: tuple[object, ...]
    """`int`; empty for other types."""


def annotations_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the annotations; from Python 3.14 on, reading evaluated ones runs code."""
    try:
        if sys.version_info >= (3, 14):
            library = late_import("annotationlib")
            return dict(library.get_annotations(function, format=library.Format.STRING))
        return function.__annotations__
    except Exception:  # raised by an expression of the user's
        return {}


def format_annotation(annotation: Any) -> str:
    """Format an annotation as far as possible without running code."""
    if type(annotation) is str:
        return one_line(annotation)
    if annotation is None or annotation is type(None):
        return "None"
    if annotation is Ellipsis:
        return "..."
    if is_class(annotation):
        return one_line(name_of(annotation))
    if _is_plain(annotation):
        return one_line(repr(annotation))
    parts = split_generic(annotation)
    if "__metadata__" in own_dict(annotation):
        # Of `Annotated[int, …]`, the type is told.
        return format_annotation(parts.origin)
    return one_line(_format_generic(parts) or type_name(annotation))


def _format_generic(parts: GenericParts) -> str:
    """Format a type with arguments; empty if it has neither these nor an origin."""
    origin, arguments = parts
    if origin is get_if_loaded("typing", "Literal"):
        return f"Literal[{', '.join(map(_format_literal, arguments))}]"
    texts = list(map(format_annotation, arguments))
    if origin is MISSING or origin is get_if_loaded("typing", "Union"):
        return " | ".join(texts)
    is_callable = origin is get_if_loaded("collections.abc", "Callable")
    if is_callable and not _has_one_parameter_list(arguments):
        *parameter_texts, result_text = texts
        texts = [f"[{', '.join(parameter_texts)}]", result_text]
    return f"{format_annotation(origin)}[{', '.join(texts)}]"


def _format_literal(value: object) -> str:
    """Format an argument of `Literal`: a plain value, or a member of an enumeration."""
    if type(value) in SCALARS:
        return scalar_literal(value) or "…"
    member_name = own_dict(value).get("_name_")
    if type(member_name) is not str:
        return "…"
    return f"{name_of(type(value))}.{member_name}"


def _has_one_parameter_list(arguments: tuple[object, ...]) -> bool:
    """Return whether the first argument of `Callable` stands for all parameters, as the ellipsis
    does; otherwise each but the last is a parameter."""
    if len(arguments) != 2:
        return not arguments
    parameters = arguments[0]
    origin = split_generic(parameters).origin
    concatenate = get_if_loaded("typing", "Concatenate")
    is_variable = type(parameters) is get_if_loaded("typing", "ParamSpec")
    return parameters is Ellipsis or is_variable or origin is concatenate is not MISSING


def _is_plain(annotation: Any) -> bool:
    """Return whether the `repr` of an annotation runs only the interpreter's code."""
    if is_class(annotation):
        if type(annotation) is type:
            return True
        abstract_class = get_if_loaded("collections.abc", name_of(annotation))
        return class_module(annotation) == "collections.abc" and abstract_class is annotation
    if type(annotation) in SCALARS:
        return scalar_literal(annotation) is not None
    if annotation is Ellipsis:
        return True
    if not is_from(annotation, "typing", "types") or "__metadata__" in own_dict(annotation):
        return False
    origin, arguments = split_generic(annotation)
    return (origin is MISSING or _is_plain(origin)) and all(map(_is_plain, arguments))


def split_generic(annotation: Any) -> GenericParts:
    """Split a type such as ``list[int]``."""
    callable_alias = get_if_loaded("_collections_abc", "_CallableGenericAlias")
    if type(annotation) is types.GenericAlias or type(annotation) is callable_alias:
        return GenericParts(annotation.__origin__, annotation.__args__)
    if type(annotation) is getattr(types, "UnionType", None):
        return GenericParts(MISSING, annotation.__args__)
    names = own_dict(annotation) if is_from(annotation, "typing") else {}
    arguments = names.get("__args__")
    if type(arguments) is not tuple:
        arguments = ()
    return GenericParts(names.get("__origin__", MISSING), arguments)
