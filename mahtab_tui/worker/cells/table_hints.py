"""Hints about tables: columns, keys and row labels that do not exist, columns of another dtype, and
conditions on whole columns.

Each function returns the text of a hint, or an empty text if the error is another one. Labels are only
compared if they are plain values, so that none of the user's code runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ..values.objects import (
    Classes,
    as_library_type,
    has_own_indexes,
    is_index,
    is_one_of,
    is_own_type,
)
from ..values.secret_names import looks_secret
from ..values.summaries import one_line
from .failure import Failure
from .suggestions import did_you_mean, list_names, nearest

_MAX_LABELS = 2_000
"""Columns, keys or row labels that are looked at."""
_MAX_COLUMNS = 200
"""Columns of a table among which those with texts or dates are looked for."""
_SAMPLED_VALUES = 20
"""Values of a column by which its kind is recognised."""
_PLAIN_TYPES = Classes(str, int, float, bool)
_WRONG_DTYPE = re.compile(
    r"could not convert string to float|invalid literal for int|Unable to parse string|to numeric"
    r"|agg function failed|does not support operation|Cannot perform reduction"
    r"|can only concatenate str|unsupported operand type|not supported between instances"
    r"|Can only use \.(?:dt|str) accessor"
    r"|Invalid comparison between|operation '\w+' not supported|ufunc .* not supported"
)
DATE_PARTS = frozenset(("year", "month", "day", "hour", "quarter", "dayofweek", "weekday"))
"""Attributes of pandas' `Series.dt` that a missing column may be named after."""
_MAX_ABSENT_NAMES = 3
"""Missing labels that a hint names."""
_NOT_NUMERIC = re.compile(r"[^\d\s.eE+-]")
_ISO_DATE = re.compile(r"\d{4}[-/]\d{2}(?!\d)")
"""The beginning of a text that may be a date."""
_DATE_WORDS = re.compile(r"datetime|Timestamp|timedelta|\bdate\b")


def missing_label(failure: Failure) -> str:
    """Name the columns, keys or row labels that exist, the nearest first."""
    about_columns = failure.kind in ("ColumnNotFoundError", "UndefinedVariableError")
    if not about_columns and not failure.is_a(KeyError):
        return ""
    missing_names = _missing_names(failure.argument)
    if not missing_names:
        return ""

    # pandas raises from the index that it searched, inside the method of a table.
    searched_index: object = None
    for candidate in failure.objects():
        value = as_library_type(candidate)
        if is_index(value):
            if searched_index is None:
                searched_index = value
            continue
        label_kind, labels = _searched_labels(failure, value, searched_index)
        absent_names = [name for name in missing_names if name not in labels]
        if labels and absent_names:
            return _describe_absent(failure, candidate, label_kind, labels, absent_names)
    return ""


def _describe_absent(
    failure: Failure,
    searched: object,
    label_kind: str,
    labels: list[Any],
    absent_names: list[Any],
) -> str:
    """Say where names are that an object does not have, or what it has instead.

    Args:
        failure: The error.
        searched: The object in which the names were looked for.
        label_kind: What was looked for, as "column".
        labels: What there is of this kind.
        absent_names: The names that are not among these.
    """
    value = as_library_type(searched)
    first_name = absent_names[0]
    if label_kind == "column" and (date_hint := _date_part(failure, value, first_name)):
        return date_hint
    absent_text = ", ".join(one_line(repr(name), 60) for name in absent_names[:_MAX_ABSENT_NAMES])
    if label_kind == "label" and value.ndim == 2 and first_name in plain_labels(value.columns):
        return f"{absent_text} is a column, not a row label"
    if is_one_of(value, "pandas", "DataFrame") and first_name in plain_labels(value.index.names):
        return f"{absent_text} is the index, not a column. reset_index() makes it a column"
    if label_kind == "column" and (merge_hint := _joined_table(failure, value, first_name)):
        return merge_hint
    similar_names = suggest(failure, first_name, labels)
    label_list = list_labels(failure, label_kind, searched, labels)
    return f"there is no {label_kind} {absent_text}.{similar_names} {label_list}"


def _joined_table(failure: Failure, table: Any, column: object) -> str:
    """Say that another table has a missing column, and how both come together; empty if none has it, or
    if it does not share exactly one column with the table."""
    if type(column) is not str or not is_one_of(table, "pandas", "DataFrame"):
        return ""
    other_name = table_with_column(failure, column)
    if not other_name:
        return ""
    other_labels = plain_labels(as_library_type(failure.names[other_name]).columns)
    shared_labels = [label for label in plain_labels(table.columns) if label in other_labels]
    if len(shared_labels) != 1:
        return ""
    name = failure.find_name(table) or "df"
    return (
        f"there is no column {one_line(repr(column), 60)} in {name}, but in {other_name}. Both tables"
        f" together: {name}.merge({other_name}, on={one_line(repr(shared_labels[0]), 60)})"
    )


def _searched_labels(failure: Failure, value: Any, searched_index: Any) -> tuple[str, list[Any]]:
    """Return what was searched in an object: its kind, as "column", and its labels. If nothing was
    searched there, it has no labels."""
    if type(value) is dict and not failure.library_frames:
        return "key", plain_labels(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
        if value.ndim == 1 or searched_index is value.index:
            label_kind = "label"
            index = value.index
        else:
            label_kind = "column"
            index = value.columns
        was_searched = searched_index is None or searched_index is index
        return label_kind, plain_labels(index) if was_searched else []
    if is_one_of(value, "polars", "DataFrame"):
        return "column", plain_labels(value.columns)
    if is_one_of(value, "pyarrow", "Table"):
        return "column", plain_labels(value.column_names)
    return "column", []


def _missing_names(argument: Any) -> list[Any]:
    """Return the labels that an error's first argument reports as missing."""
    if type(argument) is not str:
        labels: Any = argument.tolist() if is_index(argument) else argument
        return plain_labels(labels if type(labels) is list else [labels])
    if argument.startswith("Column not found: "):
        return [argument.partition(": ")[2]]
    # Leave out what polars and pandas write after the missing labels.
    message = argument.partition("; valid columns")[0].partition("dtype=")[0]
    # pandas quotes only the labels after "['" in "\"['a', 'b'] not in index\"".
    quoted = re.findall(r"""['"]([^'"]+)['"]""", message[max(0, message.find("['")) :])
    return quoted or [argument]


def plain_labels(labels: Iterable[object]) -> list[Any]:
    """Return the first labels, those that are plain values, so that comparing them runs no code."""
    return [label for label in islice(labels, _MAX_LABELS) if type(label) in _PLAIN_TYPES]


def _date_part(failure: Failure, table: Any, name: object) -> str:
    """Return how to get a part of dates, such as the month, after which a missing column is named.

    Empty if it is named after none, or if the table has several columns of dates, or none.
    """
    if name not in DATE_PARTS or not is_one_of(table, "pandas", "DataFrame"):
        return ""
    date_columns = [column.name for column in _named_columns(table) if has_dates(column)]
    if len(date_columns) != 1:
        return ""
    column_name = one_line(repr(date_columns[0]), 60)
    expression = f"{failure.find_name(table) or 'df'}[{column_name}]"
    return (
        f"there is no column {name!r}, but {column_name} has dates."
        f" Their {name}: pd.to_datetime({expression}).dt.{name}"
    )


def has_dates(series: Any) -> bool:
    """Return whether a column contains dates, perhaps as texts that begin with a year."""
    if not is_own_type(series.dtype):
        return False
    if series.dtype.kind == "M":
        return True
    texts = _texts(series)
    return bool(texts) and all(map(_ISO_DATE.match, texts))


def _named_columns(table: Any) -> Iterator[Any]:
    """Yield the first columns of a table, those whose names are texts."""
    for position in range(min(table.shape[1], _MAX_COLUMNS)):
        column = table.iloc[:, position]
        if type(column.name) is str:
            yield column


def suggest(failure: Failure, name: object, names: Iterable[object]) -> str:
    """Return a sentence with similar names, unless Python's own message has one."""
    if failure.has_suggestion or type(name) is not str:
        return ""
    public_names = [other for other in names if type(other) is str and other[:1] != "_"]
    return did_you_mean(nearest(name, public_names))


def list_labels(failure: Failure, label_kind: str, value: object, labels: Iterable[object]) -> str:
    """List the labels of an object.

    Args:
        failure: The error.
        label_kind: What they are, as "column".
        value: The object that has the labels.
    """
    name = failure.find_name(value)
    if name:
        title = f"{label_kind.title()}s of {name}"
    else:
        title = f"{label_kind.title()}s"
    label_names = (label if type(label) is str else repr(label) for label in labels)
    return f"{title}: {list_names(label_names)}"


def table_with_column(failure: Failure, column: str) -> str:
    """Return the name of the user's newest table with this column; empty if none has it."""
    for name, candidate in reversed(failure.names.items()):
        value = as_library_type(candidate)
        if not is_one_of(value, "pandas", "DataFrame") or not has_own_indexes(value):
            continue
        if type(name) is str and name[:1] != "_" and column in plain_labels(value.columns):
            return name
    return ""


def wrong_dtype(failure: Failure) -> str:
    """Name the dtype of the column in question, and how to convert it."""
    if not _WRONG_DTYPE.search(failure.message):
        return ""
    for value in map(as_library_type, failure.objects()):
        if not is_one_of(value, "pandas", "Series", "DataFrame") or not has_own_indexes(value):
            continue
        if value.ndim == 2:
            hint = _text_columns(failure, value)
        else:
            hint = _column(failure, value)
        if hint:
            return hint
    return ""


def _column(failure: Failure, series: Any) -> str:
    """Describe a column that has the wrong dtype; empty if there is nothing to convert."""
    if not is_own_type(series.dtype):
        return ""
    texts = _texts(series)
    name = series.name if type(series.name) is str else ""
    subject = one_line(repr(name), 60) if name else "the Series"
    description = f"{subject} has dtype {series.dtype}"
    if texts and not looks_secret(name):
        description += f", for example {one_line(repr(texts[0]), 40)}"

    expression = _expression(failure, name) or failure.find_name(series) or f"df[{name!r}]"
    expression = one_line(expression, 60)
    if "Can only use .str" in failure.message:
        return f"{description}. Convert it first: {expression}.astype(str)"
    if not texts:
        return ""
    if _DATE_WORDS.search(failure.message):
        return f"{description}. Convert it first: pd.to_datetime({expression})"
    return f"{description}{_advise_numbers(texts, expression)}"


def _advise_numbers(texts: Sequence[str], expression: str) -> str:
    """Return the end of a sentence that says how to get numbers from texts.

    Args:
        texts: Some of the texts.
        expression: How code refers to their column.
    """
    if not any(char.isdecimal() for text in texts for char in text):
        advice = "Use a column of numbers, or count the values"
        return f": text, not numbers. {advice}: {expression}.value_counts()"
    # Units and separators would make all values NaN.
    if any(_NOT_NUMERIC.search(text) for text in texts):
        expression += ".str.replace(r'[^0-9.-]', '', regex=True)"
    return f". Convert it first: pd.to_numeric({expression}, errors='coerce')"


def _expression(failure: Failure, name: str) -> str:
    """Return how the user's line refers to a column; empty if it does not."""
    for node in failure.expressions:
        column: Any = node.attr if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            column = node.slice.value
        if name and column == name:
            return ast.unparse(node)
    return ""


def _texts(series: Any) -> list[str]:
    """Return the strings among the first values of a column that may contain some."""
    if not is_own_type(series.dtype) or series.dtype.kind in "bifcmM":
        return []  # numbers, booleans or times
    return [value for value in series.iloc[:_SAMPLED_VALUES].tolist() if type(value) is str]


def _text_columns(failure: Failure, table: Any) -> str:
    """Name the columns of a table that contain text; empty if there are none."""
    names = [column.name for column in _named_columns(table) if _texts(column)]
    if not names:
        return ""
    advice = "Leave them out: numeric_only=True, or df.select_dtypes('number')"
    if "could not convert" in failure.message:
        advice += ", or encode them: pd.get_dummies(df)"
    return f"columns with text: {list_names(names, 200)}. {advice}"


def ambiguous_truth(failure: Failure) -> str:
    """Explain how to combine conditions on columns and arrays."""
    if "truth value of a" not in failure.message:
        return ""
    return (
        "combine conditions with & | ~ instead of and, or, not, each in parentheses:"
        " df[(df['a'] > 1) & (df['b'] < 5)]. Whether any or all values are true: .any(), .all()"
    )
