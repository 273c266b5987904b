"""What a cell can reach: whether it can change an object in place at all, and through which names."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from .part import ATOMS

_PLAIN = (
    ast.Module,
    ast.Expr,
    ast.Assign,
    ast.Pass,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


def can_change_objects(tree: ast.Module, namespace: dict[str, Any]) -> bool:
    """Whether a cell can change anything but which objects its names stand for. Not if it only computes with plain values, as ``1 + 1`` does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and id(type(namespace.get(node.id, namespace))) not in ATOMS:
                return True
        elif not isinstance(node, _PLAIN):
            return True
    return False


def names_in(codes: tuple[types.CodeType, ...], namespace: dict[str, Any]) -> tuple[str, ...]:
    """The names of a namespace that code mentions, and that the functions mention which it mentions, and so on."""
    found: dict[str, None] = {}
    pending = [name for code in codes for name in _names(code)]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = None
        value = namespace.get(name)
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            pending += _names(value.__code__)
    return tuple(found)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names(constant)
