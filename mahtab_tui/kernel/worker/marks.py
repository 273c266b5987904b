"""Finds in the syntax tree of a cell which names it binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def bound_names(tree: ast.Module, *, imports: bool = True) -> frozenset[str]:
    """Return the names that a cell binds at its top level: assignments, definitions, loops, with, except, match, walrus; optionally imports."""
    names: set[str] = set()
    for node in _own_level(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            if imports:
                names.add(node.asname or node.name.split(".")[0])
        else:
            # except … as name, case … as name, case [*name], case {**name}
            names.update(str(getattr(node, field)) for field in ("name", "rest") if isinstance(getattr(node, field, None), str))
    return frozenset(names)


def _own_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run at a cell's top level, without the bodies of functions and classes."""
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.comprehension):  # its target is local to it
            pending.extend((node.iter, *node.ifs))
            continue
        pending.extend(ast.iter_child_nodes(node))
