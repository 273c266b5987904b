"""Hints for errors of tables: missing columns and labels, text that is used as numbers,
comparisons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from .failure import Failure, did_you_mean, listed, locals_of_frame, nearest
from .library_types import as_library_type, has_own_indexes, is_index, is_own_type
from .secret_names import looks_secret
from .statics import attributes, is_one_of
from .summary import one_line, type_name

_MOST = 2_000
"""Labels of an axis that are read."""
_PLAIN = (str, int, float, bool)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NOT_FOUND = re.compile(
    r"not in index|not found|are in the (?:\[|columns)|do not exist|does not exist in schema|not present in|labels are not columns"
    r"|unable to find column|[Mm]issing column|Could not interpret value"
)
"""Occurs in messages that name what is missing; other messages of a `KeyError` are the key."""
_NO_COLUMN = re.compile(
    r"^Usecols do not match columns|^Missing column provided to|^Could not interpret value `"
)
"""Begins messages of a `ValueError` about a missing column."""
_SHOWN = 40
"""Characters of a value."""

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
    """Name the columns, row labels or keys that are there."""
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
                return _no_key(absent, _labels(value), failed.name_of(found))
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
                return _no_column(absent, columns, failed.name_of(found))
    return ""


def _no_key(names: list[Any], keys: list[Any], variable: str) -> str:
    place = f" of {variable}" if variable else ""
    return f"there is no key {_quoted(names)}.{_near(names, keys)} Keys{place}: {listed(map(_text, keys))}"


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
        variables = locals_of_frame(failed.inside[-1].frame)
        found = variables.get("names", variables.get("columns"))
        return _labels(found) if type(found) is list or is_index(found) else None
    return None


def _in_pandas(failed: Failure, value: Any, original: object, index: Any, names: list[Any]) -> str:
    """Describe what is missing in a DataFrame or Series. index: the one in which it was searched,
    if known."""
    name = failed.name_of(original)
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
    place = f" of {name}" if name else ""
    room = 120 if more else 300
    return f"there is no {what} {_quoted(absent)}.{_near(absent, labels)} Labels{place}: {listed(map(_text, labels), room)}.{more}"


def _no_column(names: list[Any], columns: Sequence[Any], table: str) -> str:
    """Return the hint for missing columns. table: a name, empty if it has none."""
    what = "is no column" if len(names) == 1 else "are no columns"
    place = f" of {table}" if table else ""
    return f"there {what} {_quoted(names)}.{_near(names, columns)} Columns{place}: {listed(map(_text, columns))}"


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
    """Tell the dtype of the column in question, and how to convert it."""
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
    """Return how the user's line writes a column."""
    if type(series.name) is not str:
        return failed.name_of(series) or "it"
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
    return failed.name_of(series) or one_line(f"df[{series.name!r}]", 60)


def _text_column(failed: Failure, series: Any) -> str:
    """Return the hint for a column that holds text where numbers or dates are needed; empty for
    another column."""
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
    columns = [table.iloc[:, place] for place in range(min(table.shape[1], 200))]
    names = [column.name for column in columns if type(column.name) is str and any(_texts(column))]
    if not names:
        return ""
    encode = ", or encode them: pd.get_dummies(df)" if "could not convert" in failed.message else ""
    return f"columns with text: {listed(names, 200)}. Leave them out: numeric_only=True, or df.select_dtypes('number'){encode}"


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
    """Tell how conditions on columns are combined."""
    if "truth value of a" not in failed.message:
        return ""
    return (
        "combine conditions with & | ~ instead of and, or, not, each in parentheses: df[(df['a'] > 1) & (df['b'] < 5)]. "
        "Whether any or all values are true: .any(), .all()"
    )


def unaligned(failed: Failure) -> str:
    """Tell how columns or tables with different labels are compared."""
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
    table = failed.name_of(value)
    place = f" of {table}" if table else ""
    return f"there is no column or method {name!r}.{near} Columns{place}: {listed(map(_text, columns))}"


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
