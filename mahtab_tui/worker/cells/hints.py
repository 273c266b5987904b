"""Writes the line after an error that names what helps to fix it, without running user code.

`hint_for` asks one function after another, each of which knows a kind of error; those about tables are
in `table_hints`.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import re
from itertools import islice
from pathlib import PurePath
from typing import Any, Callable

from ..completion.signatures import function_of, parameters
from ..magic.syntax import BARE_COMMANDS
from ..values.objects import (
    MISSING,
    as_library_type,
    attributes,
    get_if_loaded,
    has_own_indexes,
    is_module,
    is_one_of,
    own_dict,
    run_with_timeout,
)
from ..values.summaries import one_line
from .failure import TRACEBACK_END_CHARS, Failure
from .suggestions import did_you_mean, list_names, nearest
from .table_hints import (
    DATE_PARTS,
    ambiguous_truth,
    list_labels,
    missing_label,
    plain_labels,
    suggest,
    table_with_column,
    wrong_dtype,
)

HINT_TIMEOUT_S = 1.0
MAX_HINT_CHARS = 600
_MAX_LISTED_FILES = 1_000
_DATE_ATTRIBUTES = frozenset(("date", "dt", "isoformat", "strftime")) | DATE_PARTS
"""Attributes of dates that code may expect of a row's label."""
_SINGLE_VALUE_TYPES = frozenset(
    (
        *("bool", "bool_", "float", "float32", "float64", "int", "int32", "int64", "str"),
        *("date", "datetime", "Timedelta", "Timestamp"),
    )
)
"""Types of single values that code takes out of columns."""
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
"""Usual short names of modules."""
_OFTEN_IMPORTED_MODULES = frozenset(
    "csv glob io json math os random re statistics sys time".split()
)
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|\w+_df|df_\w+")
"""A name that code usually gives a table."""


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


def missing_attribute(failure: Failure) -> str:
    """Name similar attributes and columns, or what replaces a method."""
    match = re.search(
        r"(type object |module )?'([\w.]+)' (?:object )?has no attribute '(\w+)'", failure.message
    )
    if match is None or not failure.is_a(AttributeError):
        return ""
    is_no_instance, kind, name = match.groups()
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

    if not is_no_instance and (text := _column_attribute(kind, name)):
        return text

    value = _object_of(failure)
    for library, replacements in _REPLACEMENTS.items():
        if name in replacements and is_one_of(value, library, "DataFrame", "Series"):
            return f"there is no .{name}: use {replacements[name]}"
    if is_one_of(value, "pandas", "DataFrame") and has_own_indexes(value):
        columns = plain_labels(value.columns)
        suggestion = suggest(failure, name, [*columns, *attributes(type(value))])
        column_list = list_labels(failure, "column", value, columns)
        return f"there is no column or method {name!r}.{suggestion} {column_list}"
    existing_names = own_dict(value) if is_module(value) else attributes(value)
    if suggestion := suggest(failure, name, existing_names):
        return f"there is no {name!r} in {one_line(kind)}.{suggestion}"
    return ""


def _column_attribute(kind: str, name: str) -> str:
    """Say that a single value lacks what a column of pandas has; empty if it is about something else.

    Args:
        kind: The type of the value, as an error names it.
        name: The attribute that it lacks.
    """
    column_class = get_if_loaded("pandas", "Series")
    if kind.rpartition(".")[2] not in _SINGLE_VALUE_TYPES or column_class is MISSING:
        return ""
    is_of_containers = any(name in attributes(container) for container in (dict, list, set, str))
    if name not in attributes(column_class) or is_of_containers:
        return ""
    if name in ("dt", "str"):
        return f"the value is one {kind}, not a column: leave out .{name}"
    return (
        f"the value is one {kind}, not a column with .{name}."
        " A column with a value for each group: df.groupby('group')['column'].mean()"
    )


def _object_of(failure: Failure) -> Any:
    """Return the object without the attribute; None before Python 3.10, where errors do not have it."""
    object_of_error: Any = AttributeError.__dict__.get("obj")
    if object_of_error is None:
        return None
    return as_library_type(object_of_error.__get__(failure.error))


def undefined_name(failure: Failure) -> str:
    """Name the module to import, the user's tables, or similar names."""
    match = re.match(r"name '(\w+)' is not defined", failure.message)
    if match is None or failure.kind != "NameError":
        return ""
    name = match[1]
    if name in BARE_COMMANDS - _OFTEN_IMPORTED_MODULES:
        return f"%{name} is a magic command; in a cell of several lines, it needs the percent sign"
    if name in _OFTEN_IMPORTED_MODULES:
        # Newer versions of Python say so themselves.
        python_says_it = "forget to import" in failure.traceback_text[-TRACEBACK_END_CHARS:]
        return "" if python_says_it else f"import {name}"
    module = _MODULES_BY_ALIAS.get(name, "")
    if module and importlib.machinery.PathFinder.find_spec(module.partition(".")[0]):
        return f"import {module} as {name}"
    if _TABLE_NAME.fullmatch(name) and (tables := failure.tables(name)):
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    if table := table_with_column(failure, name):
        return f"there is no variable {name!r}, but a column of {table}: {table}[{name!r}]"
    if suggestion := suggest(failure, name, (*failure.names, *builtins.__dict__)):
        return f"there is no variable {name!r}.{suggestion}"
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
            called_parameters = parameters(function, bound_count, annotated=False)
            names = ", ".join(parameter.text for parameter in called_parameters)
            return f"it is called as {ast.unparse(node.func)}({names})"
    return ""


def missing_file(failure: Failure) -> str:
    """Name similar files, or those in the folder, and tables that are loaded already."""
    path = _missing_path(failure)
    if not path:
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

    file_names = _list_files(folder or ".")
    if suggestion := did_you_mean(nearest(name, file_names)):
        return hint + suggestion
    location = f"in {one_line(folder, 80)!r}" if folder else "here"
    return f"{hint} Files {location}: {list_names(file_names, 150) or 'none'}"


def _missing_path(failure: Failure) -> str:
    """Return the path of a file that does not exist; empty if the error is another one."""
    if not failure.is_a(FileNotFoundError):
        return ""
    # subprocess raises the same error for a command that does not exist.
    library_frames = failure.library_frames
    if library_frames:
        code_file = library_frames[-1].frame.f_code.co_filename
        if code_file.endswith("subprocess.py"):
            return ""
    path = OSError.__dict__["filename"].__get__(failure.error)
    return path if type(path) is str else ""


def _list_files(folder: str) -> list[str]:
    """Return the names of the first files in a folder, in order, without hidden ones."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in islice(entries, _MAX_LISTED_FILES)
            if entry.name[:1] != "." and entry.is_file()
        )


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    missing_label,
    wrong_dtype,
    ambiguous_truth,
    missing_attribute,
    undefined_name,
    wrong_arguments,
)
"""What writes a hint, or an empty text if the error is of another kind. The first hint counts."""
