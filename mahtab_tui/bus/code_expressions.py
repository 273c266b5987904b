"""What single expressions of a cell's code show: whether they can change, and what they may change.

`code_inputs` asks this while it reads the statements around them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set

from mahtab_tui.bus.magic_calls import function_name

_CLASS_CHECKS = frozenset(("isinstance", "issubclass"))
"""Functions that change no argument."""


def assigned_pairs(targets: Sequence[ast.expr], value: ast.expr) -> list[tuple[ast.Name, ast.expr]]:
    """Return the names and the values of an assignment such as `a, b = x, y`.

    Empty for any other assignment.
    """
    match targets, value:
        case [ast.Tuple(elts=target_items)], ast.Tuple(elts=values):
            names = [item for item in target_items if isinstance(item, ast.Name)]
            has_starred = any(isinstance(item, ast.Starred) for item in values)
            if len(names) == len(target_items) == len(values) and not has_starred:
                return list(zip(names, values, strict=True))
    return []


def is_unchangeable(value: ast.expr) -> bool:
    """Return whether an expression is made of constants only, so that no call can change its value."""
    if isinstance(value, ast.Tuple):
        return all(map(is_unchangeable, value.elts))
    operands: list[ast.expr] = [value]
    while operands:
        operand = operands.pop()
        if isinstance(operand, ast.BinOp):
            operands += [operand.left, operand.right]
        elif isinstance(operand, ast.UnaryOp):
            operands.append(operand.operand)
        elif not isinstance(operand, ast.Constant | ast.JoinedStr):
            return False
    return True


def is_suppressing(context: ast.expr) -> bool:
    """Return whether a context of `with` is one of `contextlib.suppress`."""
    return isinstance(context, ast.Call) and function_name(context) == "suppress"


def call_targets(call: ast.Call, namespace_names: Set[str]) -> Iterator[str]:
    """Yield the names that a call may change: those of its receiver and its arguments.

    Of modules and classes, only a whole one as an argument counts, not one whose function is called
    or is an argument.
    """
    if isinstance(call.func, ast.Name) and call.func.id in _CLASS_CHECKS:
        return
    targets: list[ast.expr] = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        targets.append(call.func)
    for target in targets:
        root = target
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Starred):
            root = root.value
        if isinstance(root, ast.Name) and (target is root or root.id not in namespace_names):
            yield root.id
