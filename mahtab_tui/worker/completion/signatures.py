"""Signatures as text, without running the user's code. `function_of` finds the function in Python
that a call runs; one that is written in C has its signature as text already."""

from __future__ import annotations

import ast
import re
import types
from contextlib import suppress
from typing import Any, NamedTuple

from ..tools.tool_functions import OmittedArgument
from ..values.objects import (
    BOUND,
    SCALARS,
    Classes,
    class_dict,
    class_module,
    find_in_class,
    get_if_loaded,
    is_class,
    own_dict,
    parameter_names,
    unwrap,
)
from ..values.short_values import scalar_literal
from ..values.summaries import one_line, type_name, variable_kind
from ..values.variables import masked_summary
from .annotation_texts import annotations_of, format_annotation
from .docstrings import get_doc

BUILT_IN = Classes(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
"""Classes of functions that are written in C."""
_CONTAINERS = Classes(list, tuple, dict, set)
_BOUND_PARAMETER = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter of built-in functions: ``($self, /, …``."""
_KEYWORD = re.compile(r"[(,]\s*([a-z_]\w*)=")
_BOUND_NAMES = ("self", "cls", "type")
_MAX_LINE_CHARS = 80
"""A longer signature has a parameter on each line."""
_MAX_NESTED_PARTIALS = 100
"""A `functools.partial` may even contain itself."""
_MAX_VALUE_CHARS = 200
_MAX_DEFAULT_CHARS = 40
_MAX_USAGE_CHARS = 1_000
"""Characters of a docstring in which keywords are looked for."""


class CalledFunction(NamedTuple):
    """The Python function that a call runs."""

    function: Any
    """None if it is unknown."""
    bound_count: int
    """How many of its first parameters the call does not give."""


_NO_FUNCTION = CalledFunction(None, 0)


class Parameter(NamedTuple):
    """A parameter of a function."""

    name: str
    text: str
    """Including stars, annotation and default."""
    keyword: bool
    """Whether a call may give it by name."""


def format_signature(value: object, name: str) -> str:
    """Format ``name(parameters) -> result``; type and summary for values."""
    function, bound_count = function_of(value)
    if function is None:
        return _format_builtin(value, name)

    texts = [parameter.text for parameter in parameters(function, bound_count)]
    result = annotations_of(function).get("return", ...)
    arrow = ""
    if result is not ... and not is_class(value):
        arrow = f" -> {format_annotation(result)}"
    line = f"{name}({', '.join(texts)}){arrow}"
    if len(line) <= _MAX_LINE_CHARS:
        return line
    parameter_lines = "".join(f"    {text},\n" for text in texts)
    return f"{name}(\n{parameter_lines}){arrow}"


def _format_builtin(value: Any, name: str) -> str:
    """Format what is not a function in Python."""
    has_text_signature = type(value) in BUILT_IN
    if type(value) is type and class_dict(value).get("__doc__"):
        has_text_signature = True
    if has_text_signature and type(value.__text_signature__) is str:
        return name + _BOUND_PARAMETER.sub("(", value.__text_signature__)
    if variable_kind(value) in ("function", "class"):
        return f"{name}(…)"
    description = f"{name}: {type_name(value)}  {masked_summary(name, value)}"
    return one_line(description.rstrip(), _MAX_VALUE_CHARS)


def function_of(value: Any) -> CalledFunction:
    """Return the Python function that a call of a value runs."""
    partial = get_if_loaded("functools", "partial")
    if type(value) is partial:
        return _function_of_partial(value, partial)
    if type(value) is types.MethodType:
        return CalledFunction(unwrap(value.__func__), 1)
    if type(value) in BOUND:
        return CalledFunction(unwrap(value.__func__), int(type(value) is classmethod))
    if type(value) is types.FunctionType:
        return CalledFunction(unwrap(value), 0)
    if is_class(value):
        return _constructor_of(value)
    wrapped = own_dict(value).get("__wrapped__")  # of one of numpy's functions
    if class_module(type(value)) == "numpy" and type(wrapped) is types.FunctionType:
        return CalledFunction(unwrap(wrapped), 0)
    method = find_in_class(type(value), "__call__")
    if type(method) is types.FunctionType:
        return CalledFunction(unwrap(method), 1)
    return _NO_FUNCTION


def _function_of_partial(value: Any, partial: object) -> CalledFunction:
    """Return the Python function that a call of a `functools.partial` runs."""
    bound_count = 0
    for _ in range(_MAX_NESTED_PARTIALS):
        if type(value) is not partial:
            called = function_of(value)
            return CalledFunction(called.function, called.bound_count + bound_count)
        bound_count += len(value.args)
        value = value.func
    return _NO_FUNCTION


def _constructor_of(cls: Any) -> CalledFunction:
    for name in ("__init__", "__new__"):
        method = find_in_class(cls, name)
        if type(method) is staticmethod:
            method = method.__func__
        if type(method) is types.FunctionType:
            return CalledFunction(unwrap(method), 1)
    return _NO_FUNCTION


def parameters(
    function: types.FunctionType, bound_count: int, *, annotated: bool = True
) -> list[Parameter]:
    """Return the parameters of a function, with a `/` after those without names.

    Args:
        function: The function.
        bound_count: How many of the first parameters to leave out.
        annotated: Whether to write annotations.
    """
    code = function.__code__
    annotations = annotations_of(function) if annotated else {}
    defaults = _defaults_of(function)
    listed: list[Parameter] = []
    for index, name in enumerate(parameter_names(function)):
        if index < min(bound_count, code.co_argcount):
            continue
        text = name
        if name in annotations:
            text += f": {format_annotation(annotations[name])}"
        if name in defaults:
            equals_sign = " = " if name in annotations else "="
            text += equals_sign + _format_default(defaults[name])
        is_keyword = index >= code.co_posonlyargcount and not name.startswith("*")
        listed.append(Parameter(name, text, is_keyword))
        if index == code.co_posonlyargcount - 1:
            listed.append(Parameter("/", "/", keyword=False))
    return listed


def _defaults_of(function: types.FunctionType) -> dict[str, object]:
    """Return the default values of parameters by their names."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(names, defaults)), **(function.__kwdefaults__ or {})}


def builtin_keywords(value: Any) -> list[str]:
    """Return the names of the arguments of a function or class written in C, as far as its signature
    or its docstring has them."""
    if type(value) is types.MethodType:
        value = value.__func__
    if type(value) not in BUILT_IN and type(value) is not type:
        return []
    signature = value.__text_signature__
    if type(signature) is str:
        with suppress(SyntaxError, ValueError, RecursionError):
            parsed: Any = ast.parse(f"def f{signature.replace('$', '')}: ...").body[0]
            names = [argument.arg for argument in parsed.args.args + parsed.args.kwonlyargs]
            return [name for name in names if name not in _BOUND_NAMES]
    usage = get_doc(value)[:_MAX_USAGE_CHARS].partition("\n\n")[0]
    return list(dict.fromkeys(_KEYWORD.findall(usage)))


def _format_default(default: object) -> str:
    """Format the default of a parameter; an ellipsis if that would run code, or say little."""
    if type(default) in SCALARS:
        return one_line(scalar_literal(default) or "…", _MAX_DEFAULT_CHARS)
    if type(default) is OmittedArgument:
        return one_line(default.shown, _MAX_DEFAULT_CHARS)
    if type(default) in _CONTAINERS and not default:
        return repr(default)
    if type(default) is type:
        return one_line(default.__name__)
    return "…"
