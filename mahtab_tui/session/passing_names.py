"""Finds the names that a cell binds only in passing, or by an import: what it makes is elsewhere."""

from __future__ import annotations

import ast
from typing import NamedTuple

from mahtab_tui.worker.magic.syntax import parse_python, transform

_MAX_CODE_CHARS = 20_000
"""Longer code is not read."""


class PassingNames(NamedTuple):
    """Names that a cell binds without making anything for them."""

    transient: frozenset[str] = frozenset()
    """Names that only loops and `with` statements bind, and perhaps imports."""
    imported: frozenset[str] = frozenset()
    """Names that only imports bind."""


def find_passing_names(code: str) -> PassingNames:
    """Return the names that only loops, `with` statements and imports of the code bind."""
    tree = parse_python(transform(code)) if len(code) <= _MAX_CODE_CHARS else None
    if tree is None:
        return PassingNames()
    transient_names: set[str] = set()
    imported_names: set[str] = set()
    assigned_names: set[str] = set()
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.For() | ast.AsyncFor():
                transient_names |= _stored_names(node.target)
                nodes += [*node.body, *node.orelse]
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        transient_names |= _stored_names(item.optional_vars)
                nodes += node.body
            case ast.Import() | ast.ImportFrom():
                imported_names |= {
                    alias.asname or alias.name.partition(".")[0] for alias in node.names
                }
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                assigned_names.add(name)
            case ast.ClassDef(name=name):
                assigned_names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                assigned_names.add(name)
            case _:
                nodes += ast.iter_child_nodes(node)
    transient_names -= assigned_names
    imported_names -= assigned_names | transient_names
    return PassingNames(frozenset(transient_names), frozenset(imported_names))


def _stored_names(target: ast.expr) -> set[str]:
    """Return the names that an assignment to a target binds."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
