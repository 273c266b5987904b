"""Describes tables, arrays and tensors for a model, similar to ``df.dtypes`` and ``df.head(3)``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from .inspection.children import (
    SEQUENCES,
    describe_type,
    literal,
    short_key,
    short_value,
)
from .inspection.columns import Column, cell_text, number_text
from .inspection.library_columns import column_of, dtype_text, has_foreign_zone
from .inspection.tables import as_table
from .objects import (
    SCALARS,
    as_library_type,
    get_if_loaded,
    is_from,
    is_one_of,
    is_own_column,
    is_own_index,
    is_own_type,
)
from .variables import HIDDEN_VALUE, looks_secret, one_line, safe_length, summary, type_name

_ROWS = 3
_ROW_WIDTH = 200
_CELL_WIDTH = 40
_MOST_COLUMNS = 60
_SAMPLED_ROWS = 1_000
_MOST_VALUES, _LONGEST_VALUE = 8, 24
_MOST_OBJECTS, _MOST_NUMBERS = 1_000_000, 50_000_000
"""Cells of a table whose missing values are counted."""
_LARGEST_ARRAY = 10_000_000
_FIRST_ITEMS = 10


def describe_table(name: str, value: Any) -> list[str] | None:
    """Describe an object of a known library in lines; None for other objects. May raise
    anything."""
    kind = type_name(value)
    value = as_library_type(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and all(map(is_own_index, value.axes)):
        return (_frame_lines if value.ndim == 2 else _series_lines)(name, kind, value)
    if is_own_index(value):
        title = f"{name}: {kind}, {_many(len(value), 'items')}{_index_words(value)}"
        return [title, *_first_line(_row_labels(value[:_FIRST_ITEMS]), len(value))]
    if is_one_of(value, "polars", "DataFrame", "Series") or is_one_of(value, "pyarrow", "Table"):
        return _typed_lines(name, kind, value)
    return _array_lines(name, kind, value) if is_one_of(value, "numpy", "ndarray") else None


# Tables of any library


class _Column(NamedTuple):
    label: str
    type: str
    missing: int | None
    cells: Sequence[str]
    values: Sequence[str] = ()


def _table_lines(
    title: str, head: str, columns: Sequence[_Column], total: int, row_labels: Sequence[str] = ()
) -> list[str]:
    """Describe as many columns as fit next to each other, and name the next ones."""
    room = _ROW_WIDTH - max(map(len, row_labels), default=0)
    ends = accumulate(max(map(len, (each.label, *each.cells))) + 2 for each in columns)
    count = max(1, sum(end <= room for end in ends))
    shown = columns[:count]
    longest = max((len(column.label) for column in shown), default=0)
    longest_type = max((len(column.type) for column in shown), default=0)
    lines = [title]
    for label, dtype, missing, _, values in shown:
        more = _count_words(missing, "  (", ")")
        more += f"  values: {', '.join(values)}" if values else ""
        lines.append(f"{label:<{longest}}    {dtype:>{longest_type}}{more}")
    words = [f"{column.label} {column.type}" for column in columns[count:]]
    if total > len(columns):
        words.append(f"... and {total - len(columns):,} more")
    lines += _wrap_names(words)
    if shown and shown[0].cells:
        blocks = [["", *row_labels]] if row_labels else []
        blocks += [[column.label, *column.cells] for column in shown]
        blocks += [["..."] * len(blocks[0])] if count < total else []
        lines += [head, *_align(blocks, left=bool(row_labels))]
    return lines


def _count_words(missing: int | None, before: str, after: str = "") -> str:
    if missing == 0:
        return ""
    return f"{before}{'?' if missing is None else format(missing, ',')} missing{after}"


def _wrap_names(words: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 2 <= _ROW_WIDTH:
            lines[-1] += f", {word}"
        else:
            lines.append(f"{'  ' if lines else 'More columns: '}{word}")
    return lines


def _align(blocks: Sequence[Sequence[str]], *, left: bool) -> list[str]:
    specs = [f">{max(map(len, block))}" for block in blocks]
    if left:
        specs[0] = specs[0].replace(">", "<")
    return ["  ".join(map(format, row, specs)).rstrip() for row in zip(*blocks)]


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _literal(label: Any) -> str:
    return literal(label, _CELL_WIDTH) if type(label) is str else _label(label)


def _column(
    label: Any,
    dtype: str,
    rows: int,
    column: Column | None = None,
    missing: int | None = 0,
    missing_text: str = "",
    values: Sequence[str] = (),
) -> _Column:
    shown, rows = _label(label), min(rows, _ROWS)
    if column is None:
        return _Column(shown, dtype, missing, ["…"] * rows)
    if looks_secret(shown) and not column.right:
        return _Column(shown, dtype, missing, [HIDDEN_VALUE] * rows)
    return _Column(shown, dtype, missing, _cells(column, rows, missing_text), values)


def _cells(column: Column, rows: int, missing_text: str) -> list[str]:
    if type(column) is Column:
        return [_cell(column.value(row)) for row in range(rows)]
    texts = column.texts(range(rows))
    return [missing_text if text is None else one_line(text, _CELL_WIDTH) for text in texts]


def _cell(value: Any) -> str:
    text = cell_text(value)
    if value is None or type(value) is str:
        text = str(value)
    elif type(value) is dict or type(value) in SEQUENCES:
        text = short_value(value)
    elif text is None:
        return "NaN"
    elif is_one_of(value, "pandas", "Interval"):
        # Its time zone may be the user's.
        text = describe_type(value) if is_one_of(value.left, "pandas", "Timestamp") else text
    elif type(value) not in SCALARS and (not summary(value) or safe_length(value) is not None):
        known = is_one_of(value, "pandas", "Timestamp", "Timedelta", "Period")
        text = text if known else describe_type(value)
    return one_line(text, _CELL_WIDTH)


def _label(label: Any) -> str:
    if type(label) is str and label and label == label.strip():
        return one_line(label, _CELL_WIDTH)
    written = short_key(label) if type(label) is str or type(label) is tuple else _cell(label)
    return one_line(written, _CELL_WIDTH)


def _distinct(texts: Sequence[Any]) -> list[str]:
    found: dict[str, None] = {}
    for text in texts:
        if type(text) is str:
            found[text] = None
            if len(found) > _MOST_VALUES or len(text) > _LONGEST_VALUE:
                return []
        elif cell_text(text) is not None:
            return []
    return list(map(repr, found)) if len(texts) >= 2 * len(found) else []


def _first_line(texts: Sequence[str], size: int) -> list[str]:
    more = ", ..." if size > len(texts) else ""
    return [f"first values: {', '.join(texts)}{more}"] if texts else []


# pandas


def _frame_lines(name: str, kind: str, value: Any) -> list[str]:
    rows, width = value.shape
    is_nested = is_one_of(value.columns, "pandas", "MultiIndex")
    levels = value.columns.levels if is_nested else [value.columns]
    labels: list[Any] = []
    if not any(has_foreign_zone(level.dtype) for level in levels):  # objects of it run its code
        labels = value.columns[:_MOST_COLUMNS].tolist()
    more = _index_words(value.index)
    if is_nested:
        more += f", columns: MultiIndex of {len(levels)} levels"
    elif labels and type(labels[0]) is not str:
        more += f", column labels: {type_name(labels[0])}"

    def describe_column(at: int) -> _Column:
        array = value._mgr.blocks[value._mgr.blknos[at]].values
        if is_from(array, "numpy", "pandas"):
            return _pandas_column(labels[at], value.iloc[:, at], rows * width)
        # Not even a Series of it can be created without running its code.
        return _column(labels[at], f"<{type_name(array)}>", rows)

    return _table_lines(
        f"{name}: {kind}, {_many(rows, 'rows')} x {_many(width, 'columns')}{more}",
        f"{name}.head({_ROWS}):",
        list(map(describe_column, range(len(labels)))),
        width,
        _row_labels(value.index[:_ROWS]),
    )


def _pandas_column(label: Any, series: Any, cells: int) -> _Column:
    dtype, rows = _pandas_type(series), len(series)
    if not _is_readable(series):
        return _column(label, dtype, rows)
    missing_text = "NaT" if dtype.startswith(("datetime64", "timedelta64", "period")) else "NaN"
    has_texts = dtype in ("object", "str", "string", "category")
    values = _distinct(series.iloc[:_SAMPLED_ROWS].tolist()) if has_texts else ()
    column, missing = column_of(series.iloc[:_ROWS]), _count_missing(series, cells)
    return _column(label, dtype, rows, column, missing, missing_text, values)


def _is_readable(series: Any) -> bool:
    """Return whether reading the values runs no user code."""
    if not is_own_column(series):
        return False
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return bool(_arrow_type(dtype.pyarrow_dtype))
    if is_one_of(dtype, "pandas", "CategoricalDtype"):
        index = dtype.categories
        return is_own_index(index) and _is_readable(index) and not has_foreign_zone(index.dtype)
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return is_own_type(dtype.subtype) and not has_foreign_zone(dtype.subtype)
    return not is_one_of(dtype, "pandas", "SparseDtype")


def _pandas_type(series: Any) -> str:
    if not is_own_column(series):
        return f"<{type_name(series._values)}>"
    if is_one_of(series.dtype, "pandas", "ArrowDtype"):
        inner = series.dtype.pyarrow_dtype
        return f"{_arrow_type(inner) or f'<{type_name(inner)}>'}[pyarrow]"
    return one_line(dtype_text(series.dtype), _CELL_WIDTH)


def _count_missing(series: Any, cells: int) -> int | None:
    """Count the missing values; None if that would take too long. cells: of the whole table."""
    kind = series.dtype.kind if type(series.dtype).__module__.startswith("numpy") else ""
    if kind and kind not in "fcmMO":
        return 0
    if cells > (_MOST_OBJECTS if kind == "O" else _MOST_NUMBERS):
        return None
    if kind != "O":
        return int(series.isna().sum())
    # By exact type, because numpy and pandas would ask each object for its class.
    na, nat = get_if_loaded("pandas", "NA"), get_if_loaded("pandas", "NaT")
    return sum(
        each is None or each is na or each is nat or (type(each) is float and each != each)
        for each in series.tolist()
    )


def _row_labels(index: Any) -> list[str]:
    if is_one_of(index, "pandas", "MultiIndex"):
        levels = [_row_labels(index.get_level_values(at)) for at in range(index.nlevels)]
        return [", ".join(texts) for texts in zip(*levels)]
    if not _is_readable(index):
        return ["…"] * len(index)
    if type(index.name) is str and looks_secret(index.name):
        return [HIDDEN_VALUE] * len(index)
    return _cells(column_of(index), len(index), "NaN")


def _index_words(index: Any) -> str:
    if is_one_of(index, "pandas", "MultiIndex"):
        words = ("None" if name is None else _literal(name) for name in index.names)
        return f", MultiIndex ({', '.join(words)})"
    names = [_label(name) for name in index.names if name is not None]
    if is_one_of(index, "pandas", "RangeIndex") and not names:
        return ""
    return f", index: {' '.join([*names, dtype_text(index.dtype)])}"


def _series_lines(name: str, kind: str, value: Any) -> list[str]:
    column = _pandas_column(value.name, value, len(value))
    label = "" if value.name is None else f", name {_literal(value.name)}"
    words = f"{column.type}{_count_words(column.missing, ', ')}{label}{_index_words(value.index)}"
    lines = [f"{name}: {kind}, {_many(len(value), 'rows')}, {words}"]
    if not len(value):
        return lines
    if column.values:
        lines.append(f"values: {', '.join(column.values)}")
    head = _align([_row_labels(value.index[:_ROWS]), column.cells], left=True)
    return [*lines, f"{name}.head({_ROWS}):", *head]


# polars and Arrow


def _typed_lines(name: str, kind: str, value: Any) -> list[str]:
    is_arrow = is_one_of(value, "pyarrow", "Table")
    if is_one_of(value, "polars", "Series"):
        value = value.to_frame()
    dtypes = value.schema.types if is_arrow else value.dtypes
    labels = value.column_names if is_arrow else value.columns
    rows, width = value.shape
    head: Any = as_table(value.slice(0, _ROWS))
    library = "pyarrow" if is_arrow else "polars"
    lines = [f"{name}: {library} {kind}, {_many(rows, 'rows')} x {_many(width, 'columns')}"]
    for at in range(min(width, _MOST_COLUMNS)):
        dtype = _arrow_type(dtypes[at]) if is_arrow else one_line(str(dtypes[at]), _CELL_WIDTH)
        known = head.column(at) if dtype else None
        column = _column(labels[at], dtype or type_name(dtypes[at]), rows, known, 0, "null")
        lines.append(f"{column.label} {column.type}: {', '.join(column.cells)}")
    return [*lines, f"... and {width - _MOST_COLUMNS:,} more"] if width > _MOST_COLUMNS else lines


def _arrow_type(dtype: Any) -> str:
    """Format a type of Arrow; empty if it, or one in it, is not the library's own."""
    if not is_from(dtype, "pyarrow"):
        return ""
    own = all(_arrow_type(dtype.field(at).type) for at in range(dtype.num_fields))
    return one_line(str(dtype), _CELL_WIDTH) if own else ""


# Arrays


def _array_lines(name: str, kind: str, value: Any) -> list[str]:
    dtype = one_line(str(value.dtype), _ROW_WIDTH)
    lines = [f"{name}: {kind}, {dtype}, shape {value.shape}{_extent(value)}"]
    if not value.ndim:
        return [*lines, f"value: {_item(value.tolist())}"]
    if not value.size:
        return lines
    first = value[(0,) * (value.ndim - 1)][:_FIRST_ITEMS]
    return [*lines, *_first_line(list(map(_item, first.tolist())), value.size)]


def _extent(value: Any) -> str:
    kind = value.dtype.kind
    if kind not in "iufmM" or not 0 < value.size <= _LARGEST_ARRAY:
        return ""
    missing = int((value != value).sum())
    if missing == value.size:
        return ", all missing"
    numpy = sys.modules["numpy"]
    ends = (numpy.fmin.reduce(value, axis=None), numpy.fmax.reduce(value, axis=None))
    first, last = (number_text(float(x)) if kind == "f" else one_line(str(x)) for x in ends)
    return f", min {first}, max {last}{_count_words(missing, ', ')}"


def _item(item: Any) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    return f"({', '.join(map(_item, item))})" if type(item) is tuple else _literal(item)
