"""Writes the line after an error that names what helps to fix it.

No code of the user's classes runs. Hints show names that the failing line could use, and at most
one value of its column.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePath
from types import FunctionType
from typing import Any, Callable

from .completion.signatures import format_signature, function_of, parameters
from .failure import Failure, did_you_mean, frame_locals, list_names, nearest
from .objects import (
    MISSING,
    as_library_type,
    attributes,
    find_in_class,
    get_if_loaded,
    has_own_indexes,
    is_index,
    is_module,
    is_one_of,
    is_own_type,
    own_dict,
    run_with_timeout,
    unwrap,
)
from .tracebacks import library_name
from .variables import looks_secret, one_line, type_name

_MOST = 2_000
"""Maximum number of an axis's labels to read."""
_PLAIN = (str, int, float, bool)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NOT_FOUND = re.compile(
    r"not in index|not found|are in the (?:\[|columns)|do not exist|does not exist in schema|not present in|labels are not columns"
    r"|unable to find column|[Mm]issing column|Could not interpret value"
)
"""Occurs in messages that name the missing thing; other messages of a `KeyError` are just the
key."""
_NO_COLUMN = re.compile(
    r"^Usecols do not match columns|^Missing column provided to|^Could not interpret value `"
)
"""Starts messages of a `ValueError` about a missing column."""
_SHOWN = 40
"""Maximum characters of a value."""

_TEXT_AS_NUMBERS = re.compile(
    r"could not convert string to float|invalid literal for int|Unable to parse string|to numeric|agg function failed|does not support operation"
    r"|Cannot perform reduction|can only concatenate str|unsupported operand type|not supported between instances|Invalid comparison between"
    r"|operation '\w+' not supported|ufunc .* not supported|must be str, not|conversion from `str` to|cannot compare string"
)
_MOMENTS = re.compile(r"datetime|Timestamp|timedelta|\bdate\b")
_POLARS_DATES = re.compile(
    r"`(?:year|month|day|hour|minute|second|weekday|week|quarter|date|strftime|truncate)` operation not supported for dtype `str`"
)


def missing_label(failed: Failure) -> str:
    """List the existing columns, row labels or keys."""
    is_about_columns = failed.kind in (
        "ColumnNotFoundError",
        "UndefinedVariableError",
    ) or _NO_COLUMN.search(failed.message)
    names = _missing(failed) if is_about_columns or failed.is_a(KeyError) else []
    if not names:
        return ""
    if (columns := _columns_of_file(failed)) is not None:
        return _no_column(names, columns, "the file")
    index: Any = None
    for found in failed.objects():
        value = as_library_type(found)
        if not failed.inside:  # raised by the user's line itself
            if type(value) is dict and (
                absent := [name for name in names if name not in _labels(value)]
            ):
                return _no_key(absent, _labels(value), failed.find_name(found))
        elif index is None and is_index(value):
            index = value
        elif is_one_of(value, "pandas", "DataFrame", "Series"):
            if has_own_indexes(value) and (text := _in_pandas(failed, value, found, index, names)):
                return text
        elif is_one_of(value, "polars", "DataFrame") or is_one_of(value, "pyarrow", "Table"):
            columns = list(
                value.columns if is_one_of(value, "polars", "DataFrame") else value.column_names
            )
            if not failed.suggests and (absent := [name for name in names if name not in columns]):
                return _no_column(absent, columns, failed.find_name(found))
    return ""


def _no_key(names: list[Any], keys: list[Any], variable: str) -> str:
    of_what = f" of {variable}" if variable else ""
    return f"there is no key {_quoted(names)}.{_near(names, keys)} Keys{of_what}: {list_names(map(_text, keys))}"


def _missing(failed: Failure) -> list[Any]:
    """Return the names that were not found."""
    argument = failed.argument
    if type(argument) is not str:
        found = (
            argument.tolist()
            if is_index(argument)
            else argument
            if type(argument) is list
            else [argument]
        )
        return [label for label in found[:_MOST] if _is_plain(label)]
    if not _NOT_FOUND.search(argument):
        undefined = re.match(r"name '(.+)' is not defined$", argument)
        return [undefined[1] if undefined else argument]
    if column := re.match(r"Columns? not found: (.+)", argument):
        return [name.strip().strip("'") for name in column[1].split(",")]
    if interpreted := re.match(r"Could not interpret value `([^`]+)`", argument):
        return [interpreted[1]]
    message = (
        argument.partition("; valid columns")[0]
        .partition("dtype=")[0]
        .removeprefix("Missing column provided to 'parse_dates'")
    )
    message = message[message.find("[") :] if "['" in message or '["' in message else message
    return [single or double for single, double in _QUOTED.findall(message[:_MOST])]


def _is_plain(label: object) -> bool:
    return type(label) in _PLAIN or (
        type(label) is tuple and all(type(part) in _PLAIN for part in label)
    )


def _labels(labels: Any) -> list[Any]:
    """Return the labels of an index, or the keys of a dict, that are plain values."""
    return [label for label in islice(labels, _MOST) if _is_plain(label)]


def _columns_of_file(failed: Failure) -> list[Any] | None:
    """Return the columns of a file that pandas was reading."""
    if failed.message.startswith(("Usecols", "Missing column")) and failed.inside:
        variables = frame_locals(failed.inside[-1].frame)
        found = variables.get("names", variables.get("columns"))
        return _labels(found) if type(found) is list or is_index(found) else None
    return None


def _in_pandas(failed: Failure, value: Any, original: object, index: Any, names: list[Any]) -> str:
    """Describe what is missing in a DataFrame or Series. index: the index that was searched, if
    known."""
    name = failed.find_name(original)
    columns = _labels(value.columns) if value.ndim == 2 else []
    if value.ndim == 2 and (index is None or index is value.columns):
        absent = [label for label in names if label not in columns]
        if absent and absent[0] in _labels(value.index.names):
            return f"{_quoted(absent[:1])} is the index of {name or 'the table'}, not a column. {name or 'df'}.reset_index() makes it a column"
        return _no_column(absent, columns, name) if absent else ""
    labels = _labels(value.index)
    absent = [label for label in names if label not in labels]
    if not absent or (index is not None and index is not value.index):
        return ""
    if absent[0] in columns:
        return f"{_quoted(absent[:1])} is a column, not a row label: {name or 'df'}[{absent[0]!r}]"
    what = "row label" if value.ndim == 2 else "label"
    more = (
        " To choose rows by the value of a column: df[df['column'] == value]"
        if value.ndim == 2
        else ""
    )
    of_what = f" of {name}" if name else ""
    room = 120 if more else 300
    return f"there is no {what} {_quoted(absent)}.{_near(absent, labels)} Labels{of_what}: {list_names(map(_text, labels), room)}.{more}"


def _no_column(names: list[Any], columns: Sequence[Any], table: str) -> str:
    """Return the hint for missing columns. table: a name; empty if it has none."""
    what = "is no column" if len(names) == 1 else "are no columns"
    of_what = f" of {table}" if table else ""
    return f"there {what} {_quoted(names)}.{_near(names, columns)} Columns{of_what}: {list_names(map(_text, columns))}"


def _quoted(names: list[Any]) -> str:
    return ", ".join(one_line(repr(name), 60) for name in names[:3]) + (
        ", …" if len(names) > 3 else ""
    )


def _text(label: object) -> str:
    return label if type(label) is str else repr(label)


def _near(names: list[Any], known: Sequence[Any]) -> str:
    texts = [label for label in known if type(label) is str]
    found = [
        near
        for name in names[:3]
        if type(name) is str
        for near in nearest(name, texts)[: 3 if len(names) == 1 else 1]
    ]
    return did_you_mean(dict.fromkeys(found))


def wrong_dtype(failed: Failure) -> str:
    """Name the dtype of the column in question, and how to convert it."""
    message = failed.message
    if "Can only use .dt accessor" in message:
        return _accessor(failed, "pd.to_datetime({})")
    if "Can only use .str accessor" in message:
        return _accessor(failed, "{}.astype(str)")
    if _POLARS_DATES.search(message):
        column = re.search(r'col\("([^"]+)"\)', message)
        return f"the column holds text. Convert it first: pl.col({column[1] if column else 'name'!r}).str.to_datetime()"
    if not _TEXT_AS_NUMBERS.search(message):
        return ""
    if failed.kind in ("InvalidOperationError", "ComputeError"):
        column = re.search(r"in column '([^']+)'", message)
        return f"to convert text: pl.col({column[1] if column else 'name'!r}).cast(pl.Float64, strict=False), which gives null where it is no number"
    for value in failed.library_values("pandas", "Series", "DataFrame"):
        if has_own_indexes(value) and (
            text := _text_table(failed, value) if value.ndim == 2 else _text_column(failed, value)
        ):
            return text
    return "" if failed.inside else _plain_text(message)


def _accessor(failed: Failure, conversion: str) -> str:
    for series in failed.library_values("pandas", "Series"):
        if has_own_indexes(series) and is_own_type(series.dtype):
            return f"{_described(series)}. Convert it first: {conversion.format(_expression(failed, series))}"
    return ""


def _described(series: Any) -> str:
    """Describe a column: name, dtype and a value."""
    name = one_line(series.name, 60) if type(series.name) is str else ""
    values = [value for value in series.iloc[:20].tolist() if _is_plain(value) and value == value]
    example = (
        f", for example {one_line(repr(values[0]), _SHOWN)}"
        if values and not looks_secret(name)
        else ""
    )
    return f"{repr(name) if name else 'the Series'} has dtype {series.dtype}{example}"


def _expression(failed: Failure, series: Any) -> str:
    """Return how the user's line refers to a column."""
    if type(series.name) is not str:
        return failed.find_name(series) or "it"
    for node in failed.expressions:
        key = node.slice if isinstance(node, ast.Subscript) else None
        written = (
            key.value
            if isinstance(key, ast.Constant)
            else node.attr
            if isinstance(node, ast.Attribute)
            else None
        )
        if written == series.name:
            return one_line(ast.unparse(node), 60)
    return failed.find_name(series) or one_line(f"df[{series.name!r}]", 60)


def _text_column(failed: Failure, series: Any) -> str:
    """Return the hint for a column that contains text where numbers or dates are needed; empty for
    other columns."""
    texts = list(_texts(series))
    if not texts:
        return ""
    expression, described = _expression(failed, series), _described(series)
    if _MOMENTS.search(failed.message):
        return f"{described}. Convert it first: pd.to_datetime({expression})"
    if not any(char.isdecimal() for text in texts for char in text):
        return f"{described}: text, not numbers. Use a column of numbers, or count the values: {expression}.value_counts()"
    if any(re.search(r"[^\d\s.eE+-]", text) for text in texts):
        expression += ".str.replace(r'[^0-9.-]', '', regex=True)"
    return f"{described}. Convert it first: pd.to_numeric({expression}, errors='coerce')"


def _texts(series: Any) -> Iterator[str]:
    """Yield the first texts of a column."""
    if is_own_type(series.dtype) and series.dtype.kind not in "bifcmM":
        yield from (value for value in series.iloc[:20].tolist() if type(value) is str)


def _text_table(failed: Failure, table: Any) -> str:
    columns = [table.iloc[:, index] for index in range(min(table.shape[1], 200))]
    names = [column.name for column in columns if type(column.name) is str and any(_texts(column))]
    if not names:
        return ""
    encode = ", or encode them: pd.get_dummies(df)" if "could not convert" in failed.message else ""
    return f"columns with text: {list_names(names, 200)}. Leave them out: numeric_only=True, or df.select_dtypes('number'){encode}"


def _plain_text(message: str) -> str:
    """Return the hint for text and numbers without a table."""
    value = re.match(
        r"(?:could not convert string to float|invalid literal for int\(\) with base 10): '(.*)'$",
        message,
        re.DOTALL,
    )
    if value and re.fullmatch(r"\s*[+-]?\d+\.\d*\s*", value[1]):
        return "a text with decimals: int(float(text))"
    if value and any(char.isdecimal() for char in value[1]):
        return "keep the number only: float(re.sub(r'[^0-9.-]', '', text))"
    if "can only concatenate str" in message or "must be str, not" in message:
        return "to join text and a number: f'{text}{number}', or str(number); to add them: float(text) + number"
    return ""


def ambiguous_truth(failed: Failure) -> str:
    """Explain how to combine conditions on columns."""
    if "truth value of a" not in failed.message:
        return ""
    return (
        "combine conditions with & | ~ instead of and, or, not, each in parentheses: df[(df['a'] > 1) & (df['b'] < 5)]. "
        "Whether any or all values are true: .any(), .all()"
    )


def unaligned(failed: Failure) -> str:
    """Explain how to compare columns or tables with different labels."""
    if "Can only compare identically-labeled" not in failed.message:
        return ""
    lengths = [
        len(value)
        for value in failed.library_values("pandas", "Series", "DataFrame")
        if has_own_indexes(value)
    ][:2]
    differ = (
        f"the lengths are {lengths[0]:,} and {lengths[1]:,}"
        if len(set(lengths)) == 2
        else "the labels or their order differ"
    )
    return f"{differ}. Same values at all: a.equals(b). By position, if as long: a.reset_index(drop=True) == b.reset_index(drop=True)"


def table_attribute(failed: Failure, value: Any, name: str) -> str:
    """Return the hint for a missing attribute of a table or array; empty for other objects."""
    pandas, polars = (
        is_one_of(value, "pandas", "DataFrame", "Series"),
        is_one_of(value, "polars", "DataFrame", "Series"),
    )
    if not pandas and not polars:
        return ""
    kind = type_name(value)
    if moved := (_NOW if pandas else _IN_POLARS).get(name):
        return f"{'pandas' if pandas else 'polars'} has no .{name} for a {kind}: use {moved}"
    if kind != "DataFrame" or (pandas and not has_own_indexes(value)):
        return ""
    columns = _labels(value.columns)
    near = (
        ""
        if failed.suggests
        else did_you_mean(
            nearest(name, [*(each for each in columns if type(each) is str), *_methods(value)])
        )
    )
    table = failed.find_name(value)
    of_what = f" of {table}" if table else ""
    return f"there is no column or method {name!r}.{near} Columns{of_what}: {list_names(map(_text, columns))}"


def _methods(value: Any) -> list[str]:
    return [name for name in attributes(type(value)) if name[:1] != "_"]


_NOW = {
    "append": "pd.concat([a, b])",
    "applymap": ".map(function)",
    "as_matrix": ".to_numpy()",
    "get_value": ".at[row, column]",
    "iteritems": ".items()",
    "ix": ".loc (labels) or .iloc (positions)",
    "mad": "(x - x.mean()).abs().mean()",
    "sort": ".sort_values(by)",
    "with_columns": ".assign(name=…)",
    "group_by": ".groupby(by)",
}
"""Replacements in pandas for attributes of older versions or of polars."""

_IN_POLARS = {
    "apply": ".map_elements(function), or an expression",
    "assign": ".with_columns(name=…)",
    "astype": ".cast(dtype)",
    "dropna": ".drop_nulls()",
    "fillna": ".fill_null(value)",
    "groupby": ".group_by(by)",
    "iloc": "df[rows] or .slice(offset, length)",
    "info": ".schema or .glimpse()",
    "isna": ".is_null(), .null_count()",
    "isnull": ".is_null(), .null_count()",
    "loc": ".filter(pl.col(name) == value)",
    "merge": ".join(other, on=…)",
    "nunique": ".n_unique()",
    "query": ".filter(pl.col(name) > value)",
    "reset_index": "the table as it is; polars has no index",
    "sort_values": ".sort(by)",
    "to_csv": ".write_csv(file)",
    "with_column": ".with_columns(…)",
}
"""Replacements in polars for attributes of pandas."""


SECONDS = 1.0
"""Time limit of a hint."""
LONGEST = 600
"""Characters of a hint."""
_FILES, _ENTRIES = 10, 1_000
"""Maximum number of files to name, and of a folder's entries to read."""

_ATTRIBUTE = re.compile(
    r"(?:partially initialized )?(?:type object |module )?'(?P<type>[\w.]+)' (?:object )?has no attribute '(?P<name>\w+)'"
)
_CALL = re.compile(
    r"(?P<function>[\w.<>]+)\(\) (?:got an unexpected keyword argument '(?P<name>\w+)'|missing \d+ required|takes .*but \d+ \w+ given"
    r"|got multiple values for|got some positional-only)"
)
_BUILTIN_CALL = re.compile(
    r"'(?P<name>\w+)' is an invalid keyword argument for (?P<function>\w+)\(\)"
)
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|frame|\w+_df|df_\w+", re.IGNORECASE)

_TABLES = (
    ("pandas", "DataFrame", "Series"),
    ("pandas.api.typing", "DataFrameGroupBy", "SeriesGroupBy"),
    ("polars", "DataFrame", "LazyFrame", "Series", "Expr"),
)
"""Modules, and their classes whose methods are recognised."""

_IMPORTS = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "pl": "import polars as pl",
    "pa": "import pyarrow as pa",
    "plt": "import matplotlib.pyplot as plt",
    "mpl": "import matplotlib as mpl",
    "sns": "import seaborn as sns",
    "px": "import plotly.express as px",
    "go": "import plotly.graph_objects as go",
    "alt": "import altair as alt",
    "sm": "import statsmodels.api as sm",
    "smf": "import statsmodels.formula.api as smf",
    "stats": "from scipy import stats",
    "sp": "import scipy as sp",
    "nx": "import networkx as nx",
    "tf": "import tensorflow as tf",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "BeautifulSoup": "from bs4 import BeautifulSoup",
    "train_test_split": "from sklearn.model_selection import train_test_split",
    "LinearRegression": "from sklearn.linear_model import LinearRegression",
    "LogisticRegression": "from sklearn.linear_model import LogisticRegression",
    "StandardScaler": "from sklearn.preprocessing import StandardScaler",
    "Path": "from pathlib import Path",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
    "dataclass": "from dataclasses import dataclass",
    "timedelta": "from datetime import timedelta",
    "datetime": "from datetime import datetime",
    "date": "from datetime import date",
    "reduce": "from functools import reduce",
    "partial": "from functools import partial",
    "sqrt": "from math import sqrt",
    "pprint": "from pprint import pprint",
    "Decimal": "from decimal import Decimal",
}
"""Imports for commonly used names."""
_MODULES = frozenset(
    "abc argparse ast asyncio base64 bisect calendar collections contextlib copy csv decimal difflib fractions functools glob gzip hashlib heapq html"
    " inspect io itertools json math operator os pathlib pickle platform pprint random re shutil sqlite3 statistics string subprocess sys tempfile"
    " textwrap threading time traceback typing urllib uuid warnings zipfile numpy pandas polars pyarrow matplotlib seaborn plotly scipy sklearn"
    " statsmodels torch requests duckdb networkx sympy tqdm".split()
)
"""Modules that are used under their own name."""


def hint_for(error: BaseException, shown: str) -> str:
    """Return a line that helps to fix an error; empty if there is none. shown: the text of its
    traceback."""
    try:
        text = run_with_timeout(SECONDS, lambda: _hint(error, shown))
    except BaseException:
        # An interrupt, or anything raised by a library's object; the error itself matters more.
        return ""
    return one_line(f"Hint: {text}", LONGEST) if text else ""


def _hint(error: BaseException, shown: str) -> str:
    failed = Failure(error, shown)
    return next((text for make in _HINTS if (text := make(failed))), "")


def missing_attribute(failed: Failure) -> str:
    """Name attributes similar to a missing one."""
    found = _ATTRIBUTE.match(failed.message) if failed.is_a(AttributeError) else None
    if found is None:
        return ""
    name = found["name"]
    node = next(
        (
            each
            for each in failed.expressions
            if isinstance(each, ast.Attribute) and each.attr == name
        ),
        None,
    )
    if found["type"] == "NoneType":
        what = (
            f"{one_line(ast.unparse(node.value), 60)} is None here"
            if node is not None
            else "the value is None here"
        )
        return f"{what}. Functions that change an object in place (inplace=True, .sort(), .append()) return None: do not assign their result"
    value = _owner(failed, found["type"], node)
    if value is MISSING:
        return ""
    value = as_library_type(value)
    if text := table_attribute(failed, value, name):
        return text
    series = get_if_loaded("pandas", "Series")
    if (
        type_name(value) in ("list", "tuple", "dict", "ndarray")
        and series is not MISSING
        and find_in_class(series, name) is not MISSING
    ):
        what = "DataFrame" if type(value) is dict else "Series"
        return f"a {type_name(value)} has no .{name}, a pandas {what} has: pd.{what}({'values' if node is None else one_line(ast.unparse(node.value), 60)}).{name}"
    names = own_dict(value) if is_module(value) else attributes(value)
    near = (
        ""
        if failed.suggests
        else did_you_mean(
            nearest(name, [each for each in names if type(each) is str and each[:1] != "_"])
        )
    )
    return f"there is no {name!r} in {one_line(found['type'], 60)}.{near}" if near else ""


def _owner(failed: Failure, kind: str, node: ast.Attribute | None) -> Any:
    """Return the object that lacks an attribute."""
    if sys.version_info >= (3, 10):
        value = AttributeError.__dict__["obj"].__get__(failed.error)
        if value is not None:
            return value
    for value in failed.objects():
        if type_name(value) == kind:
            return value
    return MISSING if node is None else failed.evaluate(node.value)


def undefined_name(failed: Failure) -> str:
    """Name the forgotten import, the tables, or the variables with similar names."""
    found = (
        re.match(r"name '(\w+)' is not defined", failed.message)
        if failed.kind == "NameError"
        else None
    )
    if found is None:
        return ""
    name = found[1]
    line = _IMPORTS.get(name) or (f"import {name}" if name in _MODULES else "")
    if line and _is_installed(line.split()[1].partition(".")[0]):
        return "" if "forget to import" in failed.shown[-1_000:] else line
    tables = failed.tables(name) if _TABLE_NAME.fullmatch(name) else []
    if tables:
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    known = [
        each
        for each in (*failed.names, *builtins.__dict__)
        if type(each) is str and each[:1] != "_"
    ]
    near = "" if failed.suggests else did_you_mean(nearest(name, known))
    return f"there is no variable {name!r}.{near}" if near else ""


def _is_installed(module: str) -> bool:
    return module in sys.modules or importlib.machinery.PathFinder.find_spec(module) is not None


def wrong_arguments(failed: Failure) -> str:
    """Name the parameters of the called function."""
    found = _CALL.match(failed.message) or _BUILTIN_CALL.match(failed.message)
    if found is None or not failed.is_a(TypeError):
        return ""
    qualified = found["function"]
    owner, _, name = qualified.rpartition(".")
    called = owner.rpartition(".")[2] if name in ("__init__", "__new__") else name
    written = _find_called(failed, qualified, called)
    if not written:
        return ""
    wrong = found.groupdict().get("name")
    names = re.findall(r"[(,] ?\*{0,2}(\w+)", written)
    near = did_you_mean(nearest(wrong, names)) if wrong and not failed.suggests else ""
    return f"it is called as {_cut(written)}.{near}"


def _find_called(failed: Failure, qualified: str, name: str) -> str:
    """Return the function with a name that the user's line calls, with its parameters; empty if
    unknown."""
    for node in failed.expressions:
        if not isinstance(node, ast.Call) or name != getattr(
            node.func, "attr", getattr(node.func, "id", "")
        ):
            continue
        value = failed.evaluate(node.func)
        function, bound = (
            function_of(value) if value is not MISSING else (_method(qualified, name), 1)
        )
        if function is not None:
            return _format_signature(function, bound, name)
        signature = format_signature(value, name)
        if signature.startswith(f"{name}(") and "…" not in signature:
            return " ".join(signature.split())
    return ""


def _method(qualified: str, name: str) -> FunctionType | None:
    """Return a table's method with a name; before Python 3.10, errors do not tell its class."""
    for module, *classes in _TABLES:
        for kind in classes:
            cls = get_if_loaded(module, kind)
            function = unwrap(MISSING if cls is MISSING else find_in_class(cls, name))
            if function is not None and qualified in (function.__qualname__, name):
                return function
    return None


def _format_signature(function: FunctionType, bound: int, name: str) -> str:
    """Return a function's name with its parameters and defaults, without annotations."""
    texts = []
    for each in parameters(function, bound):
        _, equals, default = each.text.partition(
            " = " if each.text.startswith(f"{each.name}: ") else "="
        )
        stars = "*" * (len(each.text) - len(each.text.lstrip("*")))
        texts.append(
            each.text
            if each.name in "/*"
            else f"{stars}{each.name}{'=' if equals else ''}{default}"
        )
    return f"{name}({', '.join(texts)})"


def _cut(signature: str) -> str:
    return signature if len(signature) <= 400 else f"{signature[:400].rpartition(', ')[0]}, …)"


def missing_file(failed: Failure) -> str:
    """Name the tables that are already loaded, and the existing files."""
    path = _path(failed) if failed.is_a(FileNotFoundError) else ""
    if not path:
        return ""
    folder, name = os.path.split(path)
    gone = folder != "" and not os.path.isdir(folder)
    files = _files("." if gone or not folder else folder)
    where = f"in {one_line(folder, 80)!r}" if folder else "here"
    text = (
        f"there is no folder {one_line(folder, 80)!r}."
        if gone
        else f"no file {one_line(name, 80)!r} {where}."
    )
    where = "here" if gone else where
    tables = failed.tables(PurePath(name).stem)
    if tables:
        one = len(tables) == 1
        text += f" {'The table is' if one else 'These tables are'} loaded already: {', '.join(tables)}. Use {'it' if one else 'one of them'}."
    if near := nearest(name, files):
        return text + did_you_mean(near)
    if files:
        return f"{text} Files {where}: {list_names(files[:_FILES], 150)}" + ", …" * (
            len(files) > _FILES
        )
    return text if tables else f"{text} There are no files {where}."


def _path(failed: Failure) -> str:
    """Return the path of a file that was not found; empty if unknown, or if it is a program."""
    if (
        failed.inside
        and library_name(failed.inside[-1].frame.f_code.co_filename, "") == "subprocess"
    ):
        return ""
    name = OSError.__dict__["filename"].__get__(failed.error)
    if type(name) in (str, bytes):
        return os.fsdecode(name)
    if is_one_of(name, "pathlib", "PosixPath", "WindowsPath"):
        return str(name)
    found = re.match(r"No such file or directory \(os error 2\):? ?(.+)", failed.message)
    return found[1] if found else ""


def _files(folder: str) -> list[str]:
    """Return the names of a folder's files, except hidden ones."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in islice(entries, _ENTRIES)
            if entry.name[:1] != "." and entry.is_file()
        )


def broken_pool(failed: Failure) -> str:
    """Explain why a process pool has lost a process."""
    process: Any = sys.modules.get("concurrent.futures.process")
    if process is None or not failed.is_a(process.BrokenProcessPool):
        return ""
    return "a process of the pool has ended. Its own error is printed above; if none is, it crashed, was killed for lack of memory, or exited"


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    missing_label,
    wrong_dtype,
    ambiguous_truth,
    unaligned,
    missing_attribute,
    undefined_name,
    wrong_arguments,
    broken_pool,
)
"""The first one that returns a text provides the hint."""
