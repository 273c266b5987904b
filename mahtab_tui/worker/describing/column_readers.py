"""Reads the values of columns for `ColumnFacts`: in parts, in the order of the rows, until time is up.
None of the user's code runs."""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..inspection.columns import is_safe_zone
from ..values.objects import address_of, get_if_loaded
from ..values.summaries import type_name
from .column_facts import ColumnFacts, moment_text, number_text, text_facts, with_counts

TABLE_TIMEOUT_S = 0.05
"""Processor time for the columns of a table together."""
_MAX_WAIT_FACTOR = 4
"""On a busy machine, reading may take this many times as long."""
FIRST_ROWS = 10_000
"""Rows that are read even if time is up, so that small tables are always read to the end."""

_NUMBERS_PER_PART = 200_000
_TEXTS_PER_PART = 20_000
_MAX_MEAN_TEXT_CHARS = 200
"""Texts that are longer on average are not counted: comparing them takes too long."""
_MAX_COMPARED_NUMBERS = 100_000
"""Rows of a column of whole numbers whose repetitions are counted."""
_MIN_KEY_SHARE = 0.9
"""The share of a key's values that must differ."""
_MAX_KEY_SPREAD = 2
"""How many times as wide as its number of rows the range of a key may be, if its name is not that of
a key."""
_MAX_NAMED_TYPES = 3
_MAX_CATEGORIES = 100_000
_TEXT = address_of(str)
_NUMBERS = frozenset(map(address_of, (int, float)))
"""Types by their addresses, because a metaclass of the user's may define equality."""
_KINDS_BY_ARROW_TEST = {
    "is_floating": "number",
    "is_integer": "number",
    "is_decimal": "number",
    "is_string": "text",
    "is_large_string": "text",
    "is_timestamp": "moment",
    "is_date": "moment",
    "is_boolean": "bool",
}
"""Functions of ``pyarrow.types``, and the kind of values of the types that they accept."""


class ColumnReader:
    """Reads the values of a column, and keeps what will be said about them."""

    def __init__(self, rows: int, *, is_slow: bool = False) -> None:
        """
        Args:
            rows: The number of all rows.
            is_slow: Whether reading a value takes long, as for texts and objects.
        """
        self.rows = rows
        self.rows_per_part = _TEXTS_PER_PART if is_slow else _NUMBERS_PER_PART
        self.missing = 0
        self.note = ""
        self._low: Any = None
        self._high: Any = None
        self._trues: int | None = None
        """How many values are true; None if they are not truth values."""
        self._texts: Counter[str] | None = Counter()
        """How often each text occurs; None if they are too long to be counted."""

    @property
    def texts(self) -> Collection[str]:
        """The different texts that were read; empty if they are too long to be compared."""
        if self._texts is None:
            return ()
        return self._texts.keys()

    def read(self, start: int, stop: int) -> None:
        """Read the next rows, up to `stop`."""
        raise NotImplementedError

    def facts(self, rows: int) -> ColumnFacts:
        """Return what was read.

        Args:
            rows: How many rows were read.
        """
        facts = ColumnFacts(rows, rows == self.rows, self.missing, note=self.note)
        if self._low is not None:
            return facts._replace(low=self._write(self._low), high=self._write(self._high))
        if self._trues is not None:
            counts = Counter({True: self._trues, False: facts.present - self._trues})
            return with_counts(facts, +counts)  # without the value that does not occur
        if self._texts:
            return text_facts(facts, self._texts)
        return facts

    def _extend(self, low: object, high: object) -> None:
        """Extend the range of the values; low: None or NaN if no value has an order."""
        if low is None or low != low:
            return
        if self._low is None or low < self._low:
            self._low = low
        if self._high is None or high > self._high:
            self._high = high

    def _count(self, texts: Mapping[str, int] | Sequence[str], mean_length: float) -> None:
        """Count texts, or add the counts of texts."""
        if self._texts is None or mean_length > _MAX_MEAN_TEXT_CHARS:
            self._texts = None
        else:
            self._texts.update(texts)

    def _write(self, value: object) -> str:
        """Write the smallest or the largest value."""
        return number_text(value)


# The time


def read_columns(readers: Sequence[ColumnReader | None]) -> list[ColumnFacts | None]:
    """Read columns in a limited time, which they share; None for those without a reader, and those
    that cannot be read."""
    facts: list[ColumnFacts | None] = [None] * len(readers)
    columns = [(index, reader) for index, reader in enumerate(readers) if reader is not None]
    # Columns that are read fast come first, and leave the rest of their time to the slow ones.
    columns.sort(key=lambda column: column[1].rows_per_part, reverse=True)
    wall_deadline = time.monotonic() + _MAX_WAIT_FACTOR * TABLE_TIMEOUT_S
    cpu_deadline = time.thread_time() + TABLE_TIMEOUT_S
    for number, (index, reader) in enumerate(columns):
        now = time.thread_time()
        cpu_share = max(0.0, cpu_deadline - now) / (len(columns) - number)
        with suppress(Exception):  # a library's object in an unforeseen state
            facts[index] = _read_column(reader, now + cpu_share, wall_deadline)
    return facts


def _read_column(reader: ColumnReader, cpu_deadline: float, wall_deadline: float) -> ColumnFacts:
    """Read a column until it ends or time is up: in times of `time.thread_time` and
    `time.monotonic`."""
    row = 0
    while row < reader.rows:
        is_late = time.thread_time() >= cpu_deadline or time.monotonic() >= wall_deadline
        if row and is_late:
            break
        part_rows = reader.rows_per_part if row else FIRST_ROWS
        stop = min(reader.rows, row + part_rows)
        reader.read(row, stop)
        row = stop
    return reader.facts(row)


# Readers of numpy and pandas


class _GapReader(ColumnReader):
    """Counts the missing values of a column of pandas, and nothing else."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array))
        self._array = array

    def read(self, start: int, stop: int) -> None:
        self.missing += int(self._array[start:stop].isna().sum())


class _NumpyReader(ColumnReader):
    """Reads an array of numpy, of a kind in ``biufM``."""

    def __init__(self, array: Any, dtype: Any, zone: str = "", *, is_key: bool = False) -> None:
        """
        Args:
            dtype: The type of the values, which is one of numpy.
            zone: The time zone of the moments; empty if they have none.
            is_key: Whether the column's name is that of a key.
        """
        super().__init__(len(array))
        self._array = array
        self._dtype = dtype
        self._kind: str = dtype.kind
        self._zone = zone
        self._is_key = is_key
        self._trues = 0 if self._kind == "b" else None

    def read(self, start: int, stop: int) -> None:
        values, missing = self._present(start, stop)
        self.missing += missing
        if self._trues is not None:
            self._trues += int(values.sum())
        elif len(values):
            self._extend(values.min(), values.max())

    def facts(self, rows: int) -> ColumnFacts:
        facts = super().facts(rows)
        if self._kind in "iu" and facts.is_complete and facts.present:
            return facts._replace(distinct=self._count_key_values(facts.present))
        return facts

    def _present(self, start: int, stop: int) -> tuple[Any, int]:
        """Return the values of rows that are not missing, moments as numbers, and how many are
        missing."""
        values, is_missing = self._fetch(start, stop)
        missing = 0 if is_missing is None else int(is_missing.sum())
        if missing:
            values = values[~is_missing]
        if self._kind == "M":
            values = values.astype("i8")
        return values, missing

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return the values of rows, and an array that tells which are missing; None instead of it
        if none can be."""
        numpy = sys.modules["numpy"]
        values = self._array[start:stop]
        if self._kind == "f":
            return values, numpy.isnan(values)
        if self._kind == "M":
            return values, numpy.isnat(values)
        return values, None

    def _count_key_values(self, present: int) -> int | None:
        """Return how many values differ if the column may be a key, which nearly all do then; None
        if not."""
        spread = int(self._high) - int(self._low) + 1
        if present > _MAX_COMPARED_NUMBERS or spread < _MIN_KEY_SHARE * present:
            return None
        if not self._is_key and spread > _MAX_KEY_SPREAD * present:
            return None

        # Sorting and comparing is thirty times as fast as `numpy.unique` (2.4).
        values, _ = self._present(0, self.rows)
        ordered = sys.modules["numpy"].sort(values)
        distinct = 1 + int((ordered[1:] != ordered[:-1]).sum())
        if distinct >= _MIN_KEY_SHARE * present:
            return distinct
        return None

    def _write(self, value: Any) -> str:
        if self._kind != "M":
            return number_text(value)
        unit, units_per_tick = sys.modules["numpy"].datetime_data(self._dtype)
        return moment_text(int(value) * units_per_tick, unit, self._zone)


class _NullableReader(_NumpyReader):
    """Reads a column of pandas with numbers and a mask."""

    def __init__(self, array: Any, *, is_key: bool = False) -> None:
        super().__init__(array, array.dtype.numpy_dtype, is_key=is_key)

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        block = self._array[start:stop]
        filler = False if self._kind == "b" else 0
        values = block.to_numpy(dtype=self._dtype, na_value=filler)
        is_nan = values != values
        return values, block.isna() | is_nan


class _ObjectReader(ColumnReader):
    """Reads an array of objects, by their exact types."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array), is_slow=True)
        self._array = array
        self._type_counts: Counter[int] = Counter()
        """How often each type occurs, by its address."""
        self._type_names: dict[int, str] = {}
        markers = (None, get_if_loaded("pandas", "NA"), get_if_loaded("pandas", "NaT"))
        self._missing_addresses = frozenset(map(address_of, markers))
        """The addresses of the objects that mark a missing value."""

    def read(self, start: int, stop: int) -> None:
        values = self._array[start:stop].tolist()
        present = [value for value in values if not self._is_missing(value)]
        self.missing += len(values) - len(present)
        by_type: dict[int, list[Any]] = {}
        for value in present:
            by_type.setdefault(address_of(type(value)), []).append(value)
        for address, objects in by_type.items():
            self._type_counts[address] += len(objects)
            self._type_names[address] = type_name(objects[0])
            if address == _TEXT:
                self._count(objects, sum(map(len, objects)) / len(objects))
            elif address in _NUMBERS:
                self._extend(min(objects), max(objects))

    def _is_missing(self, value: Any) -> bool:
        if address_of(value) in self._missing_addresses:
            return True
        return type(value) is float and value != value

    def facts(self, rows: int) -> ColumnFacts:
        addresses = self._type_counts.keys()
        if addresses == {_TEXT}:
            return super().facts(rows)
        if addresses and addresses <= _NUMBERS:
            return super().facts(rows)._replace(note="numbers as objects")
        note = ""
        if len(addresses) > 1:
            note = f"mixed types: {self._count_types()}"
        return ColumnFacts(rows, rows == self.rows, self.missing, note=note)

    def _count_types(self) -> str:
        """Say how many values have each of the commonest types."""
        counts = self._type_counts.most_common()
        words = [
            f"{count:,} {self._type_names[address]}" for address, count in counts[:_MAX_NAMED_TYPES]
        ]
        unnamed_count = sum(count for _, count in counts[_MAX_NAMED_TYPES:])
        if unnamed_count:
            words.append(f"{unnamed_count:,} others")
        return ", ".join(words)


class _CategoryReader(ColumnReader):
    """Reads a Categorical of pandas, whose categories are pandas' own."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array))
        self._array = array
        code_count = len(array.categories) + 1
        self._counts = sys.modules["numpy"].zeros(code_count, dtype="i8")
        """How many values are missing, and how many have each category."""

    @property
    def texts(self) -> Collection[str]:
        labels = self._array.categories.tolist()[:_MAX_CATEGORIES]
        return [label for label in labels if type(label) is str]

    def read(self, start: int, stop: int) -> None:
        codes = self._array.codes[start:stop].astype("i8")
        # A missing value has the code -1.
        self._counts += sys.modules["numpy"].bincount(codes + 1, minlength=len(self._counts))
        self.missing = int(self._counts[0])

    def facts(self, rows: int) -> ColumnFacts:
        facts = super().facts(rows)
        labels = self._array.categories.tolist()
        if len(labels) > _MAX_CATEGORIES or not all(type(label) is str for label in labels):
            return facts
        counts = Counter(dict(zip(labels, self._counts[1:].tolist())))
        return with_counts(facts, +counts)  # without categories that do not occur


# Readers of Arrow and polars


class _TypedReader(ColumnReader):
    """Reads a column of a library whose values have one type."""

    def __init__(self, values: Any, kind: str) -> None:
        """
        Args:
            kind: ``number``, ``moment``, ``text``, ``bool``, or empty for any other.
        """
        super().__init__(len(values), is_slow=kind == "text")
        self._values = values
        self._kind = kind
        self._trues = 0 if kind == "bool" else None
        self._nans = 0
        """How many values are NaN, which is a number in these libraries, not a missing value."""

    def read(self, start: int, stop: int) -> None:
        block = self._values.slice(start, stop - start)
        missing: int = self._count_nulls(block)
        self.missing += missing
        if not self._kind or missing == len(block):
            return
        if self._kind == "text":
            self._count(*self._text_counts(block))
        elif self._trues is not None:
            self._trues += self._count_trues(block)
        else:
            self._extend(*self._range(block))

    def facts(self, rows: int) -> ColumnFacts:
        self.note = f"{self._nans:,} NaN" if self._nans else ""
        return super().facts(rows)

    def _write(self, value: Any) -> str:
        if self._kind == "moment":
            return self._write_moment(value)
        return number_text(value)

    def _count_nulls(self, block: Any) -> int:
        raise NotImplementedError

    def _count_trues(self, block: object) -> int:
        raise NotImplementedError

    def _text_counts(self, block: object) -> tuple[dict[str, int], float]:
        """Return how often each text occurs, and their mean length in bytes."""
        raise NotImplementedError

    def _range(self, block: object) -> tuple[object, object]:
        """Return the smallest and the largest value, moments as numbers, without NaN."""
        raise NotImplementedError

    def _write_moment(self, value: int) -> str:
        raise NotImplementedError


class _ArrowReader(_TypedReader):
    """Reads a chunked array."""

    def _count_nulls(self, block: Any) -> int:
        return int(block.null_count)

    def _count_trues(self, block: object) -> int:
        return int(_compute().sum(block).as_py())

    def _text_counts(self, block: Any) -> tuple[dict[str, int], float]:
        pairs = block.drop_null().value_counts()
        texts = pairs.field(0).to_pylist()
        counts = pairs.field(1).to_pylist()
        return dict(zip(texts, counts)), block.nbytes / len(block)

    def _range(self, block: Any) -> tuple[object, object]:
        arrow = sys.modules["pyarrow"]
        compute = _compute()
        if self._kind == "moment":
            block = block.cast(arrow.int32() if block.type.bit_width == 32 else arrow.int64())
        elif arrow.types.is_floating(block.type):
            self._nans += compute.sum(compute.is_nan(block)).as_py()
        ends = compute.min_max(block).as_py()
        return ends["min"], ends["max"]

    def _write_moment(self, value: int) -> str:
        dtype = self._values.type
        unit_of_dates = "D" if dtype.bit_width == 32 else "ms"
        unit = getattr(dtype, "unit", unit_of_dates)
        zone = getattr(dtype, "tz", None) or ""
        return moment_text(value, unit, zone)


class _PolarsReader(_TypedReader):
    """Reads a Series."""

    def _count_nulls(self, block: Any) -> int:
        return int(block.null_count())

    def _count_trues(self, block: Any) -> int:
        return int(block.sum())

    def _text_counts(self, block: Any) -> tuple[dict[str, int], float]:
        texts = block.drop_nulls().cast(sys.modules["polars"].String)
        mean_bytes = float(texts.str.len_bytes().mean())
        # Both are in the order of the rows, unlike `value_counts`.
        different = texts.unique(maintain_order=True).to_list()
        counts = texts.unique_counts().to_list()
        return dict(zip(different, counts)), mean_bytes

    def _range(self, block: Any) -> tuple[object, object]:
        if self._kind == "moment":
            block = block.to_physical()
        elif block.dtype.is_float():
            numbers = block.drop_nans()
            self._nans += len(block) - len(numbers)
            block = numbers
        return block.min(), block.max()

    def _write_moment(self, value: int) -> str:
        dtype = self._values.dtype
        unit = getattr(dtype, "time_unit", "D")
        zone = getattr(dtype, "time_zone", None) or ""
        return moment_text(value, unit, zone)


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")


# The reader of a column


def pandas_reader(series: Any, *, is_key: bool = False) -> ColumnReader | None:
    """Return a reader of a Series or Index; None if reading its values may run the user's code.

    Args:
        series: Its array is one of numpy, pandas or Arrow.
        is_key: Whether its name is that of a key.
    """
    array = series.array
    dtype = series.dtype
    name = type(dtype).__name__
    if type(dtype).__module__.startswith("numpy"):
        if dtype.kind == "O":
            return _ObjectReader(array.to_numpy())
        if dtype.kind not in "biufM":
            return _GapReader(array)
        return _NumpyReader(array.to_numpy(), dtype, is_key=is_key)
    if name == "CategoricalDtype":
        return _CategoryReader(array)
    if name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return arrow_reader(sys.modules["pyarrow"].chunked_array(array.__arrow_array__()))
    if name == "StringDtype":
        return _ObjectReader(array.to_numpy())
    if name == "DatetimeTZDtype":
        if not is_safe_zone(dtype.tz):
            return None
        moments = array.tz_convert(None).to_numpy()
        return _NumpyReader(moments, moments.dtype, zone=str(dtype.tz))
    if getattr(dtype, "_is_numeric", False) or name == "BooleanDtype":
        return _NullableReader(array, is_key=is_key)
    return _GapReader(array)


def arrow_reader(values: Any) -> ColumnReader:
    """Return a reader of a chunked array whose type is Arrow's own."""
    types = sys.modules["pyarrow"].types
    dtype = values.type
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    kinds = (kind for test, kind in _KINDS_BY_ARROW_TEST.items() if getattr(types, test)(dtype))
    return _ArrowReader(values, next(kinds, ""))


def polars_reader(series: Any) -> ColumnReader:
    """Return a reader of a Series of polars."""
    polars = sys.modules["polars"]
    dtype = series.dtype
    kind = ""
    if dtype.is_numeric():
        kind = "number"
    elif dtype in (polars.String, polars.Categorical, polars.Enum):
        kind = "text"
    elif dtype in (polars.Date, polars.Datetime):
        kind = "moment"
    elif dtype == polars.Boolean:
        kind = "bool"
    return _PolarsReader(series, kind)
