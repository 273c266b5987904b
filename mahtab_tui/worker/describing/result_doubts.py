"""Tells what is probably wrong with the result of code that ran without an error."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from .unmatched_texts import column_of, unmatched_texts

_MAX_CODE_CHARS = 20_000
"""Longer code is not read."""
_LABEL_METHODS = frozenset(("idxmax", "idxmin"))
"""Methods that return the label of a row."""
_LABEL_USERS = frozenset(("at", "groupby", "iloc", "loc", "set_index", "value_counts"))
"""With these, code looks up a row by its label, or has given the rows labels that say something."""
_MAX_CONDITION_CHARS = 300
_COUNTING_METHODS = frozenset(("mean", "sum"))


def result_doubts(
    namespace: dict[str, object], names: Collection[str], code: str
) -> tuple[str, ...]:
    """Return a sentence for each thing that is probably wrong with the result of code.

    Args:
        namespace: The user's.
        names: Those of its variables whose values may be told.
        code: Python code that has run.
    """
    if len(code) > _MAX_CODE_CHARS:
        return ()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or wrong
        return ()
    nodes = list(ast.walk(tree))
    return (
        *_misread_labels(nodes),
        *_partial_counts(nodes),
        *unmatched_texts(namespace, names, nodes),
    )


def _misread_labels(nodes: list[ast.AST]) -> Iterator[str]:
    """Say if code takes the label of a row for what stands in it."""
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if not attributes.isdisjoint(_LABEL_USERS):
        return
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = node.func.attr
        if method in _LABEL_METHODS:
            column = column_of(node.func.value)
            row = f"df.loc[{method[3:]}_label]"
            if column is not None:
                table_name = column[0]
                row = f"{table_name}.loc[{ast.unparse(node)}]"
            yield f"{method}() returns the label of a row, not what stands in it. The row: {row}."
            return


def _partial_counts(nodes: list[ast.AST]) -> Iterator[str]:
    """Say if code counts the rows of one condition only, as in `(a > 1) & (b < 5).sum()`."""
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            continue
        right = node.right
        if not isinstance(right, ast.Call) or not isinstance(right.func, ast.Attribute):
            continue
        if right.func.attr in _COUNTING_METHODS and isinstance(right.func.value, ast.Compare):
            method = right.func.attr
            condition = ast.unparse(ast.BinOp(node.left, node.op, right.func.value))
            if len(condition) <= _MAX_CONDITION_CHARS:
                yield f"{method}() belongs to the last condition only. For all: ({condition}).{method}()."
            return
