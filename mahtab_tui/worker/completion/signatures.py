"""Explains values by signature, docstring and source, without running user code."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
import tokenize
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..stdlib import late_import
from ..tools.servers import OmittedArgument
from ..values.objects import (
    BOUND,
    FUNCTIONS,
    MISSING,
    SCALARS,
    SLOTS,
    Classes,
    class_dict,
    class_module,
    find_in_class,
    get_if_loaded,
    is_class,
    is_from,
    is_module,
    name_of,
    own_dict,
    parameter_names,
    unwrap,
)
from ..values.summaries import module_version, one_line, type_name, variable_kind
from ..values.variables import masked_summary

MAX_DOC_LINE_CHARS = 100
BUILT_IN = Classes(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
"""Classes of functions that are written in C."""
_WITH_NAMES = Classes(types.FunctionType, types.BuiltinFunctionType)
_CONTAINERS = Classes(list, tuple, dict, set)
_BOUND_PARAMETER = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter of built-in functions: ``($self, /, …``."""
_KEYWORD = re.compile(r"[(,]\s*([a-z_]\w*)=")
_BOUND_NAMES = ("self", "cls", "type")
_MAX_LINE_CHARS = 80
"""A longer signature has a parameter on each line."""
_MAX_VALUE_CHARS = 200
_MAX_DEFAULT_CHARS = 40
_MAX_USAGE_CHARS = 1_000
"""Characters of a docstring in which keywords are looked for."""
_MAX_FILE_CHARS = 1_000_000
"""Characters of a file in which a class is looked for."""
_MAX_SOURCE_CHARS = 400_000


class LocatedSource(NamedTuple):
    """The source of a value; two empty strings if it is unknown."""

    text: str
    location: str
    """``file:line``."""


class CalledFunction(NamedTuple):
    """The Python function that a call runs."""

    function: Any
    """None if it is unknown."""
    bound_count: int
    """How many of its first parameters the call does not give."""


_NO_SOURCE = LocatedSource("", "")
_NO_FUNCTION = CalledFunction(None, 0)


def explain(value: object, expression: str) -> dict[str, str]:
    """Explain the value of an expression.

    Args:
        value: The value.
        expression: Its code, for the signature.

    Returns:
        Its signature, or type and summary; its docstring (`doc`), and its source with the place
        (`where`), each empty if unknown.
    """
    source = find_source(value)
    doc = get_docstring(value)
    if is_class(value) and not doc:
        function, _ = function_of(value)
        doc = get_docstring(function) if function is not None else ""
    return {
        "signature": format_signature(value, expression)[:_MAX_SOURCE_CHARS],
        "doc": doc[:_MAX_SOURCE_CHARS],
        "where": source.location,
        "source": source.text[:_MAX_SOURCE_CHARS],
    }


def source(value: object, expression: str) -> dict[str, Any]:
    """As `explain`, with the number of the first line, and for a module with the whole file."""
    if is_module(value):
        return _module_source(value)
    function: Any = value.__func__ if type(value) is types.MethodType else value
    if is_class(function):
        expression = one_line(name_of(function))
    elif type(function) in _WITH_NAMES:
        expression = one_line(function.__name__)
    explanation = explain(value, expression)
    line = explanation["where"].rpartition(":")[2]
    return {**explanation, "line": int(line) if line.isdigit() else 1}


def _module_source(value: object) -> dict[str, object]:
    names = own_dict(value)
    file = names.get("__file__")
    version = module_version(names)
    text = ""
    # A pipe could block forever.
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_MAX_SOURCE_CHARS)
    return {
        "signature": f"version {version}" if version else "",
        "doc": get_doc(value)[:_MAX_SOURCE_CHARS],
        "where": file if type(file) is str else "built in",
        "line": 1,
        "source": text,
    }


# Docstrings and source


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


def find_source(value: object) -> LocatedSource:
    """Return the source of a class or a function."""
    if is_class(value):
        return _find_class_source(value)
    while type(value) is types.MethodType:
        value = value.__func__
    function = unwrap(value)
    if function is None:
        return _NO_SOURCE
    code = function.__code__
    try:
        lines, number = inspect.getsourcelines(code)
    except (OSError, TypeError, SyntaxError, IndexError, tokenize.TokenError):
        return _NO_SOURCE
    return LocatedSource("".join(lines), f"{code.co_filename}:{number or 1}")


def _find_class_source(cls: object) -> LocatedSource:
    """Return the last class of this qualified name in its file, with its decorators."""
    file = _find_class_file(cls)
    lines = linecache.getlines(file) if file else []
    text = "".join(lines)
    if len(text) > _MAX_FILE_CHARS:
        return _NO_SOURCE
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NO_SOURCE

    qualified_name = type.__dict__["__qualname__"].__get__(cls)
    definitions = [node for name, node in _class_definitions(tree) if name == qualified_name]
    if not definitions:
        return _NO_SOURCE
    definition = max(definitions, key=lambda node: node.lineno)
    decorator_lines = [decorator.lineno for decorator in definition.decorator_list]
    first_line = min([definition.lineno, *decorator_lines])
    return LocatedSource(
        "".join(lines[first_line - 1 : definition.end_lineno]), f"{file}:{first_line}"
    )


def _class_definitions(tree: ast.AST) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes that code defines, with their qualified names."""
    pending = [("", tree)]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            child_prefix = prefix
            if isinstance(child, ast.ClassDef):
                yield prefix + child.name, child
                child_prefix = f"{prefix}{child.name}."
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                child_prefix = f"{prefix}{child.name}.<locals>."
            pending.append((child_prefix, child))


def _find_class_file(cls: Any) -> str:
    """Return the file of one of the methods of a class, else that of its module; empty if unknown."""
    names = class_dict(cls)
    module = names.get("__module__")
    for item in list(names.values()):
        if type(item) is property:
            item = item.fget
        elif type(item) in BOUND:
            item = item.__func__
        if type(item) is types.FunctionType and item.__module__ == module:
            return item.__code__.co_filename
    loaded_module = sys.modules.get(module) if type(module) is str else None
    if not is_module(loaded_module):
        return ""
    file = own_dict(loaded_module).get("__file__")
    return file if type(file) is str else ""


# Signatures


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
    if type(value) is get_if_loaded("functools", "partial"):
        function, bound_count = function_of(value.func)
        return CalledFunction(function, bound_count + len(value.args))
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
    origin, arguments = split_generic(annotation)
    if "__metadata__" in own_dict(annotation):
        return format_annotation(origin)
    if origin is get_if_loaded("typing", "Literal"):
        return one_line(f"Literal[{', '.join(map(_format_literal, arguments))}]")
    argument_texts = list(map(format_annotation, arguments))
    if origin is get_if_loaded("collections.abc", "Callable") and not _has_one_parameter_list(
        arguments
    ):
        *parameter_texts, result_text = argument_texts
        argument_texts = [f"[{', '.join(parameter_texts)}]", result_text]
    if origin is MISSING or origin is get_if_loaded("typing", "Union"):
        return one_line(" | ".join(argument_texts) or type_name(annotation))
    return one_line(f"{format_annotation(origin)}[{', '.join(argument_texts)}]")


def _format_literal(value: object) -> str:
    """Format an argument of `Literal`: a plain value, or a member of an enumeration."""
    if type(value) in SCALARS:
        return repr(value)
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
    origin, _ = split_generic(parameters)
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
    if type(annotation) in SCALARS or annotation is Ellipsis:
        return True
    if not is_from(annotation, "typing", "types") or "__metadata__" in own_dict(annotation):
        return False
    origin, arguments = split_generic(annotation)
    return (origin is MISSING or _is_plain(origin)) and all(map(_is_plain, arguments))


def split_generic(annotation: Any) -> tuple[object, tuple[object, ...]]:
    """Split a type such as ``list[int]``: return `list` and its arguments. The first is `MISSING` for
    other types, and for unions written with ``|``."""
    callable_alias = get_if_loaded("_collections_abc", "_CallableGenericAlias")
    if type(annotation) is types.GenericAlias or type(annotation) is callable_alias:
        return annotation.__origin__, annotation.__args__
    if type(annotation) is getattr(types, "UnionType", None):
        return MISSING, annotation.__args__
    names = own_dict(annotation) if is_from(annotation, "typing") else {}
    arguments = names.get("__args__")
    if type(arguments) is not tuple:
        arguments = ()
    return names.get("__origin__", MISSING), arguments


def _format_default(default: object) -> str:
    """Format the default of a parameter; an ellipsis if that would run code, or say little."""
    if type(default) in SCALARS:
        return one_line(repr(default), _MAX_DEFAULT_CHARS)
    if type(default) is OmittedArgument:
        return one_line(default.shown, _MAX_DEFAULT_CHARS)
    if type(default) in _CONTAINERS and not default:
        return repr(default)
    if type(default) is type:
        return one_line(default.__name__)
    return "…"
