"""Tells what is probably wrong with the result of code that ran without an error.

Code may take the label of a row for what stands in it, count only the last of several conditions, or
compare a number with a text. The code is only parsed, and of the tables only the names of columns, the
kind of the index and the column by which rows are grouped are read. `unmatched_texts` and
`question_doubts` have the doubts for which values are compared.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from ..cells.table_hints import has_dates
from ..values.objects import MISSING, as_library_type, has_own_indexes, is_one_of, is_own_column
from .question_doubts import question_doubts
from .unmatched_texts import changed_names, column_of, unmatched_texts

_MAX_CODE_CHARS = 20_000
"""Longer code is not read."""
_MAX_SHOWN_CODE_CHARS = 300
"""Characters of corrected code in a sentence; longer code is not shown."""
_LABEL_METHODS = frozenset(("idxmax", "idxmin"))
"""Methods that return the label of a row."""
_LABEL_USERS = frozenset(("at", "groupby", "iloc", "loc", "set_index", "value_counts"))
"""Attributes with which code looks up a row by its label, or gives the rows labels that say
something."""
_MIN_GROUPED_ROWS = 5
"""In a smaller table, each row may well be a group by chance."""
_MAX_GROUPED_ROWS = 200_000
_COUNTING_METHODS = frozenset(("mean", "sum"))
"""Methods that count the rows that fulfil a condition, or their share."""
_DATE_PARTS = frozenset(
    (
        *("year", "quarter", "month", "day", "hour", "minute", "second", "dayofweek", "weekday"),
        *("day_of_week", "dayofyear", "day_of_year", "days_in_month", "daysinmonth"),
    )
)
"""Some attributes of pandas' `dt` that are numbers."""
_MAX_DATE_PART_DIGITS = 4
"""Digits of the longest of these numbers, a year."""
_MAX_DATE_SENTENCES = 3
"""Sentences about parts of dates."""


def result_doubts(
    namespace: dict[str, object],
    names: Collection[str],
    code: str,
    question: str = "",
    output: str = "",
) -> tuple[str, ...]:
    """Return a sentence for each thing that is probably wrong with the result of code.

    Args:
        namespace: The user's variables by name.
        names: The variables whose values may be told.
        code: Python code that has run.
        question: The question that the result must fit; empty if it need not fit one.
        output: What the code printed, if there is a question.
    """
    if len(code) > _MAX_CODE_CHARS:
        return ()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or wrong
        return ()
    nodes = list(ast.walk(tree))
    tables = {name: namespace[name] for name in names if name in namespace}
    # Code may compare the same part of dates twice.
    date_sentences = dict.fromkeys(_dates_compared_with_texts(nodes, tables))
    question_sentences: Sequence[str] = ()
    if question:
        question_sentences = question_doubts(tables, nodes, question, output)
    return (
        *_misread_labels(nodes, tables),
        *_groups_of_rows(nodes, tables),
        *_partial_counts(nodes),
        *islice(date_sentences, _MAX_DATE_SENTENCES),
        *unmatched_texts(tables, nodes),
        *question_sentences,
    )


def _misread_labels(nodes: Sequence[ast.AST], tables: dict[str, object]) -> Iterator[str]:
    """Yield a sentence if code takes the number of a row for what stands in it.

    Args:
        nodes: The nodes of the code's syntax tree.
        tables: The tables and columns that the code may use, by name.
    """
    uses_labels = any(
        isinstance(node, ast.Attribute) and node.attr in _LABEL_USERS for node in nodes
    )
    if uses_labels:
        return
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = node.func.attr
        column = column_of(node.func.value)
        if method not in _LABEL_METHODS or column is None:
            continue
        table_name, _ = column
        if has_numbered_rows(tables.get(table_name, MISSING)):
            if label_code := _unparse(node):
                yield (
                    f"{method}() returns the label of a row, not what stands in it."
                    f" The row: {table_name}.loc[{label_code}]."
                )
            return


def has_numbered_rows(value: object) -> bool:
    """Return whether the labels of a table's rows are their numbers, which say nothing."""
    table: Any = as_library_type(value)
    if not is_one_of(table, "pandas", "DataFrame") or not has_own_indexes(table):
        return False
    return is_one_of(table.index, "pandas", "RangeIndex")


def _groups_of_rows(nodes: Sequence[ast.AST], tables: dict[str, object]) -> Iterator[str]:
    """Yield a sentence if code groups the rows of a table by a column in which no value is there
    twice. The parameters are those of `_misread_labels`."""
    # A table that the code has changed may have had other rows when they were grouped.
    changed = changed_names(nodes)
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        table_name = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        if node.func.attr != "groupby" or not node.args:
            continue
        if table_name not in tables or table_name in changed:
            continue
        table: Any = as_library_type(tables[table_name])
        label = _only_text(node.args[0])
        if not is_one_of(table, "pandas", "DataFrame") or not has_own_indexes(table):
            continue
        if len(table) < _MIN_GROUPED_ROWS or label not in table.columns:
            continue
        column = table[label]
        if not _has_no_value_twice(column):
            continue
        column_code = f"{table_name}[{label!r}]"
        sentence = (
            f"groupby({label!r}) makes a group of each row, because no value of {column_code} is"
            " there twice."
        )
        if has_dates(column):
            sentence += f" By year: {table_name}.groupby(pd.to_datetime({column_code}).dt.year)."
        yield sentence
        return


def _has_no_value_twice(column: Any) -> bool:
    """Return whether each value of a column of pandas is there once. Long columns, and those with
    objects, which may compare themselves by the user's code, are not looked at."""
    if column.ndim != 1 or not is_own_column(column) or len(column) > _MAX_GROUPED_ROWS:
        return False
    if column.dtype.kind == "O" and any(type(value) is not str for value in column.tolist()):
        return False
    return bool(column.is_unique)


def _only_text(node: ast.expr) -> str:
    """Return the text that an expression writes, perhaps as the only one of a list; empty if it writes
    something else."""
    if isinstance(node, ast.List) and len(node.elts) == 1:
        node = node.elts[0]
    if isinstance(node, ast.Constant) and type(node.value) is str:
        return node.value
    return ""


def _partial_counts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield a sentence if code counts the rows of one condition only, as in
    `(a > 1) & (b < 5).sum()`."""
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            continue
        counting = node.right
        if not isinstance(counting, ast.Call) or not isinstance(counting.func, ast.Attribute):
            continue
        method = counting.func.attr
        last_condition = counting.func.value
        if method in _COUNTING_METHODS and isinstance(last_condition, ast.Compare):
            if all_conditions := _unparse(ast.BinOp(node.left, node.op, last_condition)):
                yield (
                    f"{method}() belongs to the last condition only."
                    f" For all: ({all_conditions}).{method}()."
                )
            return


def _dates_compared_with_texts(
    nodes: Sequence[ast.AST], tables: dict[str, object]
) -> Iterator[str]:
    """Yield a sentence for each part of a date that code compares with a text of digits, as in
    `dates.dt.year == "2014"`. The parameters are those of `_misread_labels`."""
    for part, texts in _compared_parts(nodes):
        if not _is_date_part(part, tables):
            continue
        for text in texts:
            if not isinstance(text, ast.Constant) or type(text.value) is not str:
                continue
            if text.value.isdecimal() and len(text.value) <= _MAX_DATE_PART_DIGITS:
                yield (
                    f"dt.{part.attr} is a number, which is never equal to the text {text.value!r}."
                    f" Compare it with {int(text.value)}."
                )


def _compared_parts(
    nodes: Sequence[ast.AST],
) -> Iterator[tuple[ast.Attribute, Sequence[ast.expr]]]:
    """Yield each attribute in `_DATE_PARTS` that code compares, and what it is compared with."""
    for node in nodes:
        for compared, others in _comparisons(node):
            if isinstance(compared, ast.Attribute) and compared.attr in _DATE_PARTS:
                yield compared, others


def _comparisons(node: ast.AST) -> Iterator[tuple[ast.expr, Sequence[ast.expr]]]:
    """Yield what an expression compares, and with what: both sides of `a == b`, each with the other
    one, and `a` of `a.isin([b, c])`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        right = node.comparators[0]
        yield node.left, [right]
        yield right, [node.left]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        values = node.args[0]
        if node.func.attr == "isin" and isinstance(values, (ast.List, ast.Tuple, ast.Set)):
            yield node.func.value, values.elts


def _is_date_part(part: ast.Attribute, tables: dict[str, object]) -> bool:
    """Return whether an attribute is a part of the dates in a column of a table, as in
    `table["day"].dt.year` or `pd.to_datetime(table["day"]).dt.year`."""
    accessor = part.value
    if not isinstance(accessor, ast.Attribute) or accessor.attr != "dt":
        return False
    dates = accessor.value
    if isinstance(dates, ast.Call) and isinstance(dates.func, ast.Attribute) and dates.args:
        if dates.func.attr != "to_datetime":
            return False
        dates = dates.args[0]
    column = column_of(dates)
    if column is None:
        return False
    table_name, column_name = column
    table: Any = as_library_type(tables.get(table_name, MISSING))
    if not is_one_of(table, "pandas", "DataFrame") or not has_own_indexes(table):
        return False
    return column_name in table.columns


def _unparse(node: ast.AST) -> str:
    """Return the code of a node; empty if it is too long to be shown."""
    try:
        code = ast.unparse(node)
    except RecursionError:
        return ""
    return code if len(code) <= _MAX_SHOWN_CODE_CHARS else ""
