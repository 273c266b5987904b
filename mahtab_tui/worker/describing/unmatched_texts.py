"""Finds the texts that code compares with a column of a table in which no value matches them, or whose
dates are not in the order of time.

A model takes the 0 or the table that it gets from such a comparison for the answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..cells.suggestions import did_you_mean, nearest
from ..values.objects import as_library_type, is_one_of, run_with_timeout
from ..values.secret_names import looks_secret
from ..values.summaries import one_line, variable_kind
from .table_description import text_columns
from .written_values import may_misorder_dates

_TIMEOUT_S = 0.5
"""Seconds for all tables together."""
_MAX_SENTENCES = 3
_MAX_SHOWN_CHARS = 60
"""Characters of a text that are shown."""
_PART_METHODS = frozenset(("contains", "endswith", "startswith"))
"""Methods of a column of texts that look for a part of each value."""
_PART_ATTRIBUTES = frozenset(("get", "lstrip", "rsplit", "rstrip", "split", "str", "strip"))
"""Attributes of a column of texts by which code takes a part of each value, letter by letter."""
_CHANGING_METHODS = frozenset(("insert", "pop", "update"))
"""Methods that change a table in place."""

_ORDER_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
"""Comparisons by the order of values."""
_BOUND_NODES = (ast.Name, ast.Attribute, ast.Subscript)
"""Kinds of nodes that code can assign to or delete."""


class _TextComparison(NamedTuple):
    """A text that code compares with the values of a column."""

    table: str
    """The name of the table's variable."""
    column: str
    text: str
    is_whole: bool
    """Whether it is compared with whole values, rather than with parts of them."""
    order_sign: str = ""
    """The operator, if it compares their order."""


def unmatched_texts(tables: Mapping[str, object], nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    """Return a sentence for each text that code compares with a column in which nothing matches it, or
    whose dates it compares by their letters.

    Args:
        tables: The variables whose values may be told, by name.
        nodes: The nodes of the code's syntax tree.
    """
    changed = changed_names(nodes)
    comparisons = [
        comparison
        for comparison in dict.fromkeys(_comparisons(nodes))
        if comparison.table in tables
        and comparison.table not in changed
        and not looks_secret(comparison.table)
    ]
    if not comparisons:
        return ()

    work = partial(_write_sentences, tables, comparisons)
    try:
        sentences = run_with_timeout(_TIMEOUT_S, work)
    except Exception:  # a library's object in an unforeseen state, or too slow
        return ()
    return tuple(sentences[:_MAX_SENTENCES])


def _write_sentences(
    tables: Mapping[str, object], comparisons: Sequence[_TextComparison]
) -> list[str]:
    """Return a sentence for each comparison that is probably wrong. May raise what a library's object
    raises in an inconsistent state."""
    texts_by_table: dict[str, Mapping[str, Collection[str]]] = {}
    """The texts of each table that was read, by column."""
    sentences: list[str] = []
    for comparison in comparisons:
        name = comparison.table
        if name not in texts_by_table:
            texts_by_table[name] = _read_texts(tables[name])
        texts = texts_by_table[name].get(comparison.column)
        sentence = _describe(comparison, texts, tables[name]) if texts else ""
        if sentence:
            sentences.append(sentence)
    return sentences


def _read_texts(table: object) -> Mapping[str, Collection[str]]:
    """Return the different texts of each column of a table that has been read whole."""
    if variable_kind(table) != "data":
        return {}
    return text_columns(table, whole_only=True)


def changed_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that code binds, and those of the objects that it visibly changes: they are no
    longer what was compared, or are not the user's variables."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_in_place = any(keyword.arg == "inplace" for keyword in node.keywords)
            if is_in_place or node.func.attr in _CHANGING_METHODS:
                names.add(_root_name(node.func))
        elif isinstance(node, _BOUND_NODES) and not isinstance(node.ctx, ast.Load):
            names.add(_root_name(node))
    return names


def _root_name(node: ast.expr) -> str:
    """Return the variable with which an expression begins; empty if it begins with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _comparisons(nodes: Sequence[ast.AST]) -> Iterator[_TextComparison]:
    """Yield the comparisons of columns with texts among the nodes of code."""
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _operator_comparisons(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            yield from _method_comparisons(node.func, node)


def _operator_comparisons(node: ast.Compare) -> Iterator[_TextComparison]:
    """Yield the comparisons by an operator, as in `cars["Name"] == "ford"`; the text may be on either
    side."""
    (operator,) = node.ops
    order_sign = _ORDER_SIGNS.get(type(operator), "")
    if not order_sign and not isinstance(operator, (ast.Eq, ast.NotEq)):
        return
    left = node.left
    right = node.comparators[0]
    for comparison in (*_compared(left, [right]), *_compared(right, [left])):
        yield comparison._replace(order_sign=order_sign)


def _method_comparisons(method: ast.Attribute, call: ast.Call) -> Iterator[_TextComparison]:
    """Yield the comparisons by a method of a column, as in `cars["Name"].str.startswith("ford")`.

    Args:
        method: The method with its column.
        call: The call of it, which has an argument.
    """
    argument = call.args[0]
    if method.attr == "isin" and isinstance(argument, (ast.List, ast.Tuple, ast.Set)):
        yield from _compared(method.value, argument.elts)
        return
    # With other arguments, the methods may compare in another way.
    has_more_arguments = bool(call.keywords) or len(call.args) > 1
    if method.attr not in _PART_METHODS or has_more_arguments:
        return
    if method.attr != "contains" or not _is_pattern(argument):
        yield from _compared(method.value, [argument], is_whole=False)


def _is_pattern(node: ast.expr) -> bool:
    """Return whether a literal text means something else as a regular expression."""
    if not isinstance(node, ast.Constant) or type(node.value) is not str:
        return False
    return re.escape(node.value).replace("\\ ", " ").replace("\\-", "-") != node.value


def _compared(
    values: ast.expr, texts: Sequence[ast.expr], *, is_whole: bool = True
) -> Iterator[_TextComparison]:
    """Yield a comparison for each literal text, if the values come from a column of a table.

    Args:
        values: What the texts are compared with.
        texts: Expressions.
        is_whole: Whether they are compared with whole values.
    """
    column = column_of(values)
    if column is None:
        # What is taken out of a value need not be the whole value.
        is_whole = False
        column = _column_of_part(values)
    if column is None:
        return
    table_name, column_name = column
    for text in texts:
        if isinstance(text, ast.Constant) and type(text.value) is str and text.value:
            yield _TextComparison(table_name, column_name, text.value, is_whole)


def _column_of_part(node: ast.expr) -> tuple[str, str] | None:
    """Return the names of the table and of the column of whose values an expression takes a part, as
    `cars["Name"].str.split(" ").str[0]` does; None for other expressions."""
    column: tuple[str, str] | None = None
    while column is None:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Attribute) and node.attr in _PART_ATTRIBUTES
        ):
            node = node.value
        else:
            return None
        column = column_of(node)
    return column


def column_of(node: ast.expr) -> tuple[str, str] | None:
    """Return the names of the table and of the column that an expression may mean, as `cars["Name"]`
    and `cars.Name` do; None if it means neither."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is str:
            return node.value.id, node.slice.value
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return None


def _describe(comparison: _TextComparison, values: Collection[str], table: object) -> str:
    """Return a sentence if no value of a column matches a text, or if dates as text are compared by
    their order, which need not be that of time; empty otherwise.

    Args:
        comparison: The text.
        values: The different texts of the column.
        table: The table with the column.
    """
    column = f"{comparison.table}[{one_line(comparison.column, _MAX_SHOWN_CHARS)!r}]"
    if not comparison.order_sign:
        return _describe_unmatched(comparison, column, values)
    if not comparison.is_whole or not may_misorder_dates(values, comparison.text):
        return ""
    advice = "Convert them to dates first"
    if is_one_of(as_library_type(table), "pandas", "DataFrame"):
        advice += f": pd.to_datetime({column})"
    return (
        f"{column} has dates as text, such as {_quote(next(iter(values)))}:"
        f" {comparison.order_sign} compares their letters, which need not be the order of time."
        f" {advice}."
    )


def _describe_unmatched(comparison: _TextComparison, column: str, values: Collection[str]) -> str:
    """Return a sentence if no value of a column matches a text; empty otherwise.

    Args:
        comparison: The text.
        column: Code for the column.
        values: Its different texts.
    """
    text = comparison.text
    containing = [value for value in values if text in value]
    if text in values or (containing and not comparison.is_whole):
        return ""
    verb = "is" if comparison.is_whole else "contains"
    sentence = f"no value of {column} {verb} {_quote(text)}"

    folded = text.casefold()
    for value in values:
        if value.casefold() == folded:
            return f"{sentence}: it is written {_quote(value)}."
    if containing:
        return f"{sentence}. It is a part of {_name_values(containing)}."
    otherwise_written = [value for value in values if folded in value.casefold()]
    if otherwise_written:
        return f"{sentence}. In other letters, it is a part of {_name_values(otherwise_written)}."
    return f"{sentence}.{did_you_mean(nearest(text, values))}"


def _name_values(values: Sequence[str]) -> str:
    """Say how many different values there are, with one of them.

    Args:
        values: At least one.
    """
    if len(values) == 1:
        return _quote(values[0])
    return f"{len(values):,} different values, such as {_quote(values[0])}"


def _quote(text: str) -> str:
    return repr(one_line(text, _MAX_SHOWN_CHARS))
