"""Readers for columns of Arrow and polars, whose values have one type."""

from __future__ import annotations

import importlib
import sys
from abc import abstractmethod
from typing import Any, NamedTuple

from .column_facts import ColumnFacts
from .column_reader import ColumnReader
from .number_texts import moment_text, number_text

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
"""The kind of values by the function of ``pyarrow.types`` that accepts their type."""
_DAYS_BITS = 32
"""The size of Arrow's type of dates that counts days; the other one counts milliseconds."""


def arrow_reader(values: Any) -> ColumnReader:
    """Return a reader of a chunked array whose type is Arrow's own."""
    types = sys.modules["pyarrow"].types
    dtype = values.type
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    for test_name, kind in _KINDS_BY_ARROW_TEST.items():
        accepts_type = getattr(types, test_name)
        if accepts_type(dtype):
            return _ArrowReader(values, kind)
    return _ArrowReader(values, "")


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


class _TextCounts(NamedTuple):
    """The texts of a block."""

    counts: dict[str, int]
    """How often each text occurs."""
    mean_bytes: float
    """About the mean length of a text."""


class _Range(NamedTuple):
    """The ends of the values of a block; None or NaN if it has only missing values and NaN."""

    low: object
    high: object


class _TypedReader(ColumnReader):
    """Reads a column of a library whose values have one type, a block of rows at a time."""

    def __init__(self, values: Any, kind: str) -> None:
        """
        Args:
            values: The library's column.
            kind: The kind of the values: ``number``, ``moment``, ``text``, ``bool``, or empty for any
                other.
        """
        super().__init__(len(values), is_slow=kind == "text")
        self._values = values
        self._kind = kind
        self._trues = 0 if kind == "bool" else None
        self._nan_count = 0
        """How many values are NaN, which is a number in these libraries, not a missing value."""

    def read(self, start: int, stop: int) -> None:
        block = self._values.slice(start, stop - start)
        missing_count = self._count_missing(block)
        self.missing += missing_count
        has_only_missing = missing_count == len(block)
        if not self._kind or has_only_missing:
            return
        if self._kind == "text":
            texts = self._count_texts(block)
            self._count(texts.counts, texts.mean_bytes)
        elif self._trues is not None:
            self._trues += self._count_trues(block)
        else:
            block_range = self._find_range(block)
            self._extend(block_range.low, block_range.high)

    def facts(self, rows: int) -> ColumnFacts:
        self.note = f"{self._nan_count:,} NaN" if self._nan_count else ""
        return super().facts(rows)

    def _write(self, value: Any) -> str:
        if self._kind == "moment":
            return self._write_moment(value)
        return number_text(value)

    @abstractmethod
    def _count_missing(self, block: Any) -> int:
        """Return how many values are missing."""

    @abstractmethod
    def _count_trues(self, block: Any) -> int:
        """Return how many truth values are true."""

    @abstractmethod
    def _count_texts(self, block: Any) -> _TextCounts:
        """Return how often each text of a block occurs; at least one is not missing."""

    @abstractmethod
    def _find_range(self, block: Any) -> _Range:
        """Return the smallest and the largest value.

        Moments are returned as numbers. NaN is left out, and counted.
        """

    @abstractmethod
    def _write_moment(self, ticks: int) -> str:
        """Return a moment as text.

        Args:
            ticks: The moment as a number in the unit of the column.
        """


class _ArrowReader(_TypedReader):
    """Reads a chunked array of Arrow."""

    def _count_missing(self, block: Any) -> int:
        return int(block.null_count)

    def _count_trues(self, block: Any) -> int:
        return int(_arrow_compute().sum(block).as_py())

    def _count_texts(self, block: Any) -> _TextCounts:
        counted_texts = block.drop_null().value_counts()
        texts = counted_texts.field(0).to_pylist()
        counts = counted_texts.field(1).to_pylist()
        return _TextCounts(dict(zip(texts, counts)), block.nbytes / len(block))

    def _find_range(self, block: Any) -> _Range:
        arrow = sys.modules["pyarrow"]
        compute = _arrow_compute()
        if self._kind == "moment":
            counts_days = block.type.bit_width == _DAYS_BITS
            block = block.cast(arrow.int32() if counts_days else arrow.int64())
        elif arrow.types.is_floating(block.type):
            self._nan_count += compute.sum(compute.is_nan(block)).as_py()
        ends = compute.min_max(block).as_py()
        return _Range(ends["min"], ends["max"])

    def _write_moment(self, ticks: int) -> str:
        dtype = self._values.type
        # Dates have no unit and no zone.
        unit_of_dates = "D" if dtype.bit_width == _DAYS_BITS else "ms"
        unit = getattr(dtype, "unit", unit_of_dates)
        zone = getattr(dtype, "tz", None) or ""
        return moment_text(ticks, unit, zone)


class _PolarsReader(_TypedReader):
    """Reads a Series of polars."""

    def _count_missing(self, block: Any) -> int:
        return int(block.null_count())

    def _count_trues(self, block: Any) -> int:
        return int(block.sum())

    def _count_texts(self, block: Any) -> _TextCounts:
        texts = block.drop_nulls().cast(sys.modules["polars"].String)
        mean_bytes = float(texts.str.len_bytes().mean())
        # Both are in the order of the rows, unlike `value_counts`.
        different_texts = texts.unique(maintain_order=True).to_list()
        counts = texts.unique_counts().to_list()
        return _TextCounts(dict(zip(different_texts, counts)), mean_bytes)

    def _find_range(self, block: Any) -> _Range:
        if self._kind == "moment":
            block = block.to_physical()
        elif block.dtype.is_float():
            numbers = block.drop_nans()
            self._nan_count += len(block) - len(numbers)
            block = numbers
        return _Range(block.min(), block.max())

    def _write_moment(self, ticks: int) -> str:
        dtype = self._values.dtype
        # Dates have no unit and no zone.
        unit = getattr(dtype, "time_unit", "D")
        zone = getattr(dtype, "time_zone", None) or ""
        return moment_text(ticks, unit, zone)


def _arrow_compute() -> Any:
    return importlib.import_module("pyarrow.compute")
