"""What code calls, and what it may do outside the namespace, as far as its syntax tree tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mahtab_tui.bus.slicing import parsed
from mahtab_tui.session.lasting_effects import effects_at, ways_around
from mahtab_tui.session.names_in_code import Names
from mahtab_tui.settings.approval_rules import UNKNOWN, Call, opened

_OPENS = frozenset(("open", "io.open", "builtins.open"))
_LONGEST = 100_000
"""Characters of code that are read."""


class CodeEffect(NamedTuple):
    """Something that code does, or may do, outside the namespace."""

    text: str
    call: Call | None
    """What does it; None for an import, or a function that is only named."""
    module: str = ""
    """The module, for an import."""


class CodeReading(NamedTuple):
    """What is known about code."""

    calls: tuple[Call, ...]
    effects: tuple[CodeEffect, ...]
    around: str
    """What in it could get around a look at the code, as it is written there; empty if nothing was found."""


def read_code(code: str) -> CodeReading | None:
    """Read code; None if it is too long or not plain Python, such as a magic."""
    tree = parsed(code) if len(code) <= _LONGEST else None
    if tree is None:
        return None
    names = Names(tree)
    calls: list[Call] = []
    effects: list[CodeEffect] = []
    of_node: dict[int, Call] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = _call(node, names)
            calls.append(call)
            part: ast.AST = node.func
            of_node[id(node)] = call
            while isinstance(part, ast.Attribute):
                of_node[id(part)] = call
                part = part.value
            of_node[id(part)] = call
    for node in ast.walk(tree):
        if id(node) not in of_node and _opens(node, names):  # handed on, so others decide about its mode, perhaps after the cell
            effects.append(CodeEffect("open", Call(names.dotted(node) or "open", starred=True)))
        module = _module(node)
        for text in effects_at(node, names):
            mentioned = None if module else of_node.get(id(node), Call(names.dotted(node) or text, starred=True))
            effects.append(CodeEffect(text, mentioned, module))
    return CodeReading(tuple(calls), tuple(effects), ways_around(tree, names))


def _opens(node: ast.AST, names: Names) -> bool:
    """Whether a node names a function that opens files."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    root, _, name = (dotted := names.dotted(node)).rpartition(".")
    return dotted in _OPENS or (name == "open" and (root == "?" or root.partition(".")[0] in names.imported))  # not a column: ``prices.open``


def _module(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name if len(node.names) == 1 else "?"
    return (node.module or "?") if isinstance(node, ast.ImportFrom) else ""


def _call(node: ast.Call, names: Names) -> Call:
    name = names.dotted(node.func) or "?"
    starred = any(isinstance(each, ast.Starred) for each in node.args) or any(keyword.arg is None for keyword in node.keywords)
    arguments = tuple(map(_value, node.args))
    keywords = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    if name in _OPENS and not starred and (arguments or "file" in keywords):
        path = arguments[0] if arguments else keywords.pop("file")
        mode = arguments[1] if len(arguments) > 1 else keywords.pop("mode", "r")
        return opened(path, mode, keywords)
    return Call(name, arguments, keywords, starred)


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return -number if isinstance(number, int | float) else UNKNOWN
    return UNKNOWN


def literals(call: Call) -> Iterator[object]:
    """Yield the arguments of a call up to the first that is not a text or a number."""
    for value in () if call.starred else call.arguments:
        if not isinstance(value, str | int | float | None):
            return
        yield value
