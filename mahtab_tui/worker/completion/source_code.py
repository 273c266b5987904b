"""Finds the source of functions and classes, without running the user's code."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import tokenize
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..values.objects import BOUND, class_dict, is_class, is_module, own_dict, unwrap

_MAX_FILE_CHARS = 1_000_000
"""Characters of a file in which a class is looked for."""

_GENERATED_FILE = "<string>"
"""What stands for the file of the methods that `dataclasses` generates."""


class LocatedSource(NamedTuple):
    """The source of a value; two empty strings if it is unknown."""

    text: str
    location: str
    """``file:line``."""


_NO_SOURCE = LocatedSource("", "")


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
        method = unwrap(item)
        if method is None or method.__module__ != module:
            continue
        if method.__code__.co_filename != _GENERATED_FILE:
            return method.__code__.co_filename
    loaded_module = sys.modules.get(module) if type(module) is str else None
    if not is_module(loaded_module):
        return ""
    file = own_dict(loaded_module).get("__file__")
    return file if type(file) is str else ""
