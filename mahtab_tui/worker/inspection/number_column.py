"""Columns of numpy."""

from __future__ import annotations

import sys
from typing import Any

from .cell_texts import cell_text, choose_decimals, float_text
from .columns import Column, Rows
from .conditions import BOOLEANS, Condition, not_comparable
from .limits import Deadline
from .statistics import SAMPLED_ROWS, Statistics, histogram, number_statistics, sampled

_MAX_STABLY_SORTED_FLOATS = 1_000_000
_MAX_EXACT_DIGITS = 20
"""Characters of the largest whole number that numpy can hold."""
_TIME_UNITS = ("D", "m", "s", "ms", "us")
"""Units of moments, the largest first."""


class NumberColumn(Column):
    """Numbers, times and texts in numpy's memory."""

    def __init__(self, values: Any, kind: str = "", missing: Any = None) -> None:
        """Choose how the values are written.

        Args:
            values: A one-dimensional numpy array of a kind in ``biufmMU``.
            kind: The name of the type; empty for numpy's.
            missing: An array that says of each value whether it is missing; None if the values
                themselves say so.
        """
        self._values = values
        self._missing = missing
        self._kind: str = values.dtype.kind
        self.type = kind or str(values.dtype)
        self.right = self._kind in "iuf"
        sample = values[:SAMPLED_ROWS]
        self._decimals = choose_decimals(sample.tolist()) if self._kind == "f" else 1
        self._unit = _coarsest_unit(sample) if self._kind == "M" else None

    def numbers(self) -> Any:
        if self._missing is None:
            return self._values
        return _numpy().where(self._missing, float("nan"), self._values)

    def texts(self, rows: Rows) -> list[str | None]:
        selected: slice | list[int]
        if isinstance(rows, range):
            selected = slice(rows.start, rows.stop)
        else:
            selected = list(rows)
        selected_values = self._values[selected]
        if self._kind in "mM":
            cell_texts = self._format_moments(selected_values)
        elif self._kind == "f":
            cell_texts = [
                float_text(float(value), self._decimals) for value in selected_values.tolist()
            ]
        else:
            cell_texts = [cell_text(value) for value in selected_values.tolist()]
        if self._missing is None:
            return cell_texts
        missing = self._missing[selected].tolist()
        return [None if is_missing else text for text, is_missing in zip(cell_texts, missing)]

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        numpy = _numpy()
        values = self._values
        missing = self._missing_mask()
        if among is not None:
            among = numpy.asarray(among, dtype="i8")
            values = values[among]
            missing = None if missing is None else missing[among]

        # None, which is not stable, is five times faster for floats.
        is_stable = self._kind != "f" or len(values) < _MAX_STABLY_SORTED_FLOATS
        algorithm = "stable" if is_stable else None
        if descending:
            # Sorted backwards, so that equal values keep their order.
            row_order = len(values) - 1 - numpy.argsort(values[::-1], kind=algorithm)[::-1]
        else:
            row_order = numpy.argsort(values, kind=algorithm)
        deadline.check()
        if missing is not None and missing.any():
            present_rows = row_order[~missing[row_order]]
            row_order = numpy.concatenate([present_rows, numpy.flatnonzero(missing)])
        return row_order if among is None else among[row_order]

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        numpy = _numpy()
        missing = self._missing_mask()
        if missing is None:
            missing = numpy.zeros(len(self._values), dtype=bool)
        if condition.op in ("missing", "present"):
            fits = missing if condition.op == "missing" else ~missing
        elif condition.op == "contains" and self._kind == "U":
            texts = numpy.char.lower(self._values) if condition.ignores_case else self._values
            fits = numpy.char.find(texts, condition.operand) >= 0
        else:
            fits = condition.compare(self._values, self._convert(condition.operand)) & ~missing
        return numpy.flatnonzero(fits)

    def statistics(self, deadline: Deadline) -> Statistics:
        values = self._values
        missing = self._missing_mask()
        missing_count = 0 if missing is None else int(missing.sum())
        deadline.check()
        if self._kind not in "biufmM" or missing_count == len(values):
            return Statistics(missing_count)
        if missing_count:
            values = values[~missing]
            deadline.check()
        if self._kind in "mM":
            return self._moment_statistics(values, missing_count)

        with _numpy().errstate(all="ignore"):
            low = values.min()
            high = values.max()
            mean = float(values.mean(dtype="f8"))
        deadline.check()
        sample = sampled(values).tolist()
        return number_statistics(missing_count, low.item(), high.item(), mean, sample)

    def _moment_statistics(self, moments: Any, missing_count: int) -> Statistics:
        """Return the statistics of moments or of spans of time, without missing ones."""
        ticks = moments.view("i8")
        summary_ticks = [int(ticks.min()), int(ticks.max()), int(ticks.mean())]
        summary_moments = _numpy().array(summary_ticks, dtype="i8").view(moments.dtype)
        earliest, latest, mean = self._format_moments(summary_moments)
        bars = histogram(sampled(ticks).tolist(), summary_ticks[0], summary_ticks[1])
        return Statistics(missing_count, earliest or "", latest or "", mean or "", bars)

    def _format_moments(self, moments: Any) -> list[str | None]:
        """Return the texts of moments or of spans of time; None for missing ones."""
        if self._kind == "M":
            texts = _numpy().datetime_as_string(moments, unit=self._unit, casting="unsafe").tolist()
            return [None if text == "NaT" else text.replace("T", " ") for text in texts]
        spans = moments.astype("m8[us]").tolist()
        return [None if span is None else str(span) for span in spans]

    def _missing_mask(self) -> Any:
        """Return an array that says of each value whether it is missing; None if none can be."""
        if self._missing is not None:
            return self._missing
        if self._kind == "f":
            return _numpy().isnan(self._values)
        if self._kind in "mM":
            return _numpy().isnat(self._values)
        return None

    def _convert(self, text: str) -> Any:
        """Return the operand of a condition as a value of this type. Raises `InspectionError`."""
        try:
            if self._kind == "M":
                return _numpy().datetime64(text.replace(" ", "T"))
            if self._kind == "b":
                return BOOLEANS[text.lower()]
            if self._kind == "U":
                return text
            if self._kind != "m":
                is_whole = text.lstrip("+-").isdigit() and len(text) <= _MAX_EXACT_DIGITS
                return int(text) if is_whole else float(text)
        except (ValueError, KeyError):
            pass
        raise not_comparable(text, self.type)


def _coarsest_unit(moments: Any) -> str | None:
    """Return the largest of numpy's units in which moments can be written; None if none of these
    is exact."""
    present_moments = moments[~_numpy().isnat(moments)]
    for unit in _TIME_UNITS:
        if (present_moments.astype(f"M8[{unit}]") == present_moments).all():
            return unit
    return None


def _numpy() -> Any:
    return sys.modules["numpy"]
