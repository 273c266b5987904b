"""The code of a cell: IPython's syntax is rewritten and compiled, and evaluated in the namespace."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from ..magic import syntax
from .awaiting import EventLoop
from .compiling import CO_COROUTINE, FUTURES, NotCompiledError, compile_parts

_evaluate_code = eval
"""The builtin, which a cell may replace before its last expression is evaluated."""


class CompiledCell(NamedTuple):
    """The code of a cell."""

    tree: ast.Module
    body: CodeType
    last_expression: CodeType | None
    """Its value is shown; None if the cell does not end with an expression, or hides its value."""

    @property
    def code_objects(self) -> Sequence[CodeType]:
        if self.last_expression is None:
            return [self.body]
        return [self.body, self.last_expression]


class CellCompiler:
    """Compiles the cells of a namespace, of which later ones keep what earlier ones have imported from
    `__future__`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """
        Args:
            namespace: Its names hide magic commands.
        """
        self._namespace = namespace
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def compile(self, source: str, filename: str) -> CompiledCell:
        """Compile a cell. Raises `NotCompiledError`."""
        flags = self._flags
        try:
            plain = syntax.transform(syntax.complete_command(source, self._namespace))
            tree: ast.Module = compile(plain, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
            shows_value = bool(tree.body) and not _hides_value(plain, tree.body[-1])
            body, last_expression = compile_parts(tree, filename, flags, shows_value)
            self._flags |= body.co_flags & FUTURES
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise NotCompiledError from error
        return CompiledCell(tree, body, last_expression)


def _hides_value(source: str, last_statement: ast.stmt) -> bool:
    """Return whether a semicolon follows the last statement, as in IPython."""
    line = last_statement.end_lineno or 0
    column = last_statement.end_col_offset or 0
    code_after = source.split("\n")[line - 1].encode()[column:]
    return code_after.lstrip().startswith(b";")


def evaluate(compiled: CompiledCell, namespace: dict[str, Any], loop: EventLoop) -> object:
    """Run the code of a cell, and return the value of its last expression; None if it shows none.

    Raises what the code raises.
    """
    if compiled.body.co_flags & CO_COROUTINE:
        return loop.run(_evaluate_in_task(compiled, namespace))
    _evaluate_code(compiled.body, namespace)
    if compiled.last_expression is None:
        return None
    value = _evaluate_code(compiled.last_expression, namespace)
    if compiled.last_expression.co_flags & CO_COROUTINE:
        return loop.run(value)
    return value


async def _evaluate_in_task(compiled: CompiledCell, namespace: dict[str, Any]) -> object:
    """Do what `evaluate` does for statements that await."""
    await _evaluate_code(compiled.body, namespace)
    if compiled.last_expression is None:
        return None
    value = _evaluate_code(compiled.last_expression, namespace)
    if compiled.last_expression.co_flags & CO_COROUTINE:
        return await value
    return value
