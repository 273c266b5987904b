"""Whether what a small model's code has printed is the answer to a question about data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from mahtab_tui.agent.host import ExecutionResult
from mahtab_tui.bus.empty_answers import says_nothing

SHORT_OUTPUT_CHARS = 400
"""Maximum length of an output that may be the answer."""
_WANTS_WORDS = re.compile(
    r"\b(?:why|explain|interpret|discuss|describe|summari[sz]e|in\swords)\b", re.IGNORECASE
)
"""Words of a question that no bare output answers."""
_LOOKS = frozenset(
    ("columns", "dtypes", "head", "index", "info", "keys", "sample", "shape", "tail")
)
"""Attributes of a table that show what it is like."""
_CONVERSIONS = frozenset(("to_list", "to_string", "tolist"))
"""Methods that write the same in another form."""


def may_answer(result: ExecutionResult) -> bool:
    """Return whether an output is short, and has more than the description of a figure."""
    output = result["output"].strip()
    is_short = len(output) <= SHORT_OUTPUT_CHARS
    return is_short and not result.get("drew") and not says_nothing(output)


def tells_answer(result: ExecutionResult, question: str) -> bool:
    """Return whether a short output answers a question about data without words of the model.

    It does not if it is doubtful, if the question wants an explanation, or if the code has only looked
    at a table.

    Args:
        result: What came of a block that ran without an error.
        question: The user's question.
    """
    return not (
        result.get("doubts") or _WANTS_WORDS.search(question) or _only_looks(result["code"])
    )


def _only_looks(code: str) -> bool:
    """Return whether code shows nothing but parts of tables, as ``print(cars.columns)`` does."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or too deep
        return False
    nodes = list(ast.walk(tree))
    computed_names = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and not _reads_file(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    values = list(_shown_values(tree.body, nodes))
    return bool(values) and all(_is_look(value, computed_names) for value in values)


def _shown_values(statements: Sequence[ast.stmt], nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """Yield what code prints, without texts that stand in it, and the value of its last line.

    Args:
        statements: The statements of the code.
        nodes: All nodes of its syntax tree.
    """
    values = [
        argument
        for node in nodes
        if isinstance(node, ast.Call) and _is_print(node)
        for argument in node.args
    ]
    last = statements[-1] if statements else None
    if isinstance(last, ast.Expr) and not _is_print(last.value):
        values.append(last.value)
    for value in values:
        if isinstance(value, ast.JoinedStr):
            yield from (part.value for part in value.values if isinstance(part, ast.FormattedValue))
        elif not isinstance(value, ast.Constant):
            yield value


def _is_print(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("display", "print")
    )


def _reads_file(node: ast.expr) -> bool:
    """Return whether an expression is a call such as ``pd.read_csv(path)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("read_")
    )


def _is_look(node: ast.expr, computed_names: set[str]) -> bool:
    """Return whether an expression shows what a table is like, and computes nothing.

    Args:
        node: The expression.
        computed_names: The names of what the same code has computed.
    """
    while isinstance(node, ast.Call):
        is_list = isinstance(node.func, ast.Name) and node.func.id == "list"
        node = node.args[0] if is_list and node.args else node.func
        if isinstance(node, ast.Attribute) and node.attr in _CONVERSIONS:
            node = node.value
    if not isinstance(node, ast.Attribute) or node.attr not in _LOOKS:
        return False
    table = node.value
    return isinstance(table, ast.Name) and table.id not in computed_names
