"""Finds the functions that code hands to the model of a search, which may call them without
asking."""

from __future__ import annotations

import ast

from mahtab_tui.bus.slicing import parsed

_SEARCHES = frozenset(("rlm", "arlm", "Searcher"))
_READ = 100_000
"""Characters of code that are looked through while the screen waits."""
_SHOWN = 80


def tools_of_searches(code: str) -> str:
    """Return the functions that the code hands to the model of a search, as they are written there;
    empty if none was found."""
    tree = parsed(code) if "tools" in code and len(code) <= _READ else None
    handed = (
        [ast.unparse(tools) for node in ast.walk(tree) if (tools := _tools(node)) is not None]
        if tree is not None
        else []
    )
    found = ", ".join(dict.fromkeys(handed))
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "…"


def _tools(node: ast.AST) -> ast.expr | None:
    """Return the argument `tools` of a search, or arguments that may have it."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords) if (
            name in _SEARCHES
        ):
            return next(
                (keyword.value for keyword in keywords if keyword.arg in ("tools", None)), None
            )
    return None
