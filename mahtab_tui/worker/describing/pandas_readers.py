"""Readers for the columns of tables of pandas, whose values are in arrays of numpy or of pandas.

`pandas_reader` chooses one by the exact type of the column, so that none of the user's code runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from typing import Any

from ..inspection.cell_texts import is_safe_zone
from ..values.objects import address_of, get_if_loaded
from ..values.summaries import type_name
from .column_facts import ColumnFacts, with_counts
from .column_reader import ColumnReader
from .number_texts import moment_text
from .typed_readers import arrow_reader

_MAX_COMPARED_NUMBERS = 100_000
"""Rows of a column of whole numbers whose repetitions are counted."""
_MIN_KEY_SHARE = 0.9
"""The share of a key's values that must differ."""
_MAX_KEY_SPREAD = 2
"""How many times as wide as its number of rows the range of a key may be, if its name is not that of
a key."""
_MAX_NAMED_TYPES = 3
"""Types of the values of a column that are named; those of the others are counted together."""
_MAX_CATEGORIES = 100_000
"""Categories up to which their values are counted."""
_NUMBER_KINDS = "biuf"
"""The kinds of types of numpy that `_NumpyReader` reads: truth values, whole numbers and floats."""
_TEXT_ADDRESS = address_of(str)
"""Types are compared by their addresses, because a metaclass of the user's may define equality."""
_NUMBER_ADDRESSES = frozenset(map(address_of, (int, float)))


class _GapReader(ColumnReader):
    """Counts the missing values of a column of pandas, and nothing else."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array))
        self._array = array

    def read(self, start: int, stop: int) -> None:
        self.missing += int(self._array[start:stop].isna().sum())


class _NumpyReader(ColumnReader):
    """Reads an array of numpy with truth values or numbers."""

    def __init__(self, array: Any, dtype: Any, *, is_key: bool = False) -> None:
        """
        Args:
            array: The values.
            dtype: The type of the values, which is one of numpy.
            is_key: Whether the column's name is that of a key.
        """
        super().__init__(len(array))
        self._array = array
        self._dtype = dtype
        self._kind: str = dtype.kind
        self._is_key = is_key
        if self._kind == "b":
            self._trues = 0

    def read(self, start: int, stop: int) -> None:
        values, missing_count = self._present_values(start, stop)
        self.missing += missing_count
        if self._trues is not None:
            self._trues += int(values.sum())
        elif len(values):
            self._extend(values.min(), values.max())

    def facts(self, rows: int) -> ColumnFacts:
        facts = super().facts(rows)
        if self._kind in "iu" and facts.is_complete and facts.present:
            return facts._replace(distinct=self._count_key_values(facts.present))
        return facts

    def _present_values(self, start: int, stop: int) -> tuple[Any, int]:
        """Return the values of rows that are not missing, and how many are missing."""
        values, is_missing = self._fetch(start, stop)
        missing_count = 0 if is_missing is None else int(is_missing.sum())
        if missing_count:
            values = values[~is_missing]
        return values, missing_count

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return the values of rows, and a mask of those that are missing; None for the mask if no
        value of this type can be missing."""
        values = self._array[start:stop]
        if self._kind == "f":
            return values, sys.modules["numpy"].isnan(values)
        return values, None

    def _count_key_values(self, present_count: int) -> int | None:
        """Return how many values differ if the column may be a key; None if it may not.

        Nearly all values of a key differ, and they lie close together unless its name is that of
        a key: other numbers, such as prices, have gaps.
        """
        spread = int(self._high) - int(self._low) + 1
        if present_count > _MAX_COMPARED_NUMBERS or spread < _MIN_KEY_SHARE * present_count:
            return None
        if not self._is_key and spread > _MAX_KEY_SPREAD * present_count:
            return None

        # Sorting and comparing is thirty times as fast as `numpy.unique` (2.4).
        values, _missing_count = self._present_values(0, self.rows)
        sorted_values = sys.modules["numpy"].sort(values)
        distinct_count = 1 + int((sorted_values[1:] != sorted_values[:-1]).sum())
        if distinct_count >= _MIN_KEY_SHARE * present_count:
            return distinct_count
        return None


class _MomentReader(_NumpyReader):
    """Reads an array of numpy with moments, which are compared as numbers."""

    def __init__(self, array: Any, dtype: Any, zone: str = "") -> None:
        """
        Args:
            array: The moments.
            dtype: Their type, which is one of numpy.
            zone: Their time zone; empty if they have none.
        """
        super().__init__(array, dtype)
        self._zone = zone

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        moments = self._array[start:stop]
        return moments.astype("i8"), sys.modules["numpy"].isnat(moments)

    def _write(self, value: Any) -> str:
        unit, units_per_tick = sys.modules["numpy"].datetime_data(self._dtype)
        return moment_text(int(value) * units_per_tick, unit, self._zone)


class _NullableReader(_NumpyReader):
    """Reads a column of pandas with numbers and a mask."""

    def __init__(self, array: Any, *, is_key: bool = False) -> None:
        super().__init__(array, array.dtype.numpy_dtype, is_key=is_key)

    def _fetch(self, start: int, stop: int) -> tuple[Any, Any]:
        part = self._array[start:stop]
        filler = False if self._kind == "b" else 0
        values = part.to_numpy(dtype=self._dtype, na_value=filler)
        is_nan = values != values
        return values, part.isna() | is_nan


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
        present_values = [value for value in values if not self._is_missing(value)]
        self.missing += len(values) - len(present_values)
        values_by_type: dict[int, list[Any]] = {}
        for value in present_values:
            values_by_type.setdefault(address_of(type(value)), []).append(value)

        for type_address, same_type_values in values_by_type.items():
            self._type_counts[type_address] += len(same_type_values)
            self._type_names[type_address] = type_name(same_type_values[0])
            if type_address == _TEXT_ADDRESS:
                mean_length = sum(map(len, same_type_values)) / len(same_type_values)
                self._count(same_type_values, mean_length)
            elif type_address in _NUMBER_ADDRESSES:
                self._extend(min(same_type_values), max(same_type_values))

    def _is_missing(self, value: Any) -> bool:
        if address_of(value) in self._missing_addresses:
            return True
        return type(value) is float and value != value  # NaN

    def facts(self, rows: int) -> ColumnFacts:
        type_addresses = self._type_counts.keys()
        if type_addresses == {_TEXT_ADDRESS}:
            return super().facts(rows)
        if type_addresses and type_addresses <= _NUMBER_ADDRESSES:
            return super().facts(rows)._replace(note="numbers as objects")

        # The smallest value and the counts would be those of some values only.
        note = ""
        if len(type_addresses) > 1:
            note = f"mixed types: {self._describe_types()}"
        return ColumnFacts(rows, rows == self.rows, self.missing, note=note)

    def _describe_types(self) -> str:
        """Say how many values have each of the commonest types."""
        counts = self._type_counts.most_common()
        descriptions = [
            f"{count:,} {self._type_names[address]}" for address, count in counts[:_MAX_NAMED_TYPES]
        ]
        unnamed_count = sum(count for _address, count in counts[_MAX_NAMED_TYPES:])
        if unnamed_count:
            descriptions.append(f"{unnamed_count:,} others")
        return ", ".join(descriptions)


class _CategoryReader(ColumnReader):
    """Reads a Categorical of pandas, whose categories are pandas' own."""

    def __init__(self, array: Any) -> None:
        super().__init__(len(array))
        self._array = array
        code_count = len(array.categories) + 1
        self._counts = sys.modules["numpy"].zeros(code_count, dtype="i8")
        """How many values have each code, plus one: a missing value has the code -1."""

    @property
    def texts(self) -> Collection[str]:
        labels = self._array.categories.tolist()[:_MAX_CATEGORIES]
        return [label for label in labels if type(label) is str]

    def read(self, start: int, stop: int) -> None:
        codes = self._array.codes[start:stop].astype("i8")
        self._counts += sys.modules["numpy"].bincount(codes + 1, minlength=len(self._counts))
        self.missing = int(self._counts[0])

    def facts(self, rows: int) -> ColumnFacts:
        facts = super().facts(rows)
        labels = self._array.categories.tolist()
        if len(labels) > _MAX_CATEGORIES or not all(type(label) is str for label in labels):
            return facts
        counts = Counter(dict(zip(labels, self._counts[1:].tolist())))
        return with_counts(facts, +counts)  # without categories that do not occur


def pandas_reader(series: Any, *, is_key: bool = False) -> ColumnReader | None:
    """Return a reader of a Series or Index; None if reading its values may run the user's code.

    Args:
        series: Its array is one of numpy, pandas or Arrow.
        is_key: Whether its name is that of a key.
    """
    array = series.array
    dtype = series.dtype
    dtype_name = type(dtype).__name__
    if type(dtype).__module__.startswith("numpy"):
        return _numpy_reader(array, dtype, is_key=is_key)
    if dtype_name == "CategoricalDtype":
        return _CategoryReader(array)
    if dtype_name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return arrow_reader(sys.modules["pyarrow"].chunked_array(array.__arrow_array__()))
    if dtype_name == "StringDtype":
        return _ObjectReader(array.to_numpy())
    if dtype_name == "DatetimeTZDtype":
        if not is_safe_zone(dtype.tz):
            return None
        moments = array.tz_convert(None).to_numpy()
        return _MomentReader(moments, moments.dtype, zone=str(dtype.tz))
    if getattr(dtype, "_is_numeric", False) or dtype_name == "BooleanDtype":
        return _NullableReader(array, is_key=is_key)
    return _GapReader(array)


def _numpy_reader(array: Any, dtype: Any, *, is_key: bool) -> ColumnReader:
    """Return a reader of an array whose type is one of numpy."""
    if dtype.kind == "O":
        return _ObjectReader(array.to_numpy())
    if dtype.kind == "M":
        return _MomentReader(array.to_numpy(), dtype)
    if dtype.kind in _NUMBER_KINDS:
        return _NumpyReader(array.to_numpy(), dtype, is_key=is_key)
    return _GapReader(array)
