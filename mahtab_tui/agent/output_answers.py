"""Decides whether what a small model's code has printed is the answer to a question about data.

If it is, the model need not tell it in words, and the question ends (`graph.py`). It is not if the code
has only looked at tables, so most of this tells looking from computing, by the code's syntax tree.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

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
_ITERATING_FUNCTIONS = frozenset(("enumerate", "list", "range", "reversed", "zip"))
"""Functions that loops call with tables."""
_ITERATING_METHODS = frozenset(("items", "values"))
"""Methods of a dict of tables that loops call."""
_CHANGING_METHODS = frozenset(
    (
        *("add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "reverse"),
        *("setdefault", "sort", "update"),
    )
)
"""Methods that change a table, list, set or dict."""


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
    if result.get("doubts") or _WANTS_WORDS.search(question):
        return False
    return not _only_looks(result["code"])


def _only_looks(code: str) -> bool:
    """Return whether code shows nothing but parts of tables, as ``print(cars.columns)`` does."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or too deep
        return False
    nodes = list(ast.walk(tree))
    computed_names = _computed_names(nodes)
    labels = _loop_names(nodes) - computed_names
    values = [value for value in _shown_values(tree.body, nodes) if not _is_name(value, labels)]
    return bool(values) and all(_is_look(value, computed_names) for value in values)


class _Assignment(NamedTuple):
    """An assignment, or the part of a loop that assigns."""

    target: ast.expr
    value: ast.expr
    """What is assigned, or what is looped over."""


class _NamedValue(NamedTuple):
    """A name to which code assigns something that it has not computed."""

    name: ast.Name
    value: ast.expr


def _computed_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of what code computes or changes. Those of tables that it names, reads from files
    or loops over, without computing anything, are not among them.

    Args:
        nodes: All nodes of its syntax tree.
    """
    named_values = [named_value for node in nodes for named_value in _named_values(node)]
    uncomputed_nodes = {named_value.name for named_value in named_values}
    names: set[str] = set()
    for node in nodes:
        if _changes_in_place(node):
            names.add(_base_name(node.func))
        elif (_is_stored(node) or _is_deleted_part(node)) and node not in uncomputed_nodes:
            names.add(_base_name(node))
    return _with_later_names(names, named_values)


def _named_values(node: ast.AST) -> Iterator[_NamedValue]:
    """Yield the names to which a node assigns values without computing anything."""
    for assignment in _assignments(node):
        if _computes(assignment.value):
            continue
        for target_node in ast.walk(assignment.target):
            if isinstance(target_node, ast.Name) and _is_stored(target_node):
                yield _NamedValue(target_node, assignment.value)


def _with_later_names(names: set[str], named_values: Sequence[_NamedValue]) -> set[str]:
    """Return names with those that the same values get later: ``total`` in ``total = mean``."""
    later_names: defaultdict[str, list[str]] = defaultdict(list)
    for named_value in named_values:
        for item in _items(named_value.value):
            if isinstance(item, ast.Name):
                later_names[item.id].append(named_value.name.id)

    # A later name may itself get a further one.
    all_names = set(names)
    pending_names = list(names)
    while pending_names:
        for later_name in later_names.pop(pending_names.pop(), ()):
            all_names.add(later_name)
            pending_names.append(later_name)
    return all_names


def _assignments(node: ast.AST) -> Iterator[_Assignment]:
    """Yield each target to which a node assigns, with the value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield _Assignment(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield _Assignment(node.target, node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield _Assignment(node.target, node.iter)


def _loop_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names to which loops assign, such as `number` and `table` in
    ``for number, table in enumerate(tables)``."""
    targets = [node.target for node in nodes if isinstance(node, (ast.For, ast.AsyncFor))]
    return {
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def _is_name(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _computes(value: ast.expr) -> bool:
    """Return whether an expression does more than write constants, name tables, and read them from
    files."""
    return not all(
        isinstance(item, (ast.Constant, ast.Name)) or _reads_file(item) for item in _items(value)
    )


def _items(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the items of a list, tuple or dict, as it is written, or of what a loop calls, such as
    ``enumerate(tables)`` and ``tables.values()``, or else the expression itself."""
    if isinstance(value, (ast.List, ast.Tuple)):
        for item in value.elts:
            yield from _items(item)
    elif isinstance(value, ast.Dict):
        for item in value.values:
            yield from _items(item)
    elif isinstance(value, ast.Starred):
        yield from _items(value.value)
    elif isinstance(value, ast.Call):
        yield from _items_of_call(value)
    else:
        yield value


def _items_of_call(call: ast.Call) -> Iterator[ast.expr]:
    function = call.func
    if isinstance(function, ast.Name) and function.id in _ITERATING_FUNCTIONS:
        for item in call.args:
            yield from _items(item)
    elif isinstance(function, ast.Attribute) and function.attr in _ITERATING_METHODS:
        yield from _items(function.value)
    else:
        yield call


def _is_stored(node: ast.AST) -> bool:
    """Return whether code assigns to a node."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _is_deleted_part(node: ast.AST) -> bool:
    """Return whether a node is what code deletes from a table, as in ``del table[column]``."""
    return isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Del)


def _changes_in_place(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a node is a call such as ``table.sort_values(column, inplace=True)`` or
    ``tables.append(table)``."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING_METHODS:
        return True
    return any(
        keyword.arg == "inplace"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )


def _base_name(node: ast.AST) -> str:
    """Return the name at the start of an expression such as ``table.loc[row]``; empty if another
    expression stands there."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


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
