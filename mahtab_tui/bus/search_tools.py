"""Finds the functions that searches in some code may call without asking again."""

from __future__ import annotations

import ast

from mahtab_tui.bus.magic_calls import function_name
from mahtab_tui.bus.magic_code import read_code

MAX_CODE_CHARS = 100_000
"""Longer code is shown cut, and can be neither parsed nor edited."""
_SEARCH_FUNCTIONS = frozenset(("rlm", "arlm", "Searcher"))
_MAX_TOOLS_CHARS = 80
_ALL_TOOLS = "all of its tools="
"""Stands for functions that are not known."""


def find_search_tools(code: str) -> str:
    """Return the names of the functions that a search in the code may call."""
    if "tools" not in code and "**" not in code:  # avoids loading the parser
        return ""
    if len(code) > MAX_CODE_CHARS:
        return _ALL_TOOLS
    trees = [part.tree for part in read_code(code) if part.tree is not None]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    expressions: list[str] = []
    for call in calls:
        if function_name(call) not in _SEARCH_FUNCTIONS:
            continue
        for keyword in call.keywords:
            # The keyword of **options has no name, and may contain tools.
            if keyword.arg in ("tools", None):
                expressions.append(_write_expression(keyword.value))
    names = ", ".join(dict.fromkeys(expressions))
    if len(names) > _MAX_TOOLS_CHARS:
        return names[:_MAX_TOOLS_CHARS] + "…"
    return names


def _write_expression(expression: ast.expr) -> str:
    try:
        return ast.unparse(expression)
    except RecursionError:  # it is nested too deeply
        return _ALL_TOOLS
