"""Compiles code for cells and magics: statements, and a last expression whose value is shown."""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator, Sequence
from types import CodeType, TracebackType
from typing import Any, Callable, NamedTuple

from ..values.objects import ATOMS, MISSING, address_of

CO_COROUTINE = 0x80
"""The flag of code that awaits."""
FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
"""The flags of code with imports from `__future__`."""

_PLAIN_NODES = (
    *(ast.Module, ast.Expr, ast.Assign, ast.Pass),
    *(ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
"""Nodes of code that only binds names, if all its values are plain."""
_FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""Nodes whose inner names are local."""


class NotCompiledError(Exception):
    """Code does not compile. The cause is the error of the compiler."""


def walk_tree(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes. (`ast.walk` imports something that a cell may have replaced.)"""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(ast.iter_child_nodes(node))


def cache_source(source: str, filename: str) -> None:
    """Let tracebacks and `inspect` find the source of code that is in no file."""
    if type(linecache.cache) is not dict:  # a cell has replaced it
        linecache.cache = {}
    lines = [line + "\n" for line in source.split("\n")]
    linecache.cache[filename] = len(source), None, lines, filename


class CompiledParts(NamedTuple):
    """The code of a cell."""

    body: CodeType
    """Its statements, without the last expression if its value is shown."""
    last_expression: CodeType | None
    """None if no value is shown."""


def compile_parts(
    tree: ast.Module, filename: str, flags: int, shows_value: bool = True
) -> CompiledParts:
    """Compile statements and, separately, the last expression whose value is shown.

    Args:
        tree: The statements.
        filename: The name for tracebacks.
        flags: The flags of `compile`.
        shows_value: Whether the value of a last expression is shown.
    """
    last_statement = tree.body[-1] if shows_value and tree.body else None
    if not isinstance(last_statement, ast.Expr):
        return CompiledParts(compile(tree, filename, "exec", flags, dont_inherit=True), None)
    earlier_statements = ast.Module(tree.body[:-1], tree.type_ignores)
    body = compile(earlier_statements, filename, "exec", flags, dont_inherit=True)
    # What the statements import from `__future__` holds for the expression, too.
    flags |= body.co_flags & FUTURES
    expression = ast.Expression(last_statement.value)
    return CompiledParts(body, compile(expression, filename, "eval", flags, dont_inherit=True))


def compile_callable(
    source: str, filename: str, namespace: dict[str, object], run_awaitable: Callable[[Any], object]
) -> Callable[[], object]:
    """Return a function that runs code and returns its last value.

    Args:
        source: The code.
        filename: The name for tracebacks.
        namespace: The namespace in which it runs.
        run_awaitable: Waits for an awaitable value, and returns its result.

    Raises:
        SyntaxError: It is not Python.
    """
    cache_source(source, filename)
    tree = ast.parse(source.strip("\n"), filename)
    parts = compile_parts(tree, filename, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def run() -> object:
        value = None
        for code in filter(None, parts):
            value = eval(code, namespace)
            if code.co_flags & CO_COROUTINE:
                value = run_awaitable(value)
        return value

    return run


def can_change_objects(tree: ast.Module, namespace: dict[str, object]) -> bool:
    """Return whether a cell can change more than which plain values its names refer to."""
    for node in walk_tree(tree):
        if not isinstance(node, ast.Name):
            if not isinstance(node, _PLAIN_NODES):
                return True
            continue
        value = namespace.get(node.id, MISSING)
        if value is MISSING:
            # A new name changes no object; reading one that is missing runs code.
            if isinstance(node.ctx, ast.Load):
                return True
        elif address_of(type(value)) not in ATOMS:
            return True  # replacing an object may end it
    return False


def executed_part(
    tree: ast.Module, codes: Sequence[CodeType], traceback: TracebackType | None
) -> ast.Module:
    """Return the statements of a cell up to its error, without an assignment to a name whose value
    failed; all of them if the error was not in its code.

    Args:
        tree: The cell's statements.
        codes: What they were compiled to.
        traceback: The traceback of the error.
    """
    # Exceptions of the user's may pretend to have any traceback.
    while isinstance(traceback, TracebackType):
        if any(traceback.tb_frame.f_code is code for code in codes):
            break
        traceback = traceback.tb_next
    else:
        return tree
    statements = [node for node in tree.body if node.lineno <= traceback.tb_lineno]
    if statements and _binds_only_its_value(statements[-1]):
        statements.pop()
    return ast.Module(statements, [])


def _binds_only_its_value(statement: ast.stmt) -> bool:
    """Return whether a statement binds a name, and nothing before its value is known."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    return isinstance(statement, (ast.AnnAssign, ast.AugAssign))


def bound_names(tree: ast.Module, *, imports: bool = True) -> frozenset[str]:
    """Return the names that a cell binds at its top level."""
    names: set[str] = set()
    pending: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.comprehension):  # its target is local to it
            pending += [node.iter, *node.ifs]
            continue
        if imports or not isinstance(node, ast.alias):
            names.update(_bound_by(node))
        if not isinstance(node, _FUNCTION_NODES):
            pending += ast.iter_child_nodes(node)
    return frozenset(names)


def _bound_by(node: ast.AST) -> list[str]:
    """Return the names that a node itself binds."""
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    if isinstance(node, ast.alias):
        return [node.asname or node.name.split(".")[0]]
    # A definition, except … as name, case … as name, case [*name], case {**name}
    field_names = (getattr(node, field, None) for field in ("name", "rest"))
    return [name for name in field_names if isinstance(name, str)]
