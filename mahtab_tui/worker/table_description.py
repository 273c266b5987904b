"""Describes tables, arrays and tensors for a model, similar to ``df.dtypes`` and ``df.head(3)``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

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
    MISSING,
    SCALARS,
    as_library_type,
    get_if_loaded,
    is_class,
    is_from,
    is_one_of,
    is_own_column,
    is_own_index,
    is_own_type,
    is_subclass,
    name_of,
    own_dict,
)
from .variables import HIDDEN_VALUE, looks_secret, one_line, safe_length, summary, type_name

_ROWS = 3
_ROW_WIDTH = 200
_CELL_WIDTH = 40
_MOST_COLUMNS = 60
_SAMPLED_ROWS = 1_000
_MOST_VALUES, _LONGEST_VALUE = 8, 24
_MOST_COUNTED_CELLS = 20_000_000
_SECONDS, _QUICK = 0.05, 200_000
"""Time limit for counting missing values, and the cells below which there is none."""
_CHUNK = 10_000
_LARGEST_ARRAY = 10_000_000
_FIRST_ITEMS = 10
_UNREADABLE = "…"


def describe_table(name: str, value: Any) -> list[str] | None:
    """Describe an object of a known library in lines; None for other objects. May raise
    anything."""
    kind = type_name(value)
    value = as_library_type(value)
    if is_one_of(value, "pandas", "DataFrame") and all(map(is_own_index, value.axes)):
        return _pandas_lines(name, kind, value)
    if is_one_of(value, "polars", "DataFrame") or is_one_of(value, "pyarrow", "Table"):
        return _typed_lines(name, kind, value)
    if is_one_of(value, "polars", "LazyFrame"):
        columns = f"{name}.collect_schema() tells its columns"
        return [f"{name}: polars LazyFrame, not collected; {columns}"]
    if is_one_of(value, "pandas", "Series") and all(map(is_own_index, value.axes)):
        return _series_lines(name, kind, value)
    if is_own_index(value):
        return _index_lines(name, value)
    if is_one_of(value, "polars", "Series"):
        return _polars_series_lines(name, kind, value)
    return _array_lines(name, kind, value) if is_one_of(value, "numpy", "ndarray") else None


# Tables of any library


class _Column(NamedTuple):
    label: str
    type: str
    missing: int | None
    cells: Sequence[str]
    values: Sequence[str] = ()


def _table_lines(
    title: str,
    head: str,
    rows: int,
    labels: Sequence[Any],
    width: int,
    describe_column: Callable[[int], _Column],
    describe_dtype: Callable[[int], str],
    row_labels: Sequence[str] = (),
) -> list[str]:
    """Describe as many columns as fit next to each other, one by one, and name the next ones."""
    room = _ROW_WIDTH - max(map(len, row_labels), default=0)
    columns: list[_Column] = []
    for at in range(len(labels)):
        column = describe_column(at)
        room -= 2 + max(map(len, (column.label, *column.cells)))
        if columns and room < 0:
            break
        columns.append(column)
    longest = max((len(column.label) for column in columns), default=0)
    longest_type = max((len(column.type) for column in columns), default=0)
    lines = [title]
    for column in columns:
        missing = _count_words(column.missing, "  (", ")")
        values = f"  values: {', '.join(column.values)}" if column.values else ""
        lines.append(f"{column.label:<{longest}}    {column.type:>{longest_type}}{missing}{values}")
    others = range(len(columns), len(labels))
    words = [f"{_label(labels[at])} {describe_dtype(at)}" for at in others]
    if width > len(labels):
        words.append(f"... and {width - len(labels):,} more")
    lines += _wrap_names(words)
    count = min(_ROWS, rows)
    if count and columns:
        blocks = [["", *row_labels]] if row_labels else []
        blocks += [[column.label, *column.cells] for column in columns]
        if len(columns) < width:
            blocks.append(["..."] * (count + 1))
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
    widths = [max(map(len, block)) for block in blocks]
    padded = [
        [text.ljust(width) if left and not at else text.rjust(width) for text in block]
        for at, (block, width) in enumerate(zip(blocks, widths))
    ]
    return ["  ".join(row).rstrip() for row in zip(*padded)]


def _title(name: str, kind: str, shape: tuple[int, int], more: str = "") -> str:
    return f"{name}: {kind}, {_many(shape[0], 'rows')} x {_many(shape[1], 'columns')}{more}"


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _literal(label: Any) -> str:
    return literal(label, _CELL_WIDTH) if type(label) is str else _label(label)


def _build_column(
    label: Any,
    dtype: str,
    missing: int | None,
    column: Column | None,
    rows: int,
    missing_text: str,
    values: Sequence[str] = (),
) -> _Column:
    shown = _label(label)
    rows = min(rows, _ROWS)
    if column is None:
        return _Column(shown, dtype, missing, [_UNREADABLE] * rows)
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


def _distinct(texts: Iterable[Any], rows: int) -> list[str]:
    found: dict[str, None] = {}
    for text in texts:
        if type(text) is str:
            found[text] = None
            if len(found) > _MOST_VALUES or len(text) > _LONGEST_VALUE:
                return []
        elif cell_text(text) is not None:
            return []
    return list(map(repr, found)) if rows >= 2 * len(found) else []


def _first_line(texts: Sequence[str], size: int) -> list[str]:
    more = ", ..." if size > len(texts) else ""
    return [f"first values: {', '.join(texts)}{more}"] if texts else []


# pandas


def _pandas_lines(name: str, kind: str, value: Any) -> list[str]:
    rows, count = value.shape
    labels: list[Any] = []
    if not _has_foreign_zones(value.columns):  # otherwise the table would create objects from them
        labels = value.columns[:_MOST_COLUMNS].tolist()
    more = _index_words(value.index)
    if is_one_of(value.columns, "pandas", "MultiIndex"):
        more += f", columns: MultiIndex of {value.columns.nlevels} levels"
    elif labels and type(labels[0]) is not str:
        more += f", column labels: {type_name(labels[0])}"
    ends = _counting_ends(rows * count)

    def foreign_array(at: int) -> Any:
        """Return an array of neither numpy nor pandas, of which even a Series would run code."""
        array = value._mgr.blocks[value._mgr.blknos[at]].values
        return None if is_from(array, "numpy", "pandas") else array

    def describe_dtype(at: int) -> str:
        array = foreign_array(at)
        return _pandas_type(value.iloc[:, at]) if array is None else f"<{type_name(array)}>"

    def describe_column(at: int) -> _Column:
        if foreign_array(at) is not None:
            return _build_column(labels[at], describe_dtype(at), 0, None, rows, "")
        return _pandas_column(labels[at], value.iloc[:, at], ends)

    return _table_lines(
        _title(name, kind, value.shape, more),
        f"{name}.head({_ROWS}):",
        rows,
        labels,
        count,
        describe_column,
        describe_dtype,
        _row_labels(value.index),
    )


def _pandas_column(label: Any, series: Any, ends: float) -> _Column:
    dtype = _pandas_type(series)
    if not _is_readable(series):
        return _build_column(label, dtype, 0, None, len(series), "")
    missing = _count_missing(series, ends)
    missing_text = "NaT" if dtype.startswith(("datetime64", "timedelta64", "period")) else "NaN"
    has_texts = dtype in ("object", "str", "string", "category")
    values = _pandas_values(series.iloc[:_SAMPLED_ROWS]) if has_texts else ()
    column = column_of(series.iloc[:_ROWS])
    return _build_column(label, dtype, missing, column, len(series), missing_text, values)


def _pandas_values(part: Any) -> list[str]:
    if type_name(part.dtype) != "CategoricalDtype":
        return _distinct(part.tolist(), len(part))
    categories = part.dtype.categories
    codes = dict.fromkeys(part.array.codes.tolist())
    if not is_one_of(categories, "pandas", "Index") or len(codes) > _MOST_VALUES + 1:
        return []
    return _distinct((categories[code] for code in codes if code >= 0), len(part))


def _is_readable(series: Any) -> bool:
    """Return whether reading the values runs no user code."""
    if not is_own_column(series):
        return False
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return _is_plain(dtype.pyarrow_dtype)
    if is_one_of(dtype, "pandas", "CategoricalDtype"):
        categories = dtype.categories
        return (
            is_own_index(categories)
            and _is_readable(categories)
            and not has_foreign_zone(categories.dtype)
        )
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return is_own_type(dtype.subtype) and not has_foreign_zone(dtype.subtype)
    return not is_one_of(dtype, "pandas", "SparseDtype")


def _pandas_type(series: Any) -> str:
    if not is_own_column(series):
        return f"<{type_name(series._values)}>"
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return f"{_type_text(dtype.pyarrow_dtype)}[pyarrow]"
    return one_line(dtype_text(dtype), _CELL_WIDTH)


def _counting_ends(cells: int) -> float:
    limit = float("inf") if cells <= _QUICK else _SECONDS if cells <= _MOST_COUNTED_CELLS else 0.0
    return time.monotonic() + limit


def _count_missing(series: Any, ends: float) -> int | None:
    numpy = sys.modules["numpy"]
    dtype = series.dtype
    is_plain = is_subclass(type(dtype), get_if_loaded("numpy", "dtype"))
    if is_plain and dtype.kind not in "fcmMO":
        return 0
    if time.monotonic() > ends:
        return None
    if (is_plain and dtype.kind == "O") or getattr(dtype, "storage", "") == "python":
        return _count_missing_objects(numpy.asarray(series.array, dtype=object), ends)
    if not is_plain:
        return int(series.array.isna().sum())
    is_missing = numpy.isnan if dtype.kind in "fc" else numpy.isnat
    return int(numpy.count_nonzero(is_missing(series.to_numpy())))


def _count_missing_objects(values: Any, ends: float) -> int | None:
    """Count by exact type, because numpy and pandas would ask each object for its class."""
    none = (None, get_if_loaded("pandas", "NA"), get_if_loaded("pandas", "NaT"))
    missing = 0
    for start in range(0, len(values), _CHUNK):
        if time.monotonic() > ends:
            return None
        for value in values[start : start + _CHUNK].tolist():
            if (type(value) is float and value != value) or any(value is each for each in none):
                missing += 1
    return missing


def _has_foreign_zones(index: Any) -> bool:
    levels = index.levels if is_one_of(index, "pandas", "MultiIndex") else [index]
    return any(has_foreign_zone(level.dtype) for level in levels)


def _row_labels(index: Any, rows: int = _ROWS) -> list[str]:
    part = index[:rows]
    if not is_one_of(part, "pandas", "MultiIndex"):
        return _level_texts(part)
    levels = [_level_texts(part.get_level_values(at)) for at in range(part.nlevels)]
    return [", ".join(texts) for texts in zip(*levels)]


def _level_texts(index: Any) -> list[str]:
    if not _is_readable(index):
        return [_UNREADABLE] * len(index)
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
    column = _pandas_column(value.name, value, _counting_ends(len(value)))
    label = "" if value.name is None else f", name {_literal(value.name)}"
    words = f"{column.type}{_count_words(column.missing, ', ')}{label}{_index_words(value.index)}"
    lines = [f"{name}: {kind}, {_many(len(value), 'rows')}, {words}"]
    if not len(value):
        return lines
    if column.values:
        lines.append(f"values: {', '.join(column.values)}")
    head = _align([_row_labels(value.index), column.cells], left=True)
    return [*lines, f"{name}.head({_ROWS}):", *head]


def _index_lines(name: str, value: Any) -> list[str]:
    title = f"{name}: {type_name(value)}, {_many(len(value), 'items')}"
    if not is_one_of(value, "pandas", "MultiIndex"):
        title += f", {dtype_text(value.dtype)}"
    names = ", ".join(_literal(each) for each in value.names if each is not None)
    title += f", names: {names}" if names else ""
    return [title, *_first_line(_row_labels(value, _FIRST_ITEMS), len(value))]


# polars and Arrow


def _typed_lines(name: str, kind: str, value: Any) -> list[str]:
    is_polars = is_one_of(value, "polars", "DataFrame")
    head: Any = as_table(value.slice(0, _ROWS))
    sample = value.slice(0, _SAMPLED_ROWS)
    rows = len(value)
    dtypes = value.dtypes if is_polars else value.schema.types
    labels = (value.columns if is_polars else value.column_names)[:_MOST_COLUMNS]

    def describe_column(at: int) -> _Column:
        dtype, column = _type_text(dtypes[at]), None
        if _is_plain(dtypes[at]):
            column, part = head.column(at), head.series(at)
            if _parts(dtypes[at]):
                column = Column(part.to_list() if is_polars else part.to_pylist())
        if not is_polars:
            missing = value.column(at).null_count
            return _build_column(labels[at], dtype, missing, column, rows, "null")
        missing = 0 if column is None else value.to_series(at).null_count()
        has_texts = dtype.partition("(")[0] in ("String", "Categorical", "Enum")
        values = _distinct(sample.to_series(at).to_list(), len(sample)) if has_texts else ()
        return _build_column(labels[at], dtype, missing, column, rows, "null", values)

    return _table_lines(
        _title(name, f"polars {kind}" if is_polars else "pyarrow Table", value.shape),
        f"{name}.head({_ROWS}):" if is_polars else f"{name}.slice(0, {_ROWS}):",
        rows,
        labels,
        len(dtypes),
        describe_column,
        lambda at: _type_text(dtypes[at]),
    )


def _polars_series_lines(name: str, kind: str, value: Any) -> list[str]:
    readable = _is_plain(value.dtype)
    missing = value.null_count() if readable else 0
    head: Any = as_table(value.slice(0, _ROWS))
    column = head.column(0) if readable else None
    dtype = _type_text(value.dtype)
    cells = _build_column(value.name, dtype, missing, column, len(value), "null").cells
    label = f", name {_literal(value.name)}" if value.name else ""
    words = f"{dtype}{_count_words(missing, ', ')}{label}"
    title = f"{name}: polars {kind}, {_many(len(value), 'rows')}, {words}"
    return [title, *_first_line(cells, len(value))]


def _is_plain(dtype: Any) -> bool:
    """Return whether a type of polars or Arrow, with those in it, is the library's own."""
    cls = dtype if is_class(dtype) else type(dtype)
    own = is_from(dtype, "pyarrow") or get_if_loaded("polars", name_of(cls)) is cls
    return own and all(map(_is_plain, _parts(dtype)))


def _parts(dtype: Any) -> list[Any]:
    if is_from(dtype, "pyarrow"):
        return [dtype.field(at).type for at in range(dtype.num_fields)]
    names = {} if is_class(dtype) else own_dict(dtype)
    if "inner" in names:
        return [names["inner"]]
    fields = names.get("fields")
    return [field.dtype for field in fields] if type(fields) is list else []


def _type_text(dtype: Any) -> str:
    if _is_plain(dtype):
        return one_line(str(dtype), _CELL_WIDTH)
    return f"<{one_line(name_of(dtype if is_class(dtype) else type(dtype)))}>"


# Arrays


def _array_lines(name: str, kind: str, value: Any) -> list[str]:
    shape = f"({', '.join(map(str, value.shape))}{',' if value.ndim == 1 else ''})"
    dtype = value.dtype
    if dtype.names is not None:
        fields = [f"{_label(field)} {dtype[field]}" for field in dtype.names[:_MOST_COLUMNS]]
        lines = [f"{name}: {kind}, shape {shape}, structured", f"fields: {', '.join(fields)}"]
    else:
        dtype = one_line(str(dtype), _CELL_WIDTH)
        lines = [f"{name}: {kind}, {dtype}, shape {shape}{_extent(value)}"]
    if not value.ndim:
        return [*lines, f"value: {_item(value.tolist())}"]
    if not value.size:
        return lines
    first = value[(0,) * (value.ndim - 1)][:_FIRST_ITEMS]
    return [*lines, *_first_line(list(map(_item, first.tolist())), value.size)]


def _extent(value: Any) -> str:
    kind = value.dtype.kind
    if kind not in "iufmM" or not 0 < value.size <= _LARGEST_ARRAY or _is_mapped(value):
        return ""
    numpy = sys.modules["numpy"]
    missing = 0
    with numpy.errstate(all="ignore"):
        low, high = numpy.fmin.reduce(value, axis=None), numpy.fmax.reduce(value, axis=None)
        if kind not in "iu":
            is_missing = numpy.isnat if kind in "mM" else numpy.isnan
            missing = int(numpy.count_nonzero(is_missing(value)))
    if missing == value.size:
        return ", all missing"
    first, last = (
        number_text(float(each)) if kind == "f" else one_line(str(each)) for each in (low, high)
    )
    return f", min {first}, max {last}{_count_words(missing, ', ')}"


def _is_mapped(value: Any) -> bool:
    array, memmap = get_if_loaded("numpy", "ndarray"), get_if_loaded("numpy", "memmap")
    while memmap is not MISSING and is_subclass(type(value), array):
        if is_subclass(type(value), memmap):
            return True
        value = array.base.__get__(value)
    return False


def _item(item: Any) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    return f"({', '.join(map(_item, item))})" if type(item) is tuple else _literal(item)
