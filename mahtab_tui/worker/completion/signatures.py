"""Explains values by signature, docstring and source, without running user code."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
import types
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
_WITH_NAMES = Classes(types.FunctionType, types.BuiltinFunctionType)
_CONTAINERS = Classes(list, tuple, dict, set)
_BOUND = re.compile(r"^\(\$\w+(?:, /)?(?:, )?")
"""The bound parameter of built-in functions: ``($self, /, …``."""
_KEYWORD = re.compile(r"[(,]\s*([a-z_]\w*)=")
_MAX_USAGE_CHARS = 1_000
_MAX_FILE_CHARS = 1_000_000
_MAX_SOURCE_CHARS = 400_000


def explain(value: object, expression: str) -> dict[str, str]:
    """Explain the value of an expression: signature, or type and summary, docstring and source."""
    source, where = find_source(value)
    doc = get_docstring(value)
    if is_class(value) and not doc:
        function, _ = function_of(value)
        doc = get_docstring(function) if function is not None else ""
    return {
        "signature": format_signature(value, expression)[:_MAX_SOURCE_CHARS],
        "doc": doc[:_MAX_SOURCE_CHARS],
        "where": where,
        "source": source[:_MAX_SOURCE_CHARS],
    }


def source(value: object, expression: str) -> dict[str, Any]:
    if is_module(value):
        return _module_source(value)
    function: Any = value.__func__ if type(value) is types.MethodType else value
    if is_class(function):
        expression = one_line(name_of(function))
    elif type(function) in _WITH_NAMES:
        expression = one_line(function.__name__)
    explanation = explain(value, expression)
    number = explanation["where"].rpartition(":")[2]
    return {**explanation, "line": int(number) if number.isdigit() else 1}


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
    return one_line(get_doc(value).strip().split("\n", 1)[0].strip(), MAX_DOC_LINE_CHARS)


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


def find_source(value: object) -> tuple[str, str]:
    """Return source and "file:line"; empty if unknown."""
    if is_class(value):
        return _find_class_source(value)
    while type(value) is types.MethodType:
        value = value.__func__
    function = unwrap(value)
    if function is None:
        return "", ""
    code = function.__code__
    try:
        lines, number = inspect.getsourcelines(code)
    except (OSError, TypeError, SyntaxError, IndexError):
        return "", ""
    return "".join(lines), f"{code.co_filename}:{number or 1}"


def _find_class_source(cls: object) -> tuple[str, str]:
    file = _find_class_file(cls)
    lines = linecache.getlines(file) if file else []
    text = "".join(lines)
    if len(text) > _MAX_FILE_CHARS:
        return "", ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", ""
    qualname = type.__dict__["__qualname__"].__get__(cls)
    name = qualname.rpartition(".")[2]
    definitions = [
        candidate
        for candidate in ast.walk(tree)
        if isinstance(candidate, ast.ClassDef) and candidate.name == name
    ]
    if not definitions:
        return "", ""
    node = definitions[-1]
    first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "".join(lines[first_line - 1 : node.end_lineno]), f"{file}:{first_line}"


def _find_class_file(cls: Any) -> str:
    names = class_dict(cls)
    module = names.get("__module__")
    for item in list(names.values()):
        if type(item) is property:
            item = item.fget
        elif type(item) in BOUND:
            item = item.__func__
        if type(item) is types.FunctionType and item.__module__ == module:
            return item.__code__.co_filename
    loaded = sys.modules.get(module) if type(module) is str else None
    file = None
    if is_module(loaded):
        file = own_dict(loaded).get("__file__")
    return file if type(file) is str else ""


# Signatures


class Parameter(NamedTuple):
    name: str
    text: str
    """Including stars, annotation and default."""
    keyword: bool


def format_signature(value: object, name: str) -> str:
    """Format ``name(parameters) -> result``; type and summary for values."""
    function, bound = function_of(value)
    if function is None:
        return _format_builtin(value, name)
    written = [parameter.text for parameter in parameters(function, bound)]
    result = annotations_of(function).get("return", ...)
    if result is ... or is_class(value):
        arrow = ""
    else:
        arrow = f" -> {format_annotation(result)}"
    line = f"{name}({', '.join(written)}){arrow}"
    if len(line) <= 80:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in written) + f"){arrow}"


def _format_builtin(value: Any, name: str) -> str:
    if type(value) in BUILT_IN or (type(value) is type and class_dict(value).get("__doc__")):
        text = value.__text_signature__
        if type(text) is str:
            return name + _BOUND.sub("(", text)
    if variable_kind(value) in ("function", "class"):
        return f"{name}(…)"
    return one_line(f"{name}: {type_name(value)}  {masked_summary(name, value)}".rstrip(), 200)


def function_of(value: Any) -> tuple[Any, int]:
    """Return the Python function that a call runs, if any, and how many parameters are bound."""
    if type(value) is get_if_loaded("functools", "partial"):
        function, bound = function_of(value.func)
        return function, bound + len(value.args)
    if type(value) is types.MethodType:
        return unwrap(value.__func__), 1
    if type(value) in BOUND:
        return unwrap(value.__func__), int(type(value) is classmethod)
    if type(value) is types.FunctionType:
        return unwrap(value), 0
    if is_class(value):
        for name in ("__init__", "__new__"):
            method = find_in_class(value, name)
            if type(method) is staticmethod:
                method = method.__func__
            if type(method) is types.FunctionType:
                return unwrap(method), 1
        return None, 0
    wrapped = own_dict(value).get("__wrapped__")  # of one of numpy's functions
    if class_module(type(value)) == "numpy" and type(wrapped) is types.FunctionType:
        return unwrap(wrapped), 0
    method = find_in_class(type(value), "__call__")
    if type(method) is types.FunctionType:
        return (unwrap(method), 1)
    return (None, 0)


def parameters(
    function: types.FunctionType, bound: int, *, annotated: bool = True
) -> list[Parameter]:
    code = function.__code__
    annotations = annotations_of(function) if annotated else {}
    positional = code.co_argcount
    only = code.co_posonlyargcount
    defaults = function.__defaults__ or ()
    default_values = {
        **dict(zip(code.co_varnames[positional - len(defaults) : positional], defaults)),
        **(function.__kwdefaults__ or {}),
    }
    result = []
    for index, name in enumerate(parameter_names(function)):
        if index < min(bound, positional):
            continue
        text = name
        if name in annotations:
            text += f": {format_annotation(annotations[name])}"
        if name in default_values:
            text += (
                f"{' = ' if name in annotations else '='}{_format_default(default_values[name])}"
            )
        result.append(Parameter(name, text, index >= only and not name.startswith("*")))
        if index == only - 1:
            result.append(Parameter("/", "/", keyword=False))
    return result


def builtin_keywords(value: Any) -> list[str]:
    if type(value) is types.MethodType:
        value = value.__func__
    if type(value) not in BUILT_IN and type(value) is not type:
        return []
    signature = value.__text_signature__
    if type(signature) is str:
        with suppress(SyntaxError, ValueError, RecursionError):
            parsed: Any = ast.parse(f"def f{signature.replace('$', '')}: ...").body[0]
            names = [argument.arg for argument in parsed.args.args + parsed.args.kwonlyargs]
            return [name for name in names if name not in ("self", "cls", "type")]
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
    if is_class(annotation):
        return one_line(name_of(annotation))
    if annotation is None:
        return "None"
    if _is_plain(annotation):
        return one_line(repr(annotation))
    origin, arguments = split_generic(annotation)
    if "__metadata__" in own_dict(annotation):
        return format_annotation(origin)
    if origin is MISSING or origin is get_if_loaded("typing", "Union"):
        return one_line(" | ".join(map(format_annotation, arguments)) or type_name(annotation))
    return one_line(f"{format_annotation(origin)}[{', '.join(map(format_annotation, arguments))}]")


def _is_plain(annotation: Any) -> bool:
    """Return whether the `repr` of an annotation runs only the interpreter's code."""
    if is_class(annotation):
        module = class_module(annotation)
        return type(annotation) is type or (
            module == "collections.abc" and get_if_loaded(module, name_of(annotation)) is annotation
        )
    if type(annotation) in SCALARS or annotation is Ellipsis:
        return True
    if not is_from(annotation, "typing", "types") or "__metadata__" in own_dict(annotation):
        return False
    origin, arguments = split_generic(annotation)
    return (origin is MISSING or _is_plain(origin)) and all(map(_is_plain, arguments))


def split_generic(annotation: Any) -> tuple[object, tuple[object, ...]]:
    """Split a type such as ``list[int]``."""
    if type(annotation) is types.GenericAlias:
        return annotation.__origin__, annotation.__args__
    if type(annotation) is getattr(types, "UnionType", None):
        return MISSING, annotation.__args__
    names = {}
    if is_from(annotation, "typing"):
        names = own_dict(annotation)
    arguments = names.get("__args__")
    return names.get("__origin__", MISSING), arguments if type(arguments) is tuple else ()


def _format_default(default: object) -> str:
    if type(default) in SCALARS:
        return one_line(repr(default), 40)
    if type(default) is OmittedArgument:
        return one_line(default.shown, 40)
    if type(default) in _CONTAINERS and not default:
        return repr(default)
    if type(default) is type:
        return one_line(default.__name__)
    return "…"
