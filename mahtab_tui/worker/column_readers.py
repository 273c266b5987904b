"""Reads the values of columns for `ColumnFacts`: in parts, in the order of the rows, until the time is
over. No code of the user's runs."""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .column_facts import ColumnFacts, moment_text, number_text, text_facts, with_counts
from .inspection.columns import is_safe_zone
from .objects import address_of, get_if_loaded
from .variables import type_name

TABLE_SECONDS = 0.05
"""Of computing, for the columns of a table together."""
_MAX_WAIT_FACTOR = 4
"""On a busy machine, so many times as long."""
FIRST_ROWS = 10_000
"""Rows that are read even if the time is over, so that small tables are always read to the end."""

_NUMBERS_PER_PART = 200_000
_TEXTS_PER_PART = 20_000
_MAX_TEXT_LENGTH = 200
"""Longer texts, on average, are not counted: comparing them takes too long."""
_MAX_COMPARED_NUMBERS = 100_000
"""Rows of a column of whole numbers whose repetitions are counted."""
_KEY_SHARE = 0.9
"""Of the values of a key, at least this many differ."""
_MAX_KEY_GAPS = 2
"""Of the numbers in the range of a key that has no key's name, at least one in so many occurs."""
_MAX_KINDS = 3
_MAX_CATEGORIES = 100_000
_TEXT = address_of(str)
_NUMBERS = frozenset(map(address_of, (int, float)))
_ARROW_KINDS = {
    "is_floating": "number",
    "is_integer": "number",
    "is_decimal": "number",
    "is_string": "text",
    "is_large_string": "text",
    "is_timestamp": "moment",
    "is_date": "moment",
    "is_boolean": "bool",
}


class ColumnReader:
    """Reads the values of a column, and keeps what is stated of them."""

    def __init__(self, rows: int, *, is_slow: bool = False) -> None:
        """is_slow: whether the values are read slowly, as texts and objects are."""
        self.rows = rows
        self.rows_per_part = _TEXTS_PER_PART if is_slow else _NUMBERS_PER_PART
        self.missing = 0
        self.note = ""
        self._low: Any = None
        self._high: Any = None
        self._trues: int | None = None
        """How many truth values are true; None if the values are none."""
        self._texts: Counter[str] | None = Counter()
        """How often each text occurs; None if they are too long to be counted."""

    def read(self, start: int, stop: int) -> None:
        """Read the next rows."""
        raise NotImplementedError

    def facts(self, rows: int) -> ColumnFacts:
        """Return what was read of the first rows."""
        facts = ColumnFacts(rows, rows == self.rows, self.missing, note=self.note)
        if self._low is not None:
            return facts._replace(low=self._write(self._low), high=self._write(self._high))
        if self._trues is not None:
            counts = {True: self._trues, False: facts.present - self._trues}
            return with_counts(facts, Counter({key: n for key, n in counts.items() if n}))
        if self._texts:
            return text_facts(facts, self._texts)
        return facts

    def _extend(self, low: Any, high: Any) -> None:
        if low is None or low != low:  # there is none
            return
        self._low = low if self._low is None or low < self._low else self._low
        self._high = high if self._high is None or high > self._high else self._high

    def _count(self, texts: Mapping[str, int] | Sequence[str], mean_length: float) -> None:
        """Count texts, or add what was counted."""
        if self._texts is None or mean_length > _MAX_TEXT_LENGTH:
            self._texts = None
        else:
            self._texts.update(texts)

    def _write(self, value: Any) -> str:
        return number_text(value)


# The time


def read_columns(readers: Sequence[ColumnReader | None]) -> list[ColumnFacts | None]:
    """Read columns in a limited time, which they share; None for those without a reader."""
    facts: list[ColumnFacts | None] = [None] * len(readers)
    existing = [(reader, at) for at, reader in enumerate(readers) if reader is not None]
    # Columns that are read fast leave their time to the slow ones.
    existing.sort(key=lambda pair: -pair[0].rows_per_part)
    latest = time.monotonic() + _MAX_WAIT_FACTOR * TABLE_SECONDS
    end = time.thread_time() + TABLE_SECONDS
    for number, (reader, at) in enumerate(existing):
        now = time.thread_time()
        share = max(0.0, end - now) / (len(existing) - number)
        with suppress(Exception):  # a library's object in an unforeseen state
            facts[at] = _read_column(reader, now + share, latest)
    return facts


def _read_column(reader: ColumnReader, end: float, latest: float) -> ColumnFacts:
    row = 0
    while row < reader.rows:
        if row and (time.thread_time() >= end or time.monotonic() >= latest):
            break
        stop = min(reader.rows, row + (reader.rows_per_part if row else FIRST_ROWS))
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
        """dtype: of numpy. zone: of the moments; empty if they have none. is_key: whether the name
        is that of a key."""
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
        """Return the values of rows that are not missing, moments as numbers, and the number of
        those that are."""
        values, is_missing = self._fetch(start, stop)
        missing = 0 if is_missing is None else int(is_missing.sum())
        values = values[~is_missing] if missing else values
        return values.astype("i8") if self._kind == "M" else values, missing

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return rows, and which of them are missing, or None."""
        numpy, values = sys.modules["numpy"], self._array[start:stop]
        if self._kind == "f":
            return values, numpy.isnan(values)
        return values, numpy.isnat(values) if self._kind == "M" else None

    def _count_key_values(self, present: int) -> int | None:
        """Count the values that differ, if nearly all do; None if not."""
        size = int(self._high) - int(self._low) + 1
        if present > _MAX_COMPARED_NUMBERS or size < _KEY_SHARE * present:
            return None
        if not self._is_key and size > _MAX_KEY_GAPS * present:
            return None
        values, _ = self._present(0, self.rows)
        # `numpy.unique` (2.4) takes thirty times as long.
        ordered = sys.modules["numpy"].sort(values)
        distinct = 1 + int((ordered[1:] != ordered[:-1]).sum())
        return distinct if distinct >= _KEY_SHARE * present else None

    def _write(self, value: Any) -> str:
        if self._kind != "M":
            return number_text(value)
        unit, size = sys.modules["numpy"].datetime_data(self._dtype)
        return moment_text(int(value) * size, unit, self._zone)


class _NullableReader(_NumpyReader):
    """Reads a column of pandas with numbers and a mask."""

    def __init__(self, array: Any, *, is_key: bool = False) -> None:
        super().__init__(array, array.dtype.numpy_dtype, is_key=is_key)

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        part = self._array[start:stop]
        filler = False if self._kind == "b" else 0
        values, is_missing = part.to_numpy(dtype=self._dtype, na_value=filler), part.isna()
        return values, is_missing | (values != values)


class _ObjectReader(ColumnReader):
    """Reads an array of objects, by their exact types."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array), is_slow=True)
        self._array = array
        self._kinds: Counter[int] = Counter()
        """How often each type occurs, by its address."""
        self._kind_names: dict[int, str] = {}
        na, nat = get_if_loaded("pandas", "NA"), get_if_loaded("pandas", "NaT")
        self._gaps = frozenset(map(address_of, (None, na, nat)))

    def read(self, start: int, stop: int) -> None:
        cells = self._array[start:stop].tolist()
        present = [cell for cell in cells if not self._is_missing(cell)]
        self.missing += len(cells) - len(present)
        by_kind: dict[int, list[Any]] = {}
        for cell in present:
            by_kind.setdefault(address_of(type(cell)), []).append(cell)
        for kind, objects in by_kind.items():
            self._kinds[kind] += len(objects)
            self._kind_names[kind] = type_name(objects[0])
            if kind == _TEXT:
                self._count(objects, sum(map(len, objects)) / len(objects))
            elif kind in _NUMBERS:
                self._extend(min(objects), max(objects))

    def _is_missing(self, cell: Any) -> bool:
        return address_of(cell) in self._gaps or (type(cell) is float and cell != cell)

    def facts(self, rows: int) -> ColumnFacts:
        kinds = self._kinds.keys()
        facts = ColumnFacts(rows, rows == self.rows, self.missing)
        if kinds == {_TEXT}:
            return super().facts(rows)
        if kinds and kinds <= _NUMBERS:
            return super().facts(rows)._replace(note="numbers as objects")
        if len(kinds) > 1:
            return facts._replace(note=f"mixed types: {self._kind_words()}")
        return facts

    def _kind_words(self) -> str:
        pairs = self._kinds.most_common()
        words = [f"{count:,} {self._kind_names[kind]}" for kind, count in pairs[:_MAX_KINDS]]
        others = sum(count for _, count in pairs[_MAX_KINDS:])
        return ", ".join([*words, *([f"{others:,} others"] if others else [])])


class _CategoryReader(ColumnReader):
    """Reads a Categorical of pandas, whose categories are pandas' own."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array))
        self._array = array
        categories = array.categories
        self._used = sys.modules["numpy"].zeros(len(categories) + 1, dtype="i8")

    def read(self, start: int, stop: int) -> None:
        codes = self._array.codes[start:stop].astype("i8")
        # A missing value has the code -1.
        self._used += sys.modules["numpy"].bincount(codes + 1, minlength=len(self._used))
        self.missing = int(self._used[0])

    def facts(self, rows: int) -> ColumnFacts:
        facts = super().facts(rows)
        labels = self._array.categories.tolist()
        if len(labels) > _MAX_CATEGORIES or not all(type(label) is str for label in labels):
            return facts
        counts = zip(labels, self._used[1:].tolist())
        return with_counts(facts, Counter({label: count for label, count in counts if count}))


# Readers of Arrow and polars


class _TypedReader(ColumnReader):
    """Reads a column of a library whose values have one type."""

    def __init__(self, values: Any, kind: str) -> None:
        """kind: ``number``, ``moment``, ``text``, ``bool``, or empty for any other."""
        super().__init__(len(values), is_slow=kind == "text")
        self._values = values
        self._kind = kind
        self._trues = 0 if kind == "bool" else None
        self._nans = 0
        """NaN is a number in these libraries."""

    def read(self, start: int, stop: int) -> None:
        part = self._values.slice(start, stop - start)
        missing: int = self._count_nulls(part)
        self.missing += missing
        if not self._kind or missing == len(part):
            return
        if self._kind == "text":
            self._count(*self._text_counts(part))
        elif self._trues is not None:
            self._trues += self._count_trues(part)
        else:
            self._extend(*self._range(part))

    def facts(self, rows: int) -> ColumnFacts:
        self.note = f"{self._nans:,} NaN" if self._nans else ""
        return super().facts(rows)

    def _write(self, value: Any) -> str:
        return number_text(value) if self._kind == "number" else self._write_moment(value)

    def _count_nulls(self, part: Any) -> int:
        raise NotImplementedError

    def _count_trues(self, part: Any) -> int:
        raise NotImplementedError

    def _text_counts(self, part: Any) -> tuple[dict[str, int], float]:
        """Return how often each text occurs, and their mean length in bytes."""
        raise NotImplementedError

    def _range(self, part: Any) -> tuple[Any, Any]:
        """Return the smallest and the largest value, moments as numbers, without NaN."""
        raise NotImplementedError

    def _write_moment(self, value: int) -> str:
        raise NotImplementedError


class _ArrowReader(_TypedReader):
    """Reads a chunked array."""

    def _count_nulls(self, part: Any) -> int:
        return int(part.null_count)

    def _count_trues(self, part: Any) -> int:
        return int(_compute().sum(part).as_py())

    def _text_counts(self, part: Any) -> tuple[dict[str, int], float]:
        counted = part.drop_null().value_counts()
        texts, counts = counted.field(0).to_pylist(), counted.field(1).to_pylist()
        return dict(zip(texts, counts)), part.nbytes / len(part)

    def _range(self, part: Any) -> tuple[Any, Any]:
        arrow, compute = sys.modules["pyarrow"], _compute()
        if self._kind == "moment":
            part = part.cast(arrow.int32() if part.type.bit_width == 32 else arrow.int64())
        elif arrow.types.is_floating(part.type):
            self._nans += compute.sum(compute.is_nan(part)).as_py()
        ends = compute.min_max(part).as_py()
        return ends["min"], ends["max"]

    def _write_moment(self, value: int) -> str:
        kind = self._values.type
        unit = getattr(kind, "unit", "D" if kind.bit_width == 32 else "ms")
        return moment_text(value, unit, getattr(kind, "tz", None) or "")


class _PolarsReader(_TypedReader):
    """Reads a Series."""

    def _count_nulls(self, part: Any) -> int:
        return int(part.null_count())

    def _count_trues(self, part: Any) -> int:
        return int(part.sum())

    def _text_counts(self, part: Any) -> tuple[dict[str, int], float]:
        texts = part.drop_nulls().cast(sys.modules["polars"].String)
        length = float(texts.str.len_bytes().mean())
        # Both in the order of the rows, unlike `value_counts`.
        counts = texts.unique_counts().to_list()
        return dict(zip(texts.unique(maintain_order=True).to_list(), counts)), length

    def _range(self, part: Any) -> tuple[Any, Any]:
        if self._kind == "moment":
            part = part.to_physical()
        elif part.dtype.is_float():
            numbers = part.drop_nans()
            self._nans += len(part) - len(numbers)
            part = numbers
        return part.min(), part.max()

    def _write_moment(self, value: int) -> str:
        dtype = self._values.dtype
        return moment_text(
            value, getattr(dtype, "time_unit", "D"), getattr(dtype, "time_zone", None) or ""
        )


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")


# The reader of a column


def pandas_reader(series: Any, *, is_key: bool = False) -> ColumnReader | None:
    """Return a reader of a Series or Index whose array and values run no code of the user's; None
    if there is none. is_key: whether the name is that of a key."""
    array, dtype = series.array, series.dtype
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
    """values: a chunked array, whose type is Arrow's own."""
    types, kind = sys.modules["pyarrow"].types, values.type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    words = (word for test, word in _ARROW_KINDS.items() if getattr(types, test)(kind))
    return _ArrowReader(values, next(words, ""))


def polars_reader(series: Any) -> ColumnReader:
    polars, dtype = sys.modules["polars"], series.dtype
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
