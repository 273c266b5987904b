"""Readers for columns of Arrow and polars, whose values have one type."""

from __future__ import annotations

import importlib
import sys
from abc import abstractmethod
from typing import Any

from .column_facts import ColumnFacts, moment_text, number_text
from .column_reader import ColumnReader

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

    @abstractmethod
    def _count_nulls(self, block: Any) -> int: ...

    @abstractmethod
    def _count_trues(self, block: object) -> int: ...

    @abstractmethod
    def _text_counts(self, block: object) -> tuple[dict[str, int], float]:
        """Return how often each text occurs, and their mean length in bytes."""

    @abstractmethod
    def _range(self, block: object) -> tuple[object, object]:
        """Return the smallest and the largest value, moments as numbers, without NaN."""

    @abstractmethod
    def _write_moment(self, value: int) -> str: ...


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
