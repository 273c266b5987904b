"""Writes the line after an error that names what helps to fix it, without running user code."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import PurePath
from typing import Any, Callable

from ..completion.signatures import function_of, parameters
from ..magic.syntax import BARE_COMMANDS
from ..values.objects import (
    MISSING,
    Classes,
    as_library_type,
    attributes,
    has_own_indexes,
    is_index,
    is_module,
    is_one_of,
    is_own_type,
    own_dict,
    run_with_timeout,
)
from ..values.secret_names import looks_secret
from ..values.summaries import one_line
from .failure import TRACEBACK_END_CHARS, Failure
from .suggestions import did_you_mean, list_names, nearest

HINT_TIMEOUT_S = 1.0
MAX_HINT_CHARS = 600
_MAX_LABELS = 2_000
"""Columns, keys or row labels that are looked at."""
_MAX_LISTED_FILES = 1_000
_MAX_TEXT_COLUMNS = 200
"""Columns of a table among which those with text are looked for."""
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
_DATE_PARTS = frozenset(("year", "month", "day", "hour", "quarter", "dayofweek", "weekday"))
"""Attributes of pandas' `Series.dt` that a missing column may be named after."""
_DATE_ATTRIBUTES = frozenset(("date", "dt", "isoformat", "strftime")) | _DATE_PARTS
"""Attributes of dates that code may expect of a row's label."""
_ISO_DATE = re.compile(r"\d{4}[-/]\d{2}(?!\d)")
"""The beginning of a text that may be a date."""
_DATE_WORDS = re.compile(r"datetime|Timestamp|timedelta|\bdate\b")
_REPLACEMENTS = {
    "pandas": {"append": "pd.concat([a, b])", "applymap": ".map(function)"},
    "polars": {
        "append": "pl.concat([a, b])",
        "groupby": ".group_by(by)",
        "merge": ".join(other, on=…)",
        "sort_values": ".sort(by)",
    },
}
"""What to use instead of methods that pandas has removed, or that polars names in another way."""
_MODULES_BY_ALIAS = {
    "np": "numpy",
    "pd": "pandas",
    "pl": "polars",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
}
_OFTEN_IMPORTED_MODULES = frozenset(
    "csv glob io json math os random re statistics sys time".split()
)
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|\w+_df|df_\w+")


def hint_for(error: BaseException, traceback_text: str) -> str:
    """Return a line that helps to fix an error; empty if there is none."""

    def find_hint() -> str:
        failure = Failure(error, traceback_text)
        for write_hint in _HINTS:
            if text := write_hint(failure):
                return text
        return ""

    try:
        text = run_with_timeout(HINT_TIMEOUT_S, find_hint)
    except BaseException:  # an interrupt, or anything raised by a library's object
        return ""
    if text:
        return one_line(f"Hint: {text}", MAX_HINT_CHARS)
    return ""


def missing_label(failure: Failure) -> str:
    """Name the columns, keys or row labels that exist, the nearest first."""
    about_columns = failure.kind in ("ColumnNotFoundError", "UndefinedVariableError")
    if not about_columns and not failure.is_a(KeyError):
        return ""
    missing = _missing_names(failure.argument)
    if not missing:
        return ""

    # pandas raises from the index that it searched, inside the method of a table.
    searched_index: object = None
    for candidate in failure.objects():
        value = as_library_type(candidate)
        if is_index(value):
            if searched_index is None:
                searched_index = value
            continue
        word, labels = _searched_labels(failure, value, searched_index)
        absent = [name for name in missing if name not in labels]
        if not labels or not absent:
            continue

        if word == "column" and (part := _date_part(failure, value, absent[0])):
            return part
        absent_text = ", ".join(one_line(repr(name), 60) for name in absent[:3])
        if word == "label" and value.ndim == 2 and absent[0] in _labels(value.columns):
            return f"{absent_text} is a column, not a row label"
        if is_one_of(value, "pandas", "DataFrame") and absent[0] in _labels(value.index.names):
            return f"{absent_text} is the index, not a column. reset_index() makes it a column"
        similar = _suggest(failure, absent[0], labels)
        label_list = _list_labels(failure, word, candidate, labels)
        return f"there is no {word} {absent_text}.{similar} {label_list}"
    return ""


def _date_part(failure: Failure, table: Any, name: object) -> str:
    """Return how to get a part of the dates of a table, as a sentence; empty if a missing column is
    not named after one, or if there is not exactly one column of dates."""
    if name not in _DATE_PARTS or not is_one_of(table, "pandas", "DataFrame"):
        return ""
    column_count = min(table.shape[1], _MAX_TEXT_COLUMNS)
    columns = [table.iloc[:, position] for position in range(column_count)]
    dates = [column.name for column in columns if type(column.name) is str and _has_dates(column)]
    if len(dates) != 1:
        return ""
    column_name = one_line(repr(dates[0]), 60)
    expression = f"{failure.find_name(table) or 'df'}[{column_name}]"
    return (
        f"there is no column {name!r}, but {column_name} has dates."
        f" Their {name}: pd.to_datetime({expression}).dt.{name}"
    )


def _has_dates(series: Any) -> bool:
    """Return whether a column contains dates, perhaps as texts that begin with a year."""
    if not is_own_type(series.dtype):
        return False
    if series.dtype.kind == "M":
        return True
    texts = _texts(series)
    return bool(texts) and all(map(_ISO_DATE.match, texts))


def _searched_labels(failure: Failure, value: Any, searched_index: Any) -> tuple[str, list[Any]]:
    """Return what was searched in an object, as a word and its labels; no labels if nothing was."""
    if type(value) is dict and not failure.library_frames:
        return "key", _labels(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
        if value.ndim == 1 or searched_index is value.index:
            word = "label"
            index = value.index
        else:
            word = "column"
            index = value.columns
        was_searched = searched_index is None or searched_index is index
        return word, _labels(index) if was_searched else []
    if is_one_of(value, "polars", "DataFrame"):
        return "column", _labels(value.columns)
    if is_one_of(value, "pyarrow", "Table"):
        return "column", _labels(value.column_names)
    return "column", []


def _missing_names(argument: Any) -> list[Any]:
    """Return the labels that an error's first argument reports as missing."""
    if type(argument) is not str:
        labels: Any = argument.tolist() if is_index(argument) else argument
        return _labels(labels if type(labels) is list else [labels])
    if argument.startswith("Column not found: "):
        return [argument.partition(": ")[2]]
    # Leave out what polars and pandas write after the missing labels.
    message = argument.partition("; valid columns")[0].partition("dtype=")[0]
    quoted = re.findall(r"""['"]([^'"]+)['"]""", message[max(0, message.find("['")) :])
    return quoted or [argument]


def _labels(labels: Iterable[object]) -> list[Any]:
    """Return the first labels, those that are plain values, so that comparing them runs no code."""
    return [label for label in islice(labels, _MAX_LABELS) if type(label) in _PLAIN_TYPES]


def _suggest(failure: Failure, name: object, names: Iterable[object]) -> str:
    """Return a sentence with similar names, unless Python's own message has one."""
    if failure.has_suggestion or type(name) is not str:
        return ""
    public_names = [other for other in names if type(other) is str and other[:1] != "_"]
    return did_you_mean(nearest(name, public_names))


def _list_labels(failure: Failure, word: str, value: object, labels: Iterable[object]) -> str:
    """List the labels of an object.

    Args:
        word: What they are, as "column".
    """
    name = failure.find_name(value)
    if name:
        title = f"{word.title()}s of {name}"
    else:
        title = f"{word.title()}s"
    label_names = (label if type(label) is str else repr(label) for label in labels)
    return f"{title}: {list_names(label_names)}"


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
    expression = _expression(failure, name) or failure.find_name(series) or f"df[{name!r}]"
    expression = one_line(expression, 60)
    subject = one_line(repr(name), 60) if name else "the Series"
    description = f"{subject} has dtype {series.dtype}"
    if texts and not looks_secret(name):
        description += f", for example {one_line(repr(texts[0]), 40)}"

    if "Can only use .str" in failure.message:
        return f"{description}. Convert it first: {expression}.astype(str)"
    if not texts:
        return ""
    if _DATE_WORDS.search(failure.message):
        return f"{description}. Convert it first: pd.to_datetime({expression})"
    if not any(char.isdecimal() for text in texts for char in text):
        advice = "Use a column of numbers, or count the values"
        return f"{description}: text, not numbers. {advice}: {expression}.value_counts()"
    # Units and separators would make all values NaN.
    if any(re.search(r"[^\d\s.eE+-]", text) for text in texts):
        expression += ".str.replace(r'[^0-9.-]', '', regex=True)"
    return f"{description}. Convert it first: pd.to_numeric({expression}, errors='coerce')"


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
    column_count = min(table.shape[1], _MAX_TEXT_COLUMNS)
    columns = [table.iloc[:, position] for position in range(column_count)]
    names = [column.name for column in columns if type(column.name) is str and _texts(column)]
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


def missing_attribute(failure: Failure) -> str:
    """Name similar attributes and columns, or what replaces a method."""
    match = re.search(r"'([\w.]+)' (?:object )?has no attribute '(\w+)'", failure.message)
    if match is None or not failure.is_a(AttributeError):
        return ""
    kind, name = match.groups()
    if kind == "NoneType":
        return (
            "the value is None. Functions that change an object in place"
            " (inplace=True, .sort(), .append()) return None: do not assign their result"
        )

    if name in _DATE_ATTRIBUTES and kind.rpartition(".")[2] in ("int", "int64"):
        return (
            "a whole number is not a date. idxmax() and idxmin() return the label of a row; the value"
            " of a column in it: df.loc[label, 'column']"
        )

    # From Python 3.10 on, the error has the object.
    object_of_error: Any = AttributeError.__dict__.get("obj")
    value = as_library_type(object_of_error.__get__(failure.error) if object_of_error else None)
    is_pandas = is_one_of(value, "pandas", "DataFrame", "Series")
    for library, replacements in _REPLACEMENTS.items():
        if name in replacements and is_one_of(value, library, "DataFrame", "Series"):
            return f"there is no .{name}: use {replacements[name]}"
    if is_pandas and value.ndim == 2 and has_own_indexes(value):
        columns = _labels(value.columns)
        similar = _suggest(failure, name, [*columns, *attributes(type(value))])
        column_list = _list_labels(failure, "column", value, columns)
        return f"there is no column or method {name!r}.{similar} {column_list}"
    if is_module(value):
        existing_names = own_dict(value)
    else:
        existing_names = attributes(value)
    similar = _suggest(failure, name, existing_names)
    if similar:
        return f"there is no {name!r} in {one_line(kind)}.{similar}"
    return ""


def undefined_name(failure: Failure) -> str:
    """Name the module to import, the user's tables, or similar names."""
    match = re.match(r"name '(\w+)' is not defined", failure.message)
    if match is None or failure.kind != "NameError":
        return ""
    name = match[1]
    if name in BARE_COMMANDS - _OFTEN_IMPORTED_MODULES:
        return f"%{name} is a magic command; in a cell of several lines, it needs the percent sign"
    if name in _OFTEN_IMPORTED_MODULES:
        python_says_it = "forget to import" in failure.traceback_text[-TRACEBACK_END_CHARS:]
        return "" if python_says_it else f"import {name}"
    module = _MODULES_BY_ALIAS.get(name, "")
    if module and importlib.machinery.PathFinder.find_spec(module.partition(".")[0]):
        return f"import {module} as {name}"
    if _TABLE_NAME.fullmatch(name) and (tables := failure.tables(name)):
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    if table := _table_with_column(failure, name):
        return f"there is no variable {name!r}, but a column of {table}: {table}[{name!r}]"
    similar = _suggest(failure, name, (*failure.names, *builtins.__dict__))
    if similar:
        return f"there is no variable {name!r}.{similar}"
    return ""


def _table_with_column(failure: Failure, column: str) -> str:
    """Return the user's name of the newest table that has a column; empty if none has it."""
    for name, candidate in reversed(failure.names.items()):
        value = as_library_type(candidate)
        if not is_one_of(value, "pandas", "DataFrame") or not has_own_indexes(value):
            continue
        if type(name) is str and name[:1] != "_" and column in _labels(value.columns):
            return name
    return ""


def wrong_arguments(failure: Failure) -> str:
    """Name the parameters of the function that was called with wrong arguments."""
    match = re.match(r"(?:[\w.<>]+\.)?(\w+)\(\) (?:got|missing|takes) ", failure.message)
    if match is None or not failure.is_a(TypeError):
        return ""
    for node in failure.expressions:
        if not isinstance(node, ast.Call):
            continue
        value = failure.evaluate(node.func)
        if value is MISSING:
            continue
        function, bound_count = function_of(value)
        if function and function.__name__ == match[1]:
            names = ", ".join(
                parameter.text for parameter in parameters(function, bound_count, annotated=False)
            )
            return f"it is called as {ast.unparse(node.func)}({names})"
    return ""


def missing_file(failure: Failure) -> str:
    """Name similar files, or those in the folder, and tables that are loaded already."""
    if not failure.is_a(FileNotFoundError):
        return ""
    path = OSError.__dict__["filename"].__get__(failure.error)
    library_frames = failure.library_frames
    last_file = ""
    if library_frames:
        last_file = library_frames[-1].frame.f_code.co_filename
    # subprocess raises the same error for a command that does not exist.
    if type(path) is not str or not path or last_file.endswith("subprocess.py"):
        return ""

    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        hint = f"there is no folder {one_line(folder, 80)!r}."
        folder = ""
    else:
        hint = f"there is no file {one_line(name, 80)!r}."
    tables = failure.tables(PurePath(name).stem)
    if len(tables) == 1:
        hint += f" The table is loaded already: {tables[0]}. Use it."
    elif tables:
        hint += f" These tables are loaded already: {', '.join(tables)}. Use one of them."

    with os.scandir(folder or ".") as entries:
        files = sorted(
            entry.name
            for entry in islice(entries, _MAX_LISTED_FILES)
            if entry.name[:1] != "." and entry.is_file()
        )
    if suggestion := did_you_mean(nearest(name, files)):
        return hint + suggestion
    location = f"in {one_line(folder, 80)!r}" if folder else "here"
    return f"{hint} Files {location}: {list_names(files, 150) or 'none'}"


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    missing_label,
    wrong_dtype,
    ambiguous_truth,
    missing_attribute,
    undefined_name,
    wrong_arguments,
)
