"""Compiles the code of a magic command."""

from __future__ import annotations

import ast
import linecache
from types import CodeType
from typing import Any, Callable

from .magics import Caller

_CO_COROUTINE = 0x80


def compiled(source: str, filename: str, caller: Caller) -> Callable[[], Any]:
    """Return a function that runs code, which may await, and returns the value of its last expression. filename: shown in tracebacks.

    Raises `SyntaxError`.
    """
    linecache.cache[filename] = (len(source), None, [line + "\n" for line in source.split("\n")], filename)
    tree = ast.parse(source.strip("\n"), filename)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body = compile(tree, filename, "exec", flags, dont_inherit=True)
    value = compile(ast.Expression(last.value), filename, "eval", flags, dont_inherit=True) if isinstance(last, ast.Expr) else None

    def run() -> Any:
        _evaluate(body, caller)
        return None if value is None else _evaluate(value, caller)

    return run


def _evaluate(code: CodeType, caller: Caller) -> Any:
    result = eval(code, caller.namespace)
    return caller.await_(result) if code.co_flags & _CO_COROUTINE else result
