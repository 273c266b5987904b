"""Describes tables, columns, arrays and tensors of known libraries for a model, similar to
``df.dtypes`` and ``df.head(3)``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

from .detail import SCALARS, SEQUENCES, describe_type, literal, short_key, short_value
from .inspection.arrow_tables import ArrowTable, PolarsTable
from .inspection.columns import ObjectColumn, cell_text, number_text
from .inspection.pandas_tables import column_of, dtype_text, has_foreign_zone
from .objects import (
    MISSING,
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
from .variables import UNTOLD, looks_secret, one_line, safe_length, summary, type_name

SHOW_VALUES = True
"""Whether to list the values of columns with few distinct texts."""

_ROWS = 3
_WIDTH = 200
"""Maximum characters of a row; columns that do not fit are only named."""
_CELL = 40
"""Maximum characters of a cell."""
_COLUMNS = 60
"""Maximum number of columns that are shown or named."""
_SAMPLE = 1_000
"""Number of rows at the start in which values are collected."""
_DISTINCT, _LONGEST_VALUE = 8, 24
"""Maximum number and length of distinct values; other columns have none listed."""
_COUNTED = 20_000_000
"""Maximum number of a table's cells; in larger tables, missing values are not counted."""
_SECONDS, _QUICK = 0.05, 200_000
"""Time limit for counting missing values, and the number of cells below which there is no limit."""
_CHUNK = 10_000
_NUMBERS = 10_000_000
"""Maximum number of items of an array with minimum and maximum."""
_FIRST = 10
"""Maximum number of an array's items to show."""
_UNREADABLE = "…"
"""Stands for a cell that only user code could read."""


class _Column(NamedTuple):
    label: str
    type: str
    missing: int | None
    """None if there was no time to count."""
    values: Sequence[str]
    """Its distinct values, if they are few."""
    cells: Sequence[str]
    """The first rows."""


class _Frame(NamedTuple):
    """A table of any library. Its columns are described one by one, because there may be
    thousands."""

    title: str
    head: str
    """The code for the first rows."""
    rows: int
    labels: Sequence[str]
    """Names of the first columns."""
    width: int
    """Number of all columns."""
    column: Callable[[int], _Column]
    """Describes a column."""
    type: Callable[[int], str]
    row_labels: Sequence[str] = ()
    """Labels of the first rows; empty if there are none."""


def describe_table(name: str, value: Any) -> list[str] | None:
    """Describe an object of a known library in lines; None for other objects. Raises anything that
    a library raises for an object in an odd state."""
    kind = type_name(value)
    value = as_library_type(value)
    if is_one_of(value, "pandas", "DataFrame") and all(map(is_own_index, value.axes)):
        return _frame_lines(_pandas_frame(name, kind, value))
    if is_one_of(value, "polars", "DataFrame"):
        return _frame_lines(_polars_frame(name, kind, value))
    if is_one_of(value, "pyarrow", "Table"):
        return _frame_lines(_arrow_frame(name, value))
    if is_one_of(value, "polars", "LazyFrame"):
        return [
            f"{name}: polars LazyFrame, not collected; {name}.collect_schema() tells its columns"
        ]
    if is_one_of(value, "pandas", "Series") and all(map(is_own_index, value.axes)):
        return _series_lines(name, kind, value)
    if is_own_index(value):
        return _index_lines(name, value)
    if is_one_of(value, "polars", "Series"):
        return _polars_series_lines(name, kind, value)
    if is_one_of(value, "numpy", "ndarray"):
        return _array_lines(name, kind, value)
    if is_one_of(value, "scipy.sparse", *_SPARSE):
        return _sparse_lines(name, kind, value)
    return None


# Tables


def _frame_lines(frame: _Frame) -> list[str]:
    """Describe as many columns as fit next to each other, and name the next ones."""
    width = max(map(len, frame.row_labels), default=0)
    columns: list[_Column] = []
    for at in range(len(frame.labels)):
        column = frame.column(at)
        width += 2 + max(map(len, (column.label, *column.cells)))
        if columns and width > _WIDTH:
            break
        columns.append(column)
    return [
        frame.title,
        *_type_lines(columns),
        *_named_lines(frame, len(columns)),
        *_head_lines(frame, columns),
    ]


def _type_lines(columns: Sequence[_Column]) -> list[str]:
    labels = max((len(column.label) for column in columns), default=0)
    types = max((len(column.type) for column in columns), default=0)
    lines = []
    for column in columns:
        line = f"{column.label:<{labels}}    {column.type:>{types}}"
        line += _count_words(column.missing, "  (", ")")
        line += f"  values: {', '.join(column.values)}" if column.values else ""
        lines.append(line)
    return lines


def _count_words(missing: int | None, before: str, after: str = "") -> str:
    """Say how many values are missing; empty if none are."""
    return (
        ""
        if missing == 0
        else f"{before}{'?' if missing is None else format(missing, ',')} missing{after}"
    )


def _named_lines(frame: _Frame, start: int) -> list[str]:
    """Name the columns that do not fit, with their types, as many per line as fit."""
    words = [f"{label} {frame.type(at)}" for at, label in enumerate(frame.labels) if at >= start]
    if frame.width > len(frame.labels):
        words.append(f"... and {frame.width - len(frame.labels):,} more")
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 2 <= _WIDTH:
            lines[-1] += f", {word}"
        else:
            lines.append(f"{'  ' if lines else 'More columns: '}{word}")
    return lines


def _head_lines(frame: _Frame, columns: Sequence[_Column]) -> list[str]:
    rows = min(_ROWS, frame.rows)
    if not rows or not columns:
        return []
    blocks = [["", *frame.row_labels]] if frame.row_labels else []
    blocks += [[column.label, *column.cells] for column in columns]
    if len(columns) < frame.width:
        blocks.append(["...", *["..."] * rows])
    lines = _aligned(blocks, left=bool(frame.row_labels))
    return [frame.head, *lines]


def _aligned(blocks: Sequence[Sequence[str]], *, left: bool) -> list[str]:
    """Arrange columns of texts next to each other, aligned to the right. left: whether the first
    one is aligned to the left."""
    widths = [max(map(len, block)) for block in blocks]
    padded = [
        [text.ljust(width) if left and not at else text.rjust(width) for text in block]
        for at, (block, width) in enumerate(zip(blocks, widths))
    ]
    return ["  ".join(row).rstrip() for row in zip(*padded)]


def _title(name: str, kind: str, rows: int, columns: int, more: str = "") -> str:
    return f"{name}: {kind}, {_many(rows, 'rows')} x {_many(columns, 'columns')}{more}"


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _literal(label: Any) -> str:
    return literal(label, _CELL) if type(label) is str else _label(label)


def _build_column(
    label: Any, type: str, missing: int | None, column: Any, rows: int, missing_text: str
) -> _Column:
    """Describe a column with the inspector's column of its first rows. column: None if its values
    cannot be read."""
    shown = _label(label)
    rows = min(rows, _ROWS)
    if column is None:
        return _Column(shown, type, missing, (), [_UNREADABLE] * rows)
    if looks_secret(shown) and not column.right:
        return _Column(shown, type, missing, (), [UNTOLD] * rows)
    if isinstance(column, ObjectColumn):
        cells = [_cell(column.value(row)) for row in range(rows)]
    else:
        texts = column.texts(range(rows))
        cells = [missing_text if text is None else one_line(text, _CELL) for text in texts]
    return _Column(shown, type, missing, (), cells)


def _cell(value: Any) -> str:
    """Format a Python object in a table; an object of the user's by its type."""
    cls = type(value)
    if cls is str or value is None:
        return one_line(str(value), _CELL)
    if cls is dict or cls in SEQUENCES:
        return one_line(short_value(value), _CELL)
    text = cell_text(value)
    if text is None:
        return "NaN"
    if is_one_of(value, "pandas", "Interval"):
        # Its time zone may be the user's.
        known = not is_one_of(value.left, "pandas", "Timestamp")
    else:
        known = (
            cls in SCALARS
            or is_one_of(value, "pandas", "Timestamp", "Timedelta", "Period")
            or (bool(summary(value)) and safe_length(value) is None)
        )
    return one_line(text if known else describe_type(value), _CELL)


def _label(label: Any) -> str:
    """Format a column's label; a text is not changed, unless blanks at its ends would be
    invisible."""
    if type(label) is str and label and label == label.strip():
        return one_line(label, _CELL)
    return one_line(
        short_key(label) if type(label) is str or type(label) is tuple else _cell(label), _CELL
    )


def _distinct(texts: Iterable[Any], rows: int) -> list[str]:
    """Return the distinct texts of the first rows in order; empty if they are many or long, or if
    there is anything else."""
    found: dict[str, None] = {}
    for text in texts:
        if type(text) is str:
            found[text] = None
            if len(found) > _DISTINCT or len(text) > _LONGEST_VALUE:
                return []
        elif cell_text(text) is not None:
            return []
    return list(map(repr, found)) if rows >= 2 * len(found) else []


# pandas


def _pandas_frame(name: str, kind: str, value: Any) -> _Frame:
    rows, count = value.shape
    more = _index_words(value.index)
    labels: list[Any] = []
    if not _has_foreign_zones(value.columns):  # otherwise the table would create objects from them
        labels = value.columns[:_COLUMNS].tolist()
    counter = _MissingCounter(rows * count)

    def column(at: int) -> _Column:
        array = _array_of(value, at)
        if not is_from(array, "numpy", "pandas"):
            return _build_column(labels[at], dtype(at), 0, None, rows, "")
        return _pandas_column(labels[at], value.iloc[:, at], counter)

    def dtype(at: int) -> str:
        array = _array_of(value, at)
        return (
            _pandas_type(value.iloc[:, at])
            if is_from(array, "numpy", "pandas")
            else f"<{type_name(array)}>"
        )

    if is_one_of(value.columns, "pandas", "MultiIndex"):
        more += f", columns: MultiIndex of {value.columns.nlevels} levels"
    elif labels and type(labels[0]) is not str:
        more += f", column labels: {type_name(labels[0])}"
    shown = [_label(label) for label in labels]
    title = _title(name, kind, rows, count, more)
    return _Frame(
        title, f"{name}.head({_ROWS}):", rows, shown, count, column, dtype, _row_labels(value.index)
    )


def _array_of(frame: Any, column: int) -> Any:
    """Return the array that contains a column. A Series of any other array than numpy's or pandas'
    cannot even be created without running its code."""
    manager = frame._mgr
    return manager.blocks[manager.blknos[column]].values


def _pandas_column(label: Any, series: Any, counter: _MissingCounter) -> _Column:
    """Describe a column. series: the whole column."""
    type = _pandas_type(series)
    if not _is_readable(series):
        return _build_column(label, type, 0, None, len(series), "")
    part = series.iloc[:_SAMPLE]
    column = column_of(part.iloc[:_ROWS])
    missing_text = "NaT" if type.startswith(("datetime64", "timedelta64", "period")) else "NaN"
    made = _build_column(label, type, counter.count(series), column, len(series), missing_text)
    if (
        UNTOLD in made.cells
        or not SHOW_VALUES
        or type not in ("object", "str", "string", "category")
    ):
        return made
    return made._replace(values=_pandas_values(part))


def _pandas_values(part: Any) -> list[str]:
    """Return the distinct texts of a column's first rows, if they are few."""
    if type_name(part.dtype) == "CategoricalDtype":
        if not is_one_of(part.dtype.categories, "pandas", "Index"):
            return []
        codes = dict.fromkeys(part.array.codes.tolist())
        if len(codes) > _DISTINCT + 1:
            return []
        return _distinct((part.dtype.categories[code] for code in codes if code >= 0), len(part))
    return _distinct(part.tolist(), len(part))


def _is_readable(series: Any) -> bool:
    """Return whether the values of a Series can be read without running user code."""
    if not is_own_column(series):
        return False
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return _is_plain_arrow(dtype.pyarrow_dtype)
    if is_one_of(dtype, "pandas", "CategoricalDtype"):
        return (
            is_own_index(dtype.categories)
            and _is_readable(dtype.categories)
            and not has_foreign_zone(dtype.categories.dtype)
        )
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return is_own_type(dtype.subtype) and not has_foreign_zone(dtype.subtype)
    return not is_one_of(dtype, "pandas", "SparseDtype")


def _pandas_type(series: Any) -> str:
    if not is_own_column(series):
        return f"<{type_name(series._values)}>"
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return f"{_arrow_type(dtype.pyarrow_dtype)}[pyarrow]"
    return one_line(dtype_text(dtype), _CELL)


class _MissingCounter:
    """Counts missing values, as long as there is time."""

    def __init__(self, cells: int) -> None:
        limit = float("inf") if cells <= _QUICK else _SECONDS if cells <= _COUNTED else 0.0
        self._ends = time.monotonic() + limit

    def count(self, series: Any) -> int | None:
        """Count the missing values of one of pandas' own Series; None if that would take too
        long."""
        numpy = sys.modules["numpy"]
        dtype = series.dtype
        is_plain = is_subclass(type(dtype), get_if_loaded("numpy", "dtype"))
        if is_plain and dtype.kind not in "fcmMO":
            return 0
        if time.monotonic() > self._ends:
            return None
        if (is_plain and dtype.kind == "O") or getattr(dtype, "storage", "") == "python":
            return self._count_objects(numpy.asarray(series.array, dtype=object))
        if not is_plain:
            return int(series.array.isna().sum())
        is_missing = numpy.isnan if dtype.kind in "fc" else numpy.isnat
        return int(numpy.count_nonzero(is_missing(series.to_numpy())))

    def _count_objects(self, values: Any) -> int | None:
        """Count by exact type, because numpy and pandas would ask each object for its class."""
        none = (None, get_if_loaded("pandas", "NA"), get_if_loaded("pandas", "NaT"))
        missing = 0
        for start in range(0, len(values), _CHUNK):
            if time.monotonic() > self._ends:
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
        return [UNTOLD] * len(index)
    column = column_of(index)
    if isinstance(column, ObjectColumn):
        return [_cell(column.value(row)) for row in range(len(index))]
    return [
        "NaN" if text is None else one_line(text, _CELL) for text in column.texts(range(len(index)))
    ]


def _index_words(index: Any) -> str:
    """Describe an index in a clause; empty for the default index."""
    names = [_label(name) for name in index.names if name is not None]
    if is_one_of(index, "pandas", "MultiIndex"):
        return f", MultiIndex ({', '.join('None' if name is None else _literal(name) for name in index.names)})"
    if is_one_of(index, "pandas", "RangeIndex") and not names:
        return ""
    return f", index: {' '.join([*names, dtype_text(index.dtype)])}"


def _series_lines(name: str, kind: str, value: Any) -> list[str]:
    column = _pandas_column(value.name, value, _MissingCounter(len(value)))
    label = "" if value.name is None else f", name {_literal(value.name)}"
    words = f"{column.type}{_count_words(column.missing, ', ')}{label}{_index_words(value.index)}"
    title = f"{name}: {kind}, {_many(len(value), 'rows')}, {words}"
    values = [f"values: {', '.join(column.values)}"] if column.values else []
    if not len(value):
        return [title]
    head = _aligned([_row_labels(value.index), column.cells], left=True)
    return [title, *values, f"{name}.head({_ROWS}):", *head]


def _index_lines(name: str, value: Any) -> list[str]:
    kind = type_name(value)
    title = f"{name}: {kind}, {_many(len(value), 'items')}"
    names = ", ".join(_literal(each) for each in value.names if each is not None)
    if not is_one_of(value, "pandas", "MultiIndex"):
        title += f", {dtype_text(value.dtype)}"
    return [
        title + (f", names: {names}" if names else ""),
        *_first_line(_row_labels(value, _FIRST), len(value)),
    ]


def _first_line(texts: Sequence[str], size: int) -> list[str]:
    """Return the line of first values, if there are any."""
    return (
        [f"first values: {', '.join(texts)}{', ...' if size > len(texts) else ''}"] if texts else []
    )


# polars and Arrow


def _polars_frame(name: str, kind: str, value: Any) -> _Frame:
    rows, count = value.shape
    types = value.dtypes
    labels = value.columns[:_COLUMNS]
    head = PolarsTable(value.slice(0, _ROWS))
    sample = value.slice(0, _SAMPLE)

    def dtype(at: int) -> str:
        return _polars_type(types[at])

    def column(at: int) -> _Column:
        readable = _is_plain_polars(types[at])
        missing = value.to_series(at).null_count() if readable else 0
        shown = (
            None
            if not readable
            else ObjectColumn(head.series(at).to_list())
            if _parts(types[at])
            else head.column(at)
        )
        made = _build_column(labels[at], dtype(at), missing, shown, rows, "null")
        if (
            UNTOLD in made.cells
            or not SHOW_VALUES
            or dtype(at).partition("(")[0] not in ("String", "Categorical", "Enum")
        ):
            return made
        return made._replace(values=_distinct(sample.to_series(at).to_list(), len(sample)))

    title = _title(name, f"polars {kind}", rows, count)
    return _Frame(
        title,
        f"{name}.head({_ROWS}):",
        rows,
        [_label(label) for label in labels],
        count,
        column,
        dtype,
    )


def _polars_series_lines(name: str, kind: str, value: Any) -> list[str]:
    readable = _is_plain_polars(value.dtype)
    missing = value.null_count() if readable else 0
    column = PolarsTable(value.slice(0, _ROWS)).column(0) if readable else None
    made = _build_column(value.name, _polars_type(value.dtype), missing, column, len(value), "null")
    label = f", name {_literal(value.name)}" if value.name else ""
    words = f"{made.type}{_count_words(missing, ', ')}{label}"
    return [
        f"{name}: polars {kind}, {_many(len(value), 'rows')}, {words}",
        *_first_line(made.cells, len(value)),
    ]


def _is_plain_polars(dtype: Any) -> bool:
    """Return whether a polars type, including each type inside it, is polars' own."""
    cls = dtype if is_class(dtype) else type(dtype)
    return get_if_loaded("polars", name_of(cls)) is cls and all(
        map(_is_plain_polars, _parts(dtype))
    )


def _parts(dtype: Any) -> list[Any]:
    """Return the types inside a polars type."""
    names = {} if is_class(dtype) else own_dict(dtype)
    fields = names.get("fields")
    return (
        [names["inner"]]
        if "inner" in names
        else [field.dtype for field in fields]
        if type(fields) is list
        else []
    )


def _polars_type(dtype: Any) -> str:
    if _is_plain_polars(dtype):
        return one_line(str(dtype), _CELL)
    return f"<{one_line(name_of(dtype if is_class(dtype) else type(dtype)))}>"


def _arrow_frame(name: str, value: Any) -> _Frame:
    rows, count = value.shape
    labels = value.column_names[:_COLUMNS]
    head = ArrowTable(value.slice(0, _ROWS))

    def dtype(at: int) -> str:
        return _arrow_type(value.schema.field(at).type)

    def column(at: int) -> _Column:
        readable = _is_plain_arrow(value.schema.field(at).type)
        nested = value.schema.field(at).type.num_fields
        shown = (
            None
            if not readable
            else ObjectColumn(head.series(at).to_pylist())
            if nested
            else head.column(at)
        )
        return _build_column(
            labels[at], dtype(at), value.column(at).null_count, shown, rows, "null"
        )

    title = _title(name, "pyarrow Table", rows, count)
    return _Frame(
        title,
        f"{name}.slice(0, {_ROWS}):",
        rows,
        [_label(label) for label in labels],
        count,
        column,
        dtype,
    )


def _is_plain_arrow(type: Any) -> bool:
    """Return whether an Arrow type is not an extension, and contains none."""
    return is_from(type, "pyarrow") and all(
        _is_plain_arrow(type.field(at).type) for at in range(type.num_fields)
    )


def _arrow_type(type: Any) -> str:
    return one_line(str(type), _CELL) if _is_plain_arrow(type) else f"<{type_name(type)}>"


# Arrays

_SPARSE = tuple(
    f"{layout}_{kind}"
    for layout in ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
    for kind in ("matrix", "array")
)


def _array_lines(name: str, kind: str, value: Any) -> list[str]:
    shape = f"({', '.join(map(str, value.shape))}{',' if value.ndim == 1 else ''})"
    dtype = value.dtype
    if dtype.names is not None:
        fields = ", ".join(f"{_label(field)} {dtype[field]}" for field in dtype.names[:_COLUMNS])
        return [
            f"{name}: {kind}, shape {shape}, structured",
            f"fields: {fields}",
            *_array_values(value),
        ]
    return [
        f"{name}: {kind}, {one_line(str(dtype), _CELL)}, shape {shape}{_extent(value)}",
        *_array_values(value),
    ]


def _extent(value: Any) -> str:
    """Return minimum, maximum and the number of missing values of a numeric array that is not too
    large, and is in memory."""
    kind = value.dtype.kind
    if kind not in "iufmM" or not 0 < value.size <= _NUMBERS or _is_mapped(value):
        return ""
    numpy = sys.modules["numpy"]
    with numpy.errstate(all="ignore"):
        low, high = numpy.fmin.reduce(value, axis=None), numpy.fmax.reduce(value, axis=None)
        missing = (
            0
            if kind in "iu"
            else int(
                numpy.count_nonzero(numpy.isnat(value) if kind in "mM" else numpy.isnan(value))
            )
        )
    if missing == value.size:
        return ", all missing"
    shown = [
        number_text(float(each)) if kind == "f" else one_line(str(each)) for each in (low, high)
    ]
    return f", min {shown[0]}, max {shown[1]}{_count_words(missing, ', ')}"


def _is_mapped(value: Any) -> bool:
    """Return whether an array, or the one that it is a part of, is a file."""
    memmap = get_if_loaded("numpy", "memmap")
    while memmap is not MISSING and is_subclass(type(value), get_if_loaded("numpy", "ndarray")):
        if is_subclass(type(value), memmap):
            return True
        value = get_if_loaded("numpy", "ndarray").base.__get__(value)
    return False


def _array_values(value: Any) -> list[str]:
    if not value.size or not value.ndim:
        return [] if value.ndim else [f"value: {_item(value.tolist())}"]
    first = value[(0,) * (value.ndim - 1)][:_FIRST]
    return _first_line([_item(item) for item in first.tolist()], value.size)


def _item(item: Any) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    return f"({', '.join(map(_item, item))})" if type(item) is tuple else _literal(item)


def _sparse_lines(name: str, kind: str, value: Any) -> list[str]:
    names = own_dict(value)
    shape: Any = names.get("_shape")
    data: Any = names.get("data")
    if type(shape) is not tuple or not is_one_of(data, "numpy", "ndarray"):
        return [f"{name}: {kind}"]
    return [
        f"{name}: {kind}, {one_line(str(data.dtype), _CELL)}, shape {tuple(map(int, shape))}, {_many(data.size, 'stored values')}"
    ]
