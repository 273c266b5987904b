"""What a cell can reach: whether it can change an object in place at all, and through which names."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..compiling import walk
from ..statics import MISSING, address_of, is_module, own_dict
from .part import ATOMS

_STATEMENTS = (ast.Module, ast.Expr, ast.Assign, ast.Pass)
_EXPRESSIONS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
_SIGNS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_PLAIN = (*_STATEMENTS, *_EXPRESSIONS, *_SIGNS)


def can_change_objects(tree: ast.Module, namespace: dict[str, Any]) -> bool:
    """Return whether a cell can change more than which objects its names refer to. It cannot if it only computes with plain values, as ``1 + 1`` does."""
    for node in walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and address_of(type(namespace.get(node.id, namespace))) not in ATOMS:
                return True
        elif not isinstance(node, _PLAIN):
            return True
    return False


class Patch(NamedTuple):
    """An attribute of a library's module that a cell's code sets."""

    held: dict[str, Any]
    """The module's names."""
    label: str
    attribute: str
    then: Any
    """Its value before the cell; `MISSING` if there was none."""


def patches(tree: ast.Module, namespace: dict[str, Any]) -> Iterator[Patch]:
    """Yield the attributes of modules that a cell sets or deletes, as they are before it."""
    for node in walk(tree):
        attribute, target = "", None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            attribute, target = node.attr, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") and len(node.args) > 1:
            attribute, target = str(getattr(node.args[1], "value", "")), node.args[0]
        module = _module_at(target, namespace)
        if module is not None and attribute:
            held = own_dict(module)
            yield Patch(held, f"{held.get('__name__')}.{attribute}", attribute, held.get(attribute, MISSING))


def _module_at(node: ast.expr | None, namespace: dict[str, Any]) -> Any:
    """Return the module that an expression like ``package.module`` refers to; None if it is something else. Runs no code."""
    if isinstance(node, ast.Name):
        found = namespace.get(node.id)
    elif isinstance(node, ast.Attribute):
        found = own_dict(_module_at(node.value, namespace)).get(node.attr)
    else:
        return None
    return found if is_module(found) else None


def names_in(codes: tuple[types.CodeType, ...], namespace: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that code mentions, those that functions of these names mention, and so on."""
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
