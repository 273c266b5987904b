"""Finds the names that a cell binds only in passing, or by an import: what it makes is elsewhere."""

from __future__ import annotations

import ast

from mahtab_tui.worker.magic.syntax import parse_python, transform

_MAX_CODE_CHARS = 20_000
"""Longer code is not read."""


def find_passing_names(code: str) -> frozenset[str]:
    """Return the names that only loops, `with` statements and imports of the code bind."""
    tree = parse_python(transform(code)) if len(code) <= _MAX_CODE_CHARS else None
    if tree is None:
        return frozenset()
    passing_names: set[str] = set()
    made_names: set[str] = set()
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.For() | ast.AsyncFor():
                passing_names |= _stored_names(node.target)
                nodes += [*node.body, *node.orelse]
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        passing_names |= _stored_names(item.optional_vars)
                nodes += node.body
            case ast.Import() | ast.ImportFrom():
                passing_names |= {
                    alias.asname or alias.name.partition(".")[0] for alias in node.names
                }
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                made_names.add(name)
            case ast.ClassDef(name=name):
                made_names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                made_names.add(name)
            case _:
                nodes += ast.iter_child_nodes(node)
    return frozenset(passing_names - made_names)


def _stored_names(target: ast.expr) -> set[str]:
    """Return the names that an assignment to a target binds."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
