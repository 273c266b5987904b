"""Columns whose values lie in arrays of NumPy."""

from __future__ import annotations

import sys
from typing import Any

from .cell_texts import cell_text, choose_decimals, float_text
from .columns import Column, Rows
from .conditions import BOOLEANS, Condition, not_comparable
from .limits import Deadline
from .statistics import SAMPLED_ROWS, Statistics, histogram, number_statistics, sampled

_MAX_STABLY_SORTED_FLOATS = 1_000_000
"""Of more floats, equal ones may lose their order, because sorting them stably takes five times as
long."""
_MAX_INTEGER_CHARS = 20
"""Maximum characters of an integer that NumPy can hold."""
_TIME_UNITS = ("D", "m", "s", "ms", "us")
"""Units of datetimes, the largest first."""

# The kinds of NumPy's types.
_BOOL = "b"
_FLOAT = "f"
_TEXT = "U"
_TIMEDELTA = "m"
_DATETIME = "M"
_NUMBER_KINDS = "iuf"
_TIME_KINDS = "mM"
_RANGED_KINDS = "biufmM"
"""The kinds whose smallest and largest value are shown."""


class NumPyColumn(Column):
    """Truth values, numbers, datetimes, timedeltas or texts in an array of NumPy."""

    def __init__(self, values: Any, kind: str = "", missing: Any = None) -> None:
        """Choose how the values are written.

        Args:
            values: A one-dimensional array.
            kind: The name of the type; empty for NumPy's.
            missing: An array that says of each value whether it is missing; None if the values
                themselves say so.
        """
        self._values = values
        self._missing = missing
        self._kind: str = values.dtype.kind
        self.type = kind or str(values.dtype)
        self.is_right_aligned = self._kind in _NUMBER_KINDS
        sample = values[:SAMPLED_ROWS]
        self._decimals: int | None = None
        """The decimals of floats; None for exponential notation."""
        if self._kind == _FLOAT:
            self._decimals = choose_decimals(sample.tolist())
        self._unit: str | None = None
        """NumPy's unit in which datetimes are written; None for that of the array."""
        if self._kind == _DATETIME:
            self._unit = _coarsest_unit(sample)

    def numbers(self) -> Any:
        if self._missing is None:
            return self._values
        return _numpy().where(self._missing, float("nan"), self._values)

    def texts(self, rows: Rows) -> list[str | None]:
        selection: slice | list[int]
        if isinstance(rows, range):
            selection = slice(rows.start, rows.stop)
        else:
            selection = list(rows)
        texts = self._write_values(self._values[selection])
        if self._missing is None:
            return texts
        missing = self._missing[selection].tolist()
        return [None if is_missing else text for text, is_missing in zip(texts, missing)]

    def _write_values(self, values: Any) -> list[str | None]:
        """Return the texts of an array's values; None for those that are missing by themselves."""
        if self._kind in _TIME_KINDS:
            return self._write_times(values)
        if self._kind == _FLOAT:
            return [float_text(float(value), self._decimals) for value in values.tolist()]
        return [cell_text(value) for value in values.tolist()]

    def _write_times(self, times: Any) -> list[str | None]:
        """Return the texts of datetimes or timedeltas; None for missing ones."""
        if self._kind == _DATETIME:
            texts = _numpy().datetime_as_string(times, unit=self._unit, casting="unsafe").tolist()
            return [None if text == "NaT" else text.replace("T", " ") for text in texts]
        timedeltas = times.astype("m8[us]").tolist()
        return [None if timedelta is None else str(timedelta) for timedelta in timedeltas]

    def order(self, descending: bool, selected_rows: Rows | None, deadline: Deadline) -> Rows:
        numpy = _numpy()
        values = self._values
        missing = self._missing_mask()
        chosen_rows = None
        if selected_rows is not None:
            chosen_rows = numpy.asarray(selected_rows, dtype="i8")
            values = values[chosen_rows]
            if missing is not None:
                missing = missing[chosen_rows]

        # From here on, values are known by their positions among the chosen rows.
        is_stable = self._kind != _FLOAT or len(values) < _MAX_STABLY_SORTED_FLOATS
        algorithm = "stable" if is_stable else None
        if descending:
            # The values are sorted backwards, so that equal ones keep their order.
            backward_positions = numpy.argsort(values[::-1], kind=algorithm)[::-1]
            positions = len(values) - 1 - backward_positions
        else:
            positions = numpy.argsort(values, kind=algorithm)
        deadline.check()
        if missing is not None and missing.any():
            present_positions = positions[~missing[positions]]
            positions = numpy.concatenate([present_positions, numpy.flatnonzero(missing)])
        if chosen_rows is None:
            return positions
        return chosen_rows[positions]

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        numpy = _numpy()
        missing = self._missing_mask()
        if missing is None:
            missing = numpy.zeros(len(self._values), dtype=bool)
        if condition.op == "missing":
            matches = missing
        elif condition.op == "present":
            matches = ~missing
        elif condition.op == "contains" and self._kind == _TEXT:
            texts = self._values
            if condition.ignores_case:
                texts = numpy.char.lower(texts)
            matches = numpy.char.find(texts, condition.operand) >= 0
        else:
            operand = self._read_operand(condition.operand)
            matches = condition.compare(self._values, operand) & ~missing
        return numpy.flatnonzero(matches)

    def _read_operand(self, text: str) -> Any:
        """Return the operand of a condition as a value of this type. Raises `InspectionError`."""
        try:
            if self._kind == _DATETIME:
                return _numpy().datetime64(text.replace(" ", "T"))
            if self._kind == _BOOL:
                return BOOLEANS[text.lower()]
            if self._kind == _TEXT:
                return text
            if self._kind != _TIMEDELTA:
                is_whole = text.lstrip("+-").isdigit() and len(text) <= _MAX_INTEGER_CHARS
                return int(text) if is_whole else float(text)
        except (ValueError, KeyError):
            pass
        raise not_comparable(text, self.type)

    def statistics(self, deadline: Deadline) -> Statistics:
        values = self._values
        missing = self._missing_mask()
        missing_count = 0 if missing is None else int(missing.sum())
        deadline.check()
        if self._kind not in _RANGED_KINDS or missing_count == len(values):
            return Statistics(missing_count)
        if missing_count:
            values = values[~missing]
            deadline.check()
        if self._kind in _TIME_KINDS:
            return self._time_statistics(values, missing_count)

        with _numpy().errstate(all="ignore"):
            low = values.min()
            high = values.max()
            mean = float(values.mean(dtype="f8"))
        deadline.check()
        sample = sampled(values).tolist()
        return number_statistics(missing_count, low.item(), high.item(), mean, sample)

    def _time_statistics(self, times: Any, missing_count: int) -> Statistics:
        """Return the statistics of datetimes or timedeltas.

        Args:
            times: The times that are not missing.
            missing_count: The number of the others.
        """
        ticks = times.view("i8")
        low = int(ticks.min())
        high = int(ticks.max())
        mean = int(ticks.mean())
        summary_times = _numpy().array([low, high, mean], dtype="i8").view(times.dtype)
        low_text, high_text, mean_text = self._write_times(summary_times)
        bars = histogram(sampled(ticks).tolist(), low, high)
        return Statistics(missing_count, low_text or "", high_text or "", mean_text or "", bars)

    def _missing_mask(self) -> Any:
        """Return an array that says of each value whether it is missing; None if none can be."""
        if self._missing is not None:
            return self._missing
        if self._kind == _FLOAT:
            return _numpy().isnan(self._values)
        if self._kind in _TIME_KINDS:
            return _numpy().isnat(self._values)
        return None


def _coarsest_unit(datetimes: Any) -> str | None:
    """Return the largest of `_TIME_UNITS` in which datetimes can be written exactly; None if none of
    them is exact."""
    present_times = datetimes[~_numpy().isnat(datetimes)]
    for unit in _TIME_UNITS:
        times_in_unit = present_times.astype(f"M8[{unit}]")
        if (times_in_unit == present_times).all():
            return unit
    return None


def _numpy() -> Any:
    return sys.modules["numpy"]
