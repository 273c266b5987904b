"""Describes tables, arrays and tensors for a model, similar to ``df.describe()`` and ``df.head(2)``."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from ..inspection.columns import Column, cell_text
from ..inspection.library_columns import column_of, dtype_text, has_foreign_zone
from ..inspection.tables import as_table
from ..values.objects import (
    SCALARS,
    as_library_type,
    is_from,
    is_one_of,
    is_own_column,
    is_own_index,
    is_own_type,
)
from ..values.secret_names import HIDDEN_VALUE, looks_secret
from ..values.short_values import (
    SEQUENCES,
    describe_type,
    literal,
    short_key,
    short_value,
)
from ..values.summaries import one_line, safe_length, summary, type_name
from .column_facts import (
    COMMONEST_VALUES,
    MAX_LISTED_VALUES,
    ColumnFacts,
    facts_text,
    number_text,
)
from .column_readers import ColumnReader, arrow_reader, pandas_reader, polars_reader, read_columns

_SHOWN_ROWS = 2
"""First rows that are shown, at most."""
_MAX_ROW_CHARS = 200
_MAX_SHORT_ROW_CHARS = 100
_MAX_SHORTEST_ROW_CHARS = 60
"""For tables with many columns, whose facts say more than their first rows."""
_MAX_CELL_CHARS = 40
_MAX_COLUMNS = 60
_PREFERRED_TABLE_CHARS = 640
"""Characters of a description with details of the values, about 200 tokens."""
_MAX_TABLE_CHARS = 950
"""Characters of a description with the least details."""
_MIN_LINES_LIMIT = 400
"""Below this limit of characters, a table is described in one line."""
_MAX_ARRAY_ITEMS = 10_000_000
"""Items of an array whose range is computed."""
_FIRST_ITEMS = 10
_SEPARATOR = " | "
"""Between the cells of the first rows."""
_KEY_NAME = re.compile(r"(?:^|[_\W])(?i:id|key|code|number|no|nr)$|[a-z]I[Dd]$")


def describe_table(name: str, value: Any, limit: int) -> list[str] | None:
    """Describe an object of a known library in lines, with as many details as fit in `limit`
    characters; None for other objects. May raise anything."""
    kind = type_name(value)
    value = as_library_type(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and all(map(is_own_index, value.axes)):
        if value.ndim == 2:
            return _frame_lines(name, kind, value, limit)
        return _series_lines(name, kind, value, limit)
    if is_own_index(value):
        title = f"{name}: {kind}, {_many(len(value), 'items')}{_index_words(value)}"
        return [title, *_first_line(_row_labels(value[:_FIRST_ITEMS]), len(value))]
    if is_one_of(value, "polars", "DataFrame", "Series") or is_one_of(value, "pyarrow", "Table"):
        return _typed_lines(name, kind, value, limit)
    if is_one_of(value, "numpy", "ndarray"):
        return _array_lines(name, kind, value)
    return None


def text_columns(value: Any) -> dict[str, Collection[str]]:
    """Return the different texts of the columns of a table, by label; empty for other objects, and
    without columns whose labels are no texts or look like those of secrets. May raise anything."""
    value = as_library_type(value)
    labels: list[Any] = []
    readers: list[ColumnReader | None] = []
    if is_one_of(value, "pandas", "DataFrame") and all(map(is_own_index, value.axes)):
        is_nested = is_one_of(value.columns, "pandas", "MultiIndex")
        if not is_nested and not has_foreign_zone(value.columns.dtype):
            labels = value.columns[:_MAX_COLUMNS].tolist()
            arrays = _column_arrays(value, len(labels))
            readers = _pandas_readers(_own_columns(value, arrays))
    elif is_one_of(value, "polars", "DataFrame"):
        labels = value.columns[:_MAX_COLUMNS]
        readers = [polars_reader(value.to_series(at)) for at in range(len(labels))]
    elif is_one_of(value, "pyarrow", "Table"):
        labels = value.column_names[:_MAX_COLUMNS]
        readers = [
            arrow_reader(value.column(at)) if _arrow_type(value.schema.types[at]) else None
            for at in range(len(labels))
        ]
    read_columns(readers)
    return {
        label: reader.texts
        for label, reader in zip(labels, readers)
        if reader is not None and type(label) is str and not looks_secret(label)
    }


# Tables of any library


class _Column(NamedTuple):
    label: str
    type: str
    cells: Sequence[str]
    """The texts of its first values."""
    facts: ColumnFacts | None = None


class _Detail(NamedTuple):
    """How much is said about a table."""

    rows: int
    """First rows that are shown."""
    row_width: int
    """Characters of such a row."""
    max_values: int
    """Different values of a column up to which all are listed."""
    values_width: int
    """Characters of that list."""
    commonest_width: int
    """Characters of the commonest values, if not all are listed."""

    def facts_text(self, column: _Column) -> str:
        if column.facts is None:
            return ""
        return facts_text(column.facts, self.max_values, self.values_width, self.commonest_width)


_DETAILS = (
    _Detail(_SHOWN_ROWS, _MAX_ROW_CHARS, MAX_LISTED_VALUES, 400, 70),
    _Detail(1, _MAX_SHORT_ROW_CHARS, MAX_LISTED_VALUES, 150, 40),
    _Detail(1, _MAX_SHORT_ROW_CHARS, MAX_LISTED_VALUES, 150, 20),
    _Detail(1, _MAX_SHORTEST_ROW_CHARS, MAX_LISTED_VALUES, 150, 0),
    _Detail(1, _MAX_SHORTEST_ROW_CHARS, MAX_LISTED_VALUES, 90, 0),
    _Detail(1, _MAX_SHORTEST_ROW_CHARS, COMMONEST_VALUES, 50, 0),
    _Detail(1, _MAX_SHORTEST_ROW_CHARS, 0, 0, 0),
)
"""The most detailed first."""


def _table_lines(
    name: str,
    title: str,
    columns: Sequence[_Column],
    column_count: int,
    limit: int,
    row_labels: Sequence[str] = (),
) -> list[str]:
    """Describe a table with as many details as fit in `limit` characters.

    Args:
        name: The variable.
        title: The first line.
        columns: The first columns.
        column_count: The number of all columns.
        limit: Characters of the description; if few, it is one line.
        row_labels: The labels of the first rows.
    """
    if limit < _MIN_LINES_LIMIT:
        return [_table_line(title, columns, column_count)]

    more_columns = _more_columns(columns, column_count)
    rows: list[str] = []
    lines: list[str] = []
    for detail in _DETAILS:
        rows = _head_lines(name, columns, column_count, row_labels, detail)
        lines = [title, *_column_lines(columns, detail), *more_columns, *rows]
        if _count_chars(lines) <= min(limit, _PREFERRED_TABLE_CHARS):
            return lines

    # The ranges of many columns are worth more characters than further details of a few.
    if _count_chars(lines) <= min(limit, _MAX_TABLE_CHARS):
        return lines
    return [title, *_wrap_names(columns), *more_columns, *rows]


def _count_chars(lines: Sequence[str]) -> int:
    newlines = len(lines) - 1
    return sum(map(len, lines)) + newlines


def _table_line(title: str, columns: Sequence[_Column], column_count: int) -> str:
    if not columns:
        return title
    words = [f"{column.label} {column.type}" for column in columns]
    words += _more_columns(columns, column_count)
    return f"{title}: {', '.join(words)}"


def _more_columns(columns: Sequence[_Column], column_count: int) -> list[str]:
    """Return a line about the columns that are not described; none if all are."""
    omitted_count = column_count - len(columns)
    if omitted_count > 0:
        return [f"... and {omitted_count:,} more columns"]
    return []


def _column_lines(columns: Sequence[_Column], detail: _Detail) -> list[str]:
    lines: list[str] = []
    for column in columns:
        text = detail.facts_text(column)
        line = f"{column.label} {column.type}"
        lines.append(f"{line}: {text}" if text else line)
    return lines


def _head_lines(
    name: str,
    columns: Sequence[_Column],
    column_count: int,
    row_labels: Sequence[str],
    detail: _Detail,
) -> list[str]:
    """Write the first rows, with as many columns as fit. The columns have their names above, so the
    rows are neither titled nor aligned, which would take as many tokens as the values."""
    if not columns or not columns[0].cells:
        return []

    rows = min(detail.rows, len(columns[0].cells))
    blocks = [column.cells[:rows] for column in columns]
    available_width = detail.row_width - max(map(len, row_labels), default=0)
    ends = accumulate(max(map(len, cells)) + len(_SEPARATOR) for cells in blocks)
    visible_columns = max(1, sum(end <= available_width for end in ends))
    blocks = blocks[:visible_columns]
    if visible_columns < column_count:
        blocks.append(["..."] * rows)
    if row_labels:
        blocks.insert(0, row_labels[:rows])
    return [f"{name}.head({rows}):", *(_SEPARATOR.join(cells) for cells in zip(*blocks))]


def _wrap_names(columns: Sequence[_Column]) -> list[str]:
    """Write the names of columns next to each other, with the type after those that share it."""
    words: list[str] = []
    for dtype, neighbours in groupby(columns, key=lambda column: column.type):
        labels = [column.label for column in neighbours]
        words += [f"{label}," for label in labels[:-1]]
        words.append(f"{labels[-1]} {dtype};")
    words[-1] = words[-1].removesuffix(";")

    lines = ["Columns:"]
    for word in words:
        if len(lines[-1]) + len(word) + 1 <= _MAX_ROW_CHARS:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return lines


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _literal(label: object) -> str:
    if type(label) is str:
        return literal(label, _MAX_CELL_CHARS)
    return _label(label)


def _column(
    label: object,
    dtype: str,
    rows: int,
    column: Column | None = None,
    missing_text: str = "",
    facts: ColumnFacts | None = None,
) -> _Column:
    """Describe a column, without its values if its name is that of a secret.

    Args:
        rows: The number of all rows.
        column: Reads the first rows; None if that would run the user's code.
        missing_text: Stands for a missing value.
        facts: What is known about all rows.
    """
    name = _label(label)
    visible_rows = min(rows, _SHOWN_ROWS)
    if column is None:
        return _Column(name, dtype, ["…"] * visible_rows, facts)
    is_number = column.right
    if looks_secret(name) and not is_number:
        if facts is not None:
            facts = ColumnFacts(facts.rows, facts.is_complete, facts.missing)
        return _Column(name, dtype, [HIDDEN_VALUE] * visible_rows, facts)
    return _Column(name, dtype, _cells(column, visible_rows, missing_text), facts)


def _cells(column: Column, rows: int, missing_text: str) -> list[str]:
    if type(column) is Column:
        return [_cell(column.value(row)) for row in range(rows)]
    texts = column.texts(range(rows))
    return [missing_text if text is None else one_line(text, _MAX_CELL_CHARS) for text in texts]


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
        if is_one_of(value.left, "pandas", "Timestamp"):
            text = describe_type(value)
    elif type(value) not in SCALARS and (not summary(value) or safe_length(value) is not None):
        is_moment = is_one_of(value, "pandas", "Timestamp", "Timedelta", "Period")
        text = text if is_moment else describe_type(value)
    return one_line(text, _MAX_CELL_CHARS)


def _label(label: object) -> str:
    if type(label) is str and label and label == label.strip():
        return one_line(label, _MAX_CELL_CHARS)
    if type(label) is str or type(label) is tuple:
        written = short_key(label)
    else:
        written = _cell(label)
    return one_line(written, _MAX_CELL_CHARS)


def _first_line(texts: Sequence[str], size: int) -> list[str]:
    ellipsis_text = ", ..." if size > len(texts) else ""
    if texts:
        return [f"first values: {', '.join(texts)}{ellipsis_text}"]
    return []


# pandas


def _frame_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    rows, column_count = value.shape
    is_nested = is_one_of(value.columns, "pandas", "MultiIndex")
    levels = value.columns.levels if is_nested else [value.columns]
    labels: list[Any] = []
    # A label with a time zone of the user's would run its code.
    if not any(has_foreign_zone(level.dtype) for level in levels):
        labels = value.columns[:_MAX_COLUMNS].tolist()

    index_words = _index_words(value.index)
    if is_nested:
        index_words += f", columns: MultiIndex of {len(levels):,} levels"
    elif labels and type(labels[0]) is not str:
        index_words += f", column labels: {type_name(labels[0])}"
    size = f"{_many(rows, 'rows')} x {_many(column_count, 'columns')}"
    return _table_lines(
        name,
        f"{name}: {kind}, {size}{index_words}",
        _frame_columns(value, labels, limit),
        column_count,
        limit,
        _row_labels(value.index[:_SHOWN_ROWS]),
    )


def _frame_columns(value: Any, labels: Sequence[object], limit: int) -> list[_Column]:
    arrays = _column_arrays(value, len(labels))
    columns = _own_columns(value, arrays)
    all_facts = _read_facts(columns, limit)
    return [
        _column(label, f"<{type_name(array)}>", len(value))
        if series is None
        else _pandas_column(label, series, facts)
        for label, array, series, facts in zip(labels, arrays, columns, all_facts)
    ]


def _column_arrays(value: Any, count: int) -> list[Any]:
    """Return the arrays of the first columns of a table of pandas."""
    return [value._mgr.blocks[value._mgr.blknos[at]].values for at in range(count)]


def _own_columns(value: Any, arrays: Sequence[object]) -> list[Any]:
    """Return the first columns of a table of pandas; None for those whose array is the user's own:
    not even a Series of it can be created without running its code."""
    return [
        value.iloc[:, at] if is_from(array, "numpy", "pandas") else None
        for at, array in enumerate(arrays)
    ]


def _read_facts(columns: Sequence[object], limit: int) -> list[ColumnFacts | None]:
    """Read Series of pandas; None for what is not one, and for all if the description is a line,
    which has no place for facts."""
    if limit < _MIN_LINES_LIMIT:
        return [None] * len(columns)
    return read_columns(_pandas_readers(columns))


def _pandas_readers(columns: Sequence[Any]) -> list[ColumnReader | None]:
    return [
        pandas_reader(series, is_key=_is_key_name(series.name))
        if series is not None and _is_readable(series)
        else None
        for series in columns
    ]


def _is_key_name(label: object) -> bool:
    if type(label) is not str:
        return False
    return _KEY_NAME.search(label[-_MAX_CELL_CHARS:]) is not None


def _pandas_column(label: Any, series: Any, facts: ColumnFacts | None) -> _Column:
    dtype = _pandas_type(series)
    rows = len(series)
    if not _is_readable(series):
        return _column(label, dtype, rows)
    missing_text = "NaN"
    if dtype.startswith(("datetime64", "timedelta64", "period")):
        missing_text = "NaT"
    return _column(label, dtype, rows, column_of(series.iloc[:_SHOWN_ROWS]), missing_text, facts)


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
    return one_line(dtype_text(series.dtype), _MAX_CELL_CHARS)


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


def _series_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    [facts] = _read_facts([value], limit)
    column = _pandas_column(value.name, value, facts)
    if value.name is None:
        label = ""
    else:
        label = f", name {_literal(value.name)}"
    words = f"{column.type}{label}{_index_words(value.index)}"
    lines = [f"{name}: {kind}, {_many(len(value), 'rows')}, {words}"]
    if not len(value) or limit < _MIN_LINES_LIMIT:
        return lines
    if text := _DETAILS[0].facts_text(column):
        lines.append(text)
    row_labels = _row_labels(value.index[:_SHOWN_ROWS])
    return [*lines, *_head_lines(name, [column], 1, row_labels, _DETAILS[0])]


# polars and Arrow


def _typed_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    is_arrow = is_one_of(value, "pyarrow", "Table")
    library = "pyarrow" if is_arrow else "polars"
    if is_one_of(value, "polars", "Series"):
        value = value.to_frame()
    rows, width = value.shape
    title = f"{name}: {library} {kind}, {_many(rows, 'rows')} x {_many(width, 'columns')}"
    if is_arrow:
        columns = _arrow_columns(value, limit)
    else:
        columns = _polars_columns(value, limit)
    if limit < _MIN_LINES_LIMIT:
        return [_table_line(title, columns, width)]

    more_columns = _more_columns(columns, width)
    lines: list[str] = []
    for detail in _DETAILS:
        lines = [title, *(_typed_line(column, detail) for column in columns), *more_columns]
        if _count_chars(lines) <= min(limit, _PREFERRED_TABLE_CHARS):
            break
    return lines


def _typed_line(column: _Column, detail: _Detail) -> str:
    text = detail.facts_text(column)
    line = f"{column.label} {column.type}: {', '.join(column.cells)}"
    return f"{line}  {text}" if text else line


def _arrow_columns(value: Any, limit: int) -> list[_Column]:
    head: Any = as_table(value.slice(0, _SHOWN_ROWS))
    width = min(value.num_columns, _MAX_COLUMNS)
    types = value.schema.types[:width]
    type_texts = [_arrow_type(dtype) for dtype in types]
    readers: list[ColumnReader | None] = [None] * width
    if limit >= _MIN_LINES_LIMIT:
        readers = [
            arrow_reader(value.column(at)) if text else None for at, text in enumerate(type_texts)
        ]
    facts = read_columns(readers)
    return [
        _column(
            value.column_names[at],
            text or type_name(types[at]),
            len(value),
            head.column(at) if text else None,
            "null",
            facts[at],
        )
        for at, text in enumerate(type_texts)
    ]


def _polars_columns(value: Any, limit: int) -> list[_Column]:
    head: Any = as_table(value.slice(0, _SHOWN_ROWS))
    width = min(value.width, _MAX_COLUMNS)
    readers: list[ColumnReader | None] = [None] * width
    if limit >= _MIN_LINES_LIMIT:
        readers = [polars_reader(value.to_series(at)) for at in range(width)]
    facts = read_columns(readers)
    return [
        _column(
            value.columns[at],
            one_line(str(value.dtypes[at]), _MAX_CELL_CHARS),
            value.height,
            head.column(at),
            "null",
            facts[at],
        )
        for at in range(width)
    ]


def _arrow_type(dtype: Any) -> str:
    """Format a type of Arrow; empty if it, or a type in it, is not the library's own."""
    if not is_from(dtype, "pyarrow"):
        return ""
    is_own = all(_arrow_type(dtype.field(at).type) for at in range(dtype.num_fields))
    if is_own:
        return one_line(str(dtype), _MAX_CELL_CHARS)
    return ""


# Arrays


def _array_lines(name: str, kind: str, value: Any) -> list[str]:
    dtype = one_line(str(value.dtype), _MAX_ROW_CHARS)
    lines = [f"{name}: {kind}, {dtype}, shape {value.shape}{_extent(value)}"]
    if not value.ndim:
        return [*lines, f"value: {_item(value.tolist())}"]
    if not value.size:
        return lines
    first_items = value[(0,) * (value.ndim - 1)][:_FIRST_ITEMS]
    return [*lines, *_first_line(list(map(_item, first_items.tolist())), value.size)]


def _extent(value: Any) -> str:
    """Say what the smallest and the largest number are, and how many are missing."""
    kind = value.dtype.kind
    if kind not in "iufmM" or not 0 < value.size <= _MAX_ARRAY_ITEMS:
        return ""
    missing = int((value != value).sum())
    if missing == value.size:
        return ", all missing"

    numpy = sys.modules["numpy"]
    low = numpy.fmin.reduce(value, axis=None)
    high = numpy.fmax.reduce(value, axis=None)
    low_text, high_text = (
        one_line(str(end)) if kind in "mM" else number_text(end) for end in (low, high)
    )
    missing_text = f", {missing:,} missing" if missing else ""
    return f", min {low_text}, max {high_text}{missing_text}"


def _item(item: object) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    if type(item) is tuple:
        return f"({', '.join(map(_item, item))})"
    return _literal(item)
