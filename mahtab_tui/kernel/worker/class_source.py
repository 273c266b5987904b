"""Finds the source of a class by its name and the location of its functions, without running its metaclass."""

from __future__ import annotations

import ast
import linecache
import sys
import types
from typing import Any

from .statics import class_dict, is_module, own_dict

MOST = 1_000_000
"""Longer files (in characters) are not searched."""


def class_source(cls: Any) -> tuple[str, str, int]:
    """Return source, file and line; empty if unknown."""
    file = _file(cls)
    lines = linecache.getlines(file) if file else []
    text = "".join(lines)
    if not text or len(text) > MOST:
        return "", "", 0
    found = _definition(text, type.__dict__["__qualname__"].__get__(cls).split("."))
    if found is None:
        return "", "", 0
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    return "".join(lines[first - 1 : found.end_lineno]), file, first


def _file(cls: Any) -> str:
    """Return the file of one of the class's functions, or of its module."""
    names = class_dict(cls)
    module = names.get("__module__")
    for item in list(names.values()):
        function = item.fget if type(item) is property else item.__func__ if type(item) is staticmethod or type(item) is classmethod else item
        if type(function) is types.FunctionType and function.__module__ == module:
            return function.__code__.co_filename
    loaded = sys.modules.get(module) if type(module) is str else None
    file = own_dict(loaded).get("__file__") if is_module(loaded) else None
    return file if type(file) is str else ""


def _definition(text: str, way: list[str]) -> ast.ClassDef | None:
    try:
        node: ast.AST = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for name in way:
        inside = [child for child in ast.walk(node) if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and child.name == name]
        if name == "<locals>":
            continue
        if not inside:
            return None
        node = inside[-1]
    return node if isinstance(node, ast.ClassDef) else None
