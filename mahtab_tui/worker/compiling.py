"""Compiles code for cells and magic commands: statements, and a last expression whose value is
shown."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import Any, Callable

CO_COROUTINE = 0x80
"""Flag of code objects that await."""
FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
"""All compiler flags of `from __future__ import …`."""


def walk_tree(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a tree. (Unlike `ast.walk`, this imports nothing that a cell may have
    replaced.)"""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(ast.iter_child_nodes(node))


def cache_source(source: str, filename: str) -> None:
    """Store a source for tracebacks, the debugger and `inspect`."""
    if type(linecache.cache) is not dict:  # a cell has replaced it
        linecache.cache = {}
    linecache.cache[filename] = (
        len(source),
        None,
        [line + "\n" for line in source.split("\n")],
        filename,
    )


def compile_parts(
    tree: ast.Module, filename: str, flags: int, shown: bool = True
) -> tuple[CodeType, CodeType | None]:
    """Compile the statements and, separately, the last expression, if there is one and its value is
    shown. flags: of `compile`."""
    last = tree.body[-1] if shown and tree.body else None
    if not isinstance(last, ast.Expr):
        return compile(tree, filename, "exec", flags, dont_inherit=True), None
    body = compile(
        ast.Module(tree.body[:-1], tree.type_ignores), filename, "exec", flags, dont_inherit=True
    )
    return body, compile(
        ast.Expression(last.value),
        filename,
        "eval",
        flags | body.co_flags & FUTURES,
        dont_inherit=True,
    )


def compile_callable(
    source: str, filename: str, namespace: dict[str, Any], await_: Callable[[Any], Any]
) -> Callable[[], Any]:
    """Return a function that runs code, which may await, and returns the value of its last
    expression. filename: shown in tracebacks.

    Raises `SyntaxError`.
    """
    cache_source(source, filename)
    parts = compile_parts(
        ast.parse(source.strip("\n"), filename), filename, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )

    def run() -> Any:
        value = None
        for code in filter(None, parts):
            value = eval(code, namespace)
            if code.co_flags & CO_COROUTINE:
                value = await_(value)
        return value

    return run
