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

from ..objects import (
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
from ..servers import OmittedArgument
from ..stdlib import late_import
from ..variables import masked_summary, module_version, one_line, type_name, variable_kind

WIDTH = 100
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
_USAGE_LENGTH = 1_000
_LARGEST_FILE = 1_000_000
_LONGEST_SOURCE = 400_000


def explain(value: Any, expression: str) -> dict[str, str]:
    """Explain the value of an expression: signature, or type and summary, docstring and source."""
    source, where = find_source(value)
    doc = get_docstring(value)
    if is_class(value) and not doc:
        function, _ = function_of(value)
        doc = get_docstring(function) if function is not None else ""
    return {
        "signature": format_signature(value, expression)[:_LONGEST_SOURCE],
        "doc": doc[:_LONGEST_SOURCE],
        "where": where,
        "source": source[:_LONGEST_SOURCE],
    }


def source(value: Any, expression: str) -> dict[str, Any]:
    if is_module(value):
        return _module_source(value)
    function: Any = value.__func__ if type(value) is types.MethodType else value
    if is_class(function):
        expression = one_line(name_of(function))
    elif type(function) in _WITH_NAMES:
        expression = one_line(function.__name__)
    found = explain(value, expression)
    number = found["where"].rpartition(":")[2]
    return {**found, "line": int(number) if number.isdigit() else 1}


def _module_source(value: Any) -> dict[str, Any]:
    names = own_dict(value)
    file, version, text = names.get("__file__"), module_version(names), ""
    # A pipe could block forever.
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(_LONGEST_SOURCE)
    return {
        "signature": f"version {version}" if version else "",
        "doc": get_doc(value)[:_LONGEST_SOURCE],
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


def doc_line(value: Any) -> str:
    return one_line(get_doc(value).strip().split("\n", 1)[0].strip(), WIDTH)


def get_docstring(value: Any) -> str:
    """Return the docstring of a value or its class."""
    doc: Any = get_doc(value)
    if not doc and variable_kind(value) == "data":
        own = own_dict(value).get("__doc__")
        doc = own if type(own) is str else get_doc(type(value))
    elif not doc and is_from(value, "numpy"):
        doc = value.__doc__  # of a ufunc
    return inspect.cleandoc(doc) if type(doc) is str else ""


def find_source(value: Any) -> tuple[str, str]:
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


def _find_class_source(cls: Any) -> tuple[str, str]:
    file = _find_class_file(cls)
    lines = linecache.getlines(file) if file else []
    text = "".join(lines)
    if len(text) > _LARGEST_FILE:
        return "", ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", ""
    qualname = type.__dict__["__qualname__"].__get__(cls)
    name = qualname.rpartition(".")[2]
    found = [
        each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == name
    ]
    if not found:
        return "", ""
    node = found[-1]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "".join(lines[first - 1 : node.end_lineno]), f"{file}:{first}"


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
    file = own_dict(loaded).get("__file__") if is_module(loaded) else None
    return file if type(file) is str else ""


# Signatures


class Parameter(NamedTuple):
    name: str
    text: str
    """Including stars, annotation and default."""
    keyword: bool


def format_signature(value: Any, name: str) -> str:
    """Format ``name(parameters) -> result``; type and summary for values."""
    function, bound = function_of(value)
    if function is None:
        return _format_builtin(value, name)
    written = [parameter.text for parameter in parameters(function, bound)]
    result = annotations_of(function).get("return", ...)
    arrow = "" if result is ... or is_class(value) else f" -> {format_annotation(result)}"
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
            found = find_in_class(value, name)
            if type(found) is staticmethod:
                found = found.__func__
            if type(found) is types.FunctionType:
                return unwrap(found), 1
        return None, 0
    wrapped = own_dict(value).get("__wrapped__")  # of one of numpy's functions
    if class_module(type(value)) == "numpy" and type(wrapped) is types.FunctionType:
        return unwrap(wrapped), 0
    found = find_in_class(type(value), "__call__")
    return (unwrap(found), 1) if type(found) is types.FunctionType else (None, 0)


def parameters(
    function: types.FunctionType, bound: int, *, annotated: bool = True
) -> list[Parameter]:
    code, annotations = function.__code__, annotations_of(function) if annotated else {}
    positional, only = code.co_argcount, code.co_posonlyargcount
    defaults = function.__defaults__ or ()
    given = {
        **dict(zip(code.co_varnames[positional - len(defaults) : positional], defaults)),
        **(function.__kwdefaults__ or {}),
    }
    found = []
    for index, name in enumerate(parameter_names(function)):
        if index < min(bound, positional):
            continue
        text = name
        if name in annotations:
            text += f": {format_annotation(annotations[name])}"
        if name in given:
            text += f"{' = ' if name in annotations else '='}{_format_default(given[name])}"
        found.append(Parameter(name, text, index >= only and not name.startswith("*")))
        if index == only - 1:
            found.append(Parameter("/", "/", keyword=False))
    return found


def builtin_keywords(value: Any) -> list[str]:
    if type(value) is types.MethodType:
        value = value.__func__
    if type(value) not in BUILT_IN and type(value) is not type:
        return []
    signature = value.__text_signature__
    if type(signature) is str:
        with suppress(SyntaxError, ValueError, RecursionError):
            parsed: Any = ast.parse(f"def f{signature.replace('$', '')}: ...").body[0]
            names = [each.arg for each in parsed.args.args + parsed.args.kwonlyargs]
            return [name for name in names if name not in ("self", "cls", "type")]
    usage = get_doc(value)[:_USAGE_LENGTH].partition("\n\n")[0]
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


def split_generic(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split a type such as ``list[int]``."""
    if type(annotation) is types.GenericAlias:
        return annotation.__origin__, annotation.__args__
    if type(annotation) is getattr(types, "UnionType", None):
        return MISSING, annotation.__args__
    names = own_dict(annotation) if is_from(annotation, "typing") else {}
    arguments = names.get("__args__")
    return names.get("__origin__", MISSING), arguments if type(arguments) is tuple else ()


def _format_default(default: Any) -> str:
    if type(default) in SCALARS:
        return one_line(repr(default), 40)
    if type(default) is OmittedArgument:
        return one_line(default.shown, 40)
    if type(default) in _CONTAINERS and not default:
        return repr(default)
    return one_line(default.__name__) if type(default) is type else "…"
