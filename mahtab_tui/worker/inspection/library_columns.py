"""Columns of numpy, pandas, Arrow and polars."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..values.objects import is_index, is_one_of, is_own_type
from ..values.summaries import type_name
from .columns import (
    BOOLEANS,
    MAX_DISTINCT_VALUES,
    SAMPLED_ROWS,
    Column,
    Condition,
    Deadline,
    InspectionError,
    Rows,
    Statistics,
    cell_text,
    choose_decimals,
    float_text,
    format_top_values,
    histogram,
    is_safe_zone,
    not_comparable,
    number_statistics,
    sampled,
)

_MAX_STABLY_SORTED_FLOATS = 1_000_000

_ARROW_KINDS = {
    "is_floating": "float",
    **dict.fromkeys(("is_integer", "is_decimal"), "int"),
    **dict.fromkeys(("is_string", "is_large_string"), "text"),
    "is_temporal": "time",
    "is_boolean": "bool",
}
_ARROW_COMPARISONS = {
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
}


class NumberColumn(Column):
    """A one-dimensional numpy array of a kind in ``biufmMU``. missing: a mask, or None."""

    def __init__(self, values: Any, kind: str = "", missing: Any = None) -> None:
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
        kind = None
        if self._kind != "f" or len(values) < _MAX_STABLY_SORTED_FLOATS:
            kind = "stable"
        if descending:
            row_order = len(values) - 1 - numpy.argsort(values[::-1], kind=kind)[::-1]
        else:
            row_order = numpy.argsort(values, kind=kind)
        deadline.check()
        if missing is not None and missing.any():
            row_order = numpy.concatenate(
                [row_order[~missing[row_order]], numpy.flatnonzero(missing)]
            )
        if among is None:
            return row_order
        return among[row_order]

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        numpy = _numpy()
        missing = self._missing_mask()
        if missing is None:
            missing = numpy.zeros(len(self._values), dtype=bool)
        if condition.op in ("missing", "present"):
            fits = missing if condition.op == "missing" else ~missing
        elif condition.op == "contains" and self._kind == "U":
            if condition.ignores_case:
                texts = numpy.char.lower(self._values)
            else:
                texts = self._values
            fits = numpy.char.find(texts, condition.operand) >= 0
        else:
            fits = condition.compare(self._values, self._convert(condition.operand)) & ~missing
        return numpy.flatnonzero(fits)

    def statistics(self, deadline: Deadline) -> Statistics:
        values = self._values
        missing = self._missing_mask()
        count = 0 if missing is None else int(missing.sum())
        deadline.check()
        if self._kind not in "biufmM" or count == len(values):
            return Statistics(count)
        if count:
            values = values[~missing]
            deadline.check()
        numpy = _numpy()
        if self._kind in "mM":
            ticks = values.view("i8")
            ends = [int(ticks.min()), int(ticks.max()), int(ticks.mean())]
            earliest, latest, mean = self._format_moments(
                numpy.array(ends, dtype="i8").view(values.dtype)
            )
            bars = histogram(sampled(ticks).tolist(), ends[0], ends[1])
            return Statistics(count, earliest or "", latest or "", mean or "", bars)
        with numpy.errstate(all="ignore"):
            low = values.min()
            high = values.max()
            average = float(values.mean(dtype="f8"))
        deadline.check()
        sample = sampled(values).tolist()
        return number_statistics(count, low.item(), high.item(), average, sample)

    def _format_moments(self, moments: Any) -> list[str | None]:
        if self._kind == "M":
            texts = _numpy().datetime_as_string(moments, unit=self._unit, casting="unsafe").tolist()
            return [None if text == "NaT" else text.replace("T", " ") for text in texts]
        spans = moments.astype("m8[us]").tolist()
        return [None if span is None else str(span) for span in spans]

    def _missing_mask(self) -> Any:
        if self._missing is not None:
            return self._missing
        if self._kind == "f":
            return _numpy().isnan(self._values)
        if self._kind in "mM":
            return _numpy().isnat(self._values)
        return None

    def _convert(self, text: str) -> Any:
        try:
            if self._kind == "M":
                return _numpy().datetime64(text.replace(" ", "T"))
            if self._kind == "b":
                return BOOLEANS[text.lower()]
            if self._kind == "U":
                return text
            if self._kind != "m":
                if text.lstrip("+-").isdigit():
                    return int(text)
                return float(text)
        except (ValueError, KeyError):
            pass
        raise not_comparable(text, self.type)


class _Categories(Sequence[Any]):
    """The values of a Categorical of pandas; a missing one has the code -1."""

    def __init__(self, values: Any) -> None:
        self._codes = values.codes
        self.known = [*values.categories.tolist(), float("nan")]

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, row: object) -> Any:
        return self.known[self._codes[row]]


class CategoryColumn(Column):
    def __init__(self, values: Any) -> None:
        super().__init__(_Categories(values), "category")
        self._codes = values.codes

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        """Sort in the order of the categories."""
        codes = NumberColumn(self._codes, missing=self._codes < 0)
        return codes.order(descending, among, deadline)

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        numpy = _numpy()
        fits = numpy.zeros(len(self._values.known), dtype=bool)
        fits[list(Column(self._values.known).matching(condition, deadline))] = True
        return numpy.flatnonzero(fits[self._codes])

    def statistics(self, deadline: Deadline) -> Statistics:
        codes, counts = _numpy().unique(self._codes, return_counts=True)
        missing = 0
        if len(codes) and codes[0] < 0:
            missing = int(counts[0])
        counted_codes = zip(codes[: MAX_DISTINCT_VALUES + 2].tolist(), counts.tolist())
        texts = [
            (cell_text(self._values.known[code]) or "", n) for code, n in counted_codes if code >= 0
        ]
        return Statistics(missing, top=format_top_values(texts))


def column_of(series: Any) -> Column:
    dtype = series.dtype
    name = type(dtype).__name__
    if not is_own_type(dtype):
        raise InspectionError(f"Values of the type {name} are not supported.")
    if type(dtype).__module__.startswith("numpy"):
        return _array_column(series.to_numpy(), "")
    categories: Any = dtype.categories if name == "CategoricalDtype" else None
    if is_index(categories) and is_own_type(categories.dtype):
        return CategoryColumn(series.array)
    if name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return ArrowColumn(_arrow().chunked_array(series.array.__arrow_array__()), str(dtype))
    if name == "DatetimeTZDtype":
        foreign = has_foreign_zone(dtype)
        # A time zone of the user's would run their code.
        if foreign:
            moments = series.array.tz_convert(None)
        else:
            moments = series.array.tz_localize(None)
        return NumberColumn(moments.to_numpy(), dtype_text(dtype))
    if name == "SparseDtype":
        return _array_column(series.array.to_dense(), dtype_text(dtype))
    if getattr(dtype, "_is_numeric", False) or name == "BooleanDtype":
        filler = False if name == "BooleanDtype" else 0
        values = series.array.to_numpy(dtype=dtype.numpy_dtype, na_value=filler)
        return NumberColumn(values, str(dtype), series.array.isna())
    return Column(series.array, dtype_text(dtype))


def _array_column(values: Any, kind: str) -> Column:
    if values.dtype.kind in "biufmM":
        return NumberColumn(values, kind)
    return Column(values, kind or "object")


def has_foreign_zone(dtype: Any) -> bool:
    """Return whether a dtype has a time zone of the user's, whose code would run."""
    return is_one_of(dtype, "pandas", "DatetimeTZDtype") and not is_safe_zone(dtype.tz)


def dtype_text(dtype: Any) -> str:
    if has_foreign_zone(dtype):
        return f"datetime64[{dtype.unit}, {type_name(dtype.tz)}]"
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return f"interval[{dtype_text(dtype.subtype)}, {dtype.closed}]"
    if is_one_of(dtype, "pandas", "SparseDtype"):
        return f"Sparse[{dtype.subtype}]"
    return str(dtype)


def _coarsest_unit(values: Any) -> str | None:
    present_values = values[~_numpy().isnat(values)]
    units = ("D", "m", "s", "ms", "us")
    return next(
        (unit for unit in units if (present_values.astype(f"M8[{unit}]") == present_values).all()),
        None,
    )


def _numpy() -> Any:
    return sys.modules["numpy"]


class _TypedColumn(Column):
    def __init__(self, values: Any, name: str, kind: str) -> None:
        """kind: ``float``, ``int``, ``text``, ``time``, ``bool``, or empty."""
        self._values = values
        self.type = name
        self._kind = kind
        self.right = kind in ("float", "int")
        sample = range(min(SAMPLED_ROWS, len(values)))
        self._decimals = choose_decimals(self._read(sample)) if kind == "float" else 1

    def _read(self, rows: Rows) -> list[Any]:
        raise NotImplementedError

    def _local(self) -> Any:
        """Return the values, moments as they are shown, without their time zone."""
        raise NotImplementedError

    def _matching_texts(self, condition: Condition) -> Rows:
        raise NotImplementedError

    def _count_missing(self) -> int:
        raise NotImplementedError

    def _count_texts(self) -> list[tuple[str, int]]:
        raise NotImplementedError

    def texts(self, rows: Rows) -> list[str | None]:
        return list(map(self._format, self._read(rows)))

    def _format(self, value: Any) -> str | None:
        if self._kind == "float" and value is not None:
            return float_text(value, self._decimals)
        return cell_text(value)

    def numbers(self) -> Any:
        local_values = self._local().to_numpy()
        if local_values.dtype.kind == "O" and self.right:
            return local_values.astype("f8")
        return local_values

    def _converted(self) -> Column:
        """Return a column of numpy's values, or else of Python's."""
        if self._kind in ("float", "int", "time", "bool"):
            with suppress(ImportError):
                if self._kind in ("int", "bool") and self._count_missing():
                    filler = 0 if self._kind == "int" else False
                    numbers = self._values.fill_null(filler).to_numpy()
                    if numbers.dtype.kind in "iub":  # exact, unlike floats with NaN
                        return NumberColumn(numbers, self.type, self._values.is_null().to_numpy())
                numbers = self.numbers()  # a missing one is NaN
                if numbers.dtype.kind in "biufmM":
                    return NumberColumn(numbers, self.type)
        return Column(self._read(range(len(self._values))), self.type)

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if self._kind == "text" and condition.op not in ("missing", "present"):
            return self._matching_texts(condition)
        return self._converted().matching(condition, deadline)

    def statistics(self, deadline: Deadline) -> Statistics:
        column_statistics = Statistics(0)
        if self._kind in ("float", "int", "time"):
            column_statistics = self._converted().statistics(deadline)
        elif self._kind == "text":
            column_statistics = Statistics(0, top=format_top_values(self._count_texts()))
        return column_statistics._replace(missing=self._count_missing())


class ArrowColumn(_TypedColumn):
    def __init__(self, values: Any, name: str = "") -> None:
        """name: of the type in pandas, which reads NaN as missing; empty in a table of Arrow."""
        self._nan_is_missing = bool(name)
        types = _arrow().types
        kind = values.type
        words = (word for test, word in _ARROW_KINDS.items() if getattr(types, test)(kind))
        super().__init__(values, name or str(kind), next(words, ""))

    def _format(self, value: Any) -> str | None:
        if not self._nan_is_missing and type(value) is float and value != value:
            return "NaN"
        return super()._format(value)

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            missing = self._missing()
            compute = _compute()
            rows: Rows = compute.indices_nonzero(
                missing if condition.op == "missing" else compute.invert(missing)
            ).to_pylist()
            return rows
        return super().matching(condition, deadline)

    def _missing(self) -> Any:
        """Return an array of Arrow that says of each value whether it is missing."""
        is_float = self._kind == "float"
        return self._values.is_null(nan_is_null=is_float and self._nan_is_missing)

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            selected_values = self._values.slice(rows.start, len(rows))
        else:
            selected_values = self._values.take(_arrow().array(list(rows), type="int64"))
        return selected_values.to_pylist()

    def _local(self) -> Any:
        if getattr(self._values.type, "tz", None) is None:
            return self._values
        return _compute().local_timestamp(self._values)

    def _matching_texts(self, condition: Condition) -> Rows:
        compute = _compute()
        op, operand = condition
        if op == "contains":
            ignore_case = condition.ignores_case
            fits = compute.match_substring(self._values, operand, ignore_case=ignore_case)
        else:
            fits = getattr(compute, _ARROW_COMPARISONS[op])(self._values, operand)
        return compute.indices_nonzero(fits).to_pylist()

    def _count_missing(self) -> int:
        return _compute().sum(self._missing()).as_py() or 0

    def _count_texts(self) -> list[tuple[str, int]]:
        counted = self._values.drop_null().value_counts()[: MAX_DISTINCT_VALUES + 1]
        return list(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist()))

    def value(self, row: int) -> Any:
        return self._values[row].as_py()

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        arrow = _arrow()
        if among is None:
            rows = None
        else:
            rows = arrow.array(list(map(int, among)), type="int64")
        if rows is None:
            values = self._values
        else:
            values = self._values.take(rows)
        try:
            keys = [("", "descending" if descending else "ascending")]
            row_order = _compute().sort_indices(values, sort_keys=keys)
        except arrow.ArrowException:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        return (row_order if rows is None else rows.take(row_order)).to_pylist()


class PolarsColumn(_TypedColumn):
    def __init__(self, values: Any) -> None:
        polars = sys.modules["polars"]
        dtype = values.dtype
        if dtype.is_float():
            word = "float"
        elif dtype.is_numeric():
            word = "int"
        elif dtype in (polars.String, polars.Categorical, polars.Enum):
            word = "text"
        elif dtype.is_temporal():
            word = "time"
        else:
            word = "bool" if dtype == polars.Boolean else ""
        super().__init__(values, str(dtype).partition("(")[0].lower(), word)

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            return self._values.slice(rows.start, len(rows)).to_list()
        return self._values.gather(list(rows)).to_list()

    def _format(self, value: Any) -> str | None:
        # NaN is not a missing value.
        if type(value) is float and value != value:
            return "NaN"
        return super()._format(value)

    def _local(self) -> Any:
        if getattr(self._values.dtype, "time_zone", None) is None:
            return self._values
        return self._values.dt.replace_time_zone(None)

    def _matching_texts(self, condition: Condition) -> Rows:
        texts = self._values.cast(sys.modules["polars"].String)
        if condition.op == "contains":
            if condition.ignores_case:
                texts = texts.str.to_lowercase()
            return texts.str.contains(condition.operand, literal=True).arg_true()
        return condition.compare(texts, condition.operand).arg_true()

    def _count_missing(self) -> int:
        return int(self._values.null_count())

    def _count_texts(self) -> list[tuple[str, int]]:
        texts = self._values.drop_nulls().cast(sys.modules["polars"].String)
        return texts.alias("value").value_counts().head(MAX_DISTINCT_VALUES + 1).rows()

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            missing = self._values.is_null()
            return (missing if condition.op == "missing" else ~missing).arg_true()
        return super().matching(condition, deadline)

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        polars = sys.modules["polars"]
        if among is None:
            rows = None
        else:
            rows = polars.Series(list(map(int, among)), dtype=polars.Int64)
        if rows is None:
            values = self._values
        else:
            values = self._values.gather(rows)
        try:
            if self._kind == "float":
                values = values.fill_nan(None)
            row_order = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        if rows is None:
            return row_order
        return rows.gather(row_order)


def _arrow() -> Any:
    return sys.modules["pyarrow"]


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")
