"""Finds the texts that code compares with a column of a table in which no value matches them.

A model takes the 0 or the empty table that it gets from such a comparison for the answer."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cells.suggestions import did_you_mean, nearest
from ..values.objects import run_with_timeout
from ..values.secret_names import looks_secret
from ..values.summaries import one_line, variable_kind
from .table_description import text_columns

_TIMEOUT_S = 0.5
"""For all tables together."""
_MAX_NOTES = 3
_MAX_SHOWN_CHARS = 60
"""Characters of a text that are shown."""
_CASE_SENSITIVE_METHODS = frozenset(("contains", "endswith", "startswith"))
"""Methods of a column of texts that look for a part of each value."""


class _Comparison(NamedTuple):
    """A text that code compares with the values of a column."""

    table: str
    """The name of the table's variable."""
    column: str
    text: str
    is_whole: bool
    """Whether it is compared with whole values, rather than with parts of them."""


def unmatched_texts(
    namespace: dict[str, object], names: Collection[str], nodes: Iterable[ast.AST]
) -> tuple[str, ...]:
    """Return a sentence for each text that code compares with a column in which nothing matches it.

    Args:
        namespace: The user's.
        names: Those of its variables whose values may be told.
        nodes: All those of the code.
    """
    comparisons = [
        comparison
        for comparison in _comparisons(nodes)
        if comparison.table in names and not looks_secret(comparison.table)
    ]
    if not comparisons:
        return ()

    def write_notes() -> Iterator[str]:
        columns: dict[str, Mapping[str, Collection[str]]] = {}
        for comparison in dict.fromkeys(comparisons):
            name = comparison.table
            if name not in columns:
                table = namespace.get(name)
                columns[name] = (
                    text_columns(table, whole_only=True) if variable_kind(table) == "data" else {}
                )
            if values := columns[name].get(comparison.column):
                yield _note(comparison, values)

    try:
        notes = run_with_timeout(_TIMEOUT_S, lambda: [note for note in write_notes() if note])
    except Exception:  # a library's object in an unforeseen state, or too slow
        return ()
    return tuple(notes[:_MAX_NOTES])


def _comparisons(nodes: Iterable[ast.AST]) -> list[_Comparison]:
    """Return the comparisons of columns with texts among the nodes of code."""
    comparisons: list[_Comparison] = []
    bound_names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound_names.add(node.id)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            if not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                continue
            comparisons += _compared(node.left, [node.comparators[0]])
            comparisons += _compared(node.comparators[0], [node.left])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr == "isin" and isinstance(
                node.args[0], (ast.List, ast.Tuple, ast.Set)
            ):
                comparisons += _compared(node.func.value, node.args[0].elts)
            elif node.func.attr in _CASE_SENSITIVE_METHODS and not node.keywords:
                comparisons += _compared(node.func.value, node.args[:1], is_whole=False)
    # A table that the code replaces is no longer the one that was compared.
    return [comparison for comparison in comparisons if comparison.table not in bound_names]


def _compared(
    values: ast.expr, texts: Sequence[ast.expr], *, is_whole: bool = True
) -> Iterator[_Comparison]:
    """Yield a comparison for each literal text, if the values come from a column of a table.

    Args:
        values: What the texts are compared with.
        texts: Expressions.
        is_whole: Whether they are compared with whole values.
    """
    node = values
    while True:
        column = column_of(node)
        if column is not None:
            break
        # What a method or an index returns need not be a whole value of the column.
        is_whole = False
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return
    for text in texts:
        if isinstance(text, ast.Constant) and type(text.value) is str and text.value:
            yield _Comparison(*column, text.value, is_whole)


def column_of(node: ast.expr) -> tuple[str, str] | None:
    """Return the names of the table and of the column that an expression may mean, as `cars["Name"]`
    and `cars.Name` do; None if it means neither."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is str:
            return node.value.id, node.slice.value
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return None


def _note(comparison: _Comparison, values: Collection[str]) -> str:
    """Return a sentence if no value of a column matches a text; empty otherwise.

    Args:
        comparison: The text.
        values: The different texts of the column.
    """
    text = comparison.text
    containing = [value for value in values if text in value]
    if text in values or (containing and not comparison.is_whole):
        return ""

    column = f"{comparison.table}[{one_line(comparison.column, _MAX_SHOWN_CHARS)!r}]"
    verb = "is" if comparison.is_whole else "contains"
    sentence = f"no value of {column} {verb} {_shown(text)}"

    folded = text.casefold()
    for value in values:
        if value.casefold() == folded:
            return f"{sentence}: it is written {_shown(value)}."
    if containing:
        return f"{sentence}. It is a part of {_count(containing)}."
    otherwise_written = [value for value in values if folded in value.casefold()]
    if otherwise_written:
        return f"{sentence}. In other letters, it is a part of {_count(otherwise_written)}."
    return f"{sentence}.{did_you_mean(nearest(text, values))}"


def _count(values: Sequence[str]) -> str:
    """Say how many different values there are, with one of them. values: at least one."""
    if len(values) == 1:
        return _shown(values[0])
    return f"{len(values):,} different values, such as {_shown(values[0])}"


def _shown(text: str) -> str:
    return repr(one_line(text, _MAX_SHOWN_CHARS))
