"""Columns of numpy, pandas, Arrow and polars."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..objects import is_index, is_one_of, is_own_type
from ..variables import type_name
from .columns import (
    BOOLEANS,
    DISTINCT,
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

_MANY_FLOATS = 1_000_000


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
        selected = slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
        part = self._values[selected]
        if self._kind in "mM":
            found = self._format_moments(part)
        elif self._kind == "f":
            found = [float_text(float(value), self._decimals) for value in part.tolist()]
        else:
            found = [cell_text(value) for value in part.tolist()]
        if self._missing is None:
            return found
        missing = self._missing[selected].tolist()
        return [None if gone else text for text, gone in zip(found, missing)]

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        numpy = _numpy()
        values, missing = self._values, self._missing_mask()
        if among is not None:
            among = numpy.asarray(among, dtype="i8")
            values, missing = values[among], None if missing is None else missing[among]
        # None, which is not stable, is five times faster for floats.
        kind = "stable" if self._kind != "f" or len(values) < _MANY_FLOATS else None
        if descending:
            found = len(values) - 1 - numpy.argsort(values[::-1], kind=kind)[::-1]
        else:
            found = numpy.argsort(values, kind=kind)
        deadline.check()
        if missing is not None and missing.any():
            found = numpy.concatenate([found[~missing[found]], numpy.flatnonzero(missing)])
        return found if among is None else among[found]

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
        values, missing = self._values, self._missing_mask()
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
            first, last, mean = self._format_moments(
                numpy.array(ends, dtype="i8").view(values.dtype)
            )
            bars = histogram(sampled(ticks).tolist(), ends[0], ends[1])
            return Statistics(count, first or "", last or "", mean or "", bars)
        with numpy.errstate(all="ignore"):
            low, high, average = values.min(), values.max(), float(values.mean(dtype="f8"))
        deadline.check()
        sample = sampled(values).tolist()
        return number_statistics(count, low.item(), high.item(), average, sample)

    def _format_moments(self, part: Any) -> list[str | None]:
        if self._kind == "M":
            texts = _numpy().datetime_as_string(part, unit=self._unit, casting="unsafe").tolist()
            return [None if text == "NaT" else text.replace("T", " ") for text in texts]
        spans = part.astype("m8[us]").tolist()
        return [None if span is None else str(span) for span in spans]

    def _missing_mask(self) -> Any:
        if self._missing is not None:
            return self._missing
        if self._kind == "f":
            return _numpy().isnan(self._values)
        return _numpy().isnat(self._values) if self._kind in "mM" else None

    def _convert(self, text: str) -> Any:
        try:
            if self._kind == "M":
                return _numpy().datetime64(text.replace(" ", "T"))
            if self._kind == "b":
                return BOOLEANS[text.lower()]
            if self._kind == "U":
                return text
            if self._kind != "m":
                return int(text) if text.lstrip("+-").isdigit() else float(text)
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

    def __getitem__(self, row: Any) -> Any:
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
        missing = int(counts[0]) if len(codes) and codes[0] < 0 else 0
        used = zip(codes[: DISTINCT + 2].tolist(), counts.tolist())
        texts = [(cell_text(self._values.known[code]) or "", n) for code, n in used if code >= 0]
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
        moments = series.array.tz_convert(None) if foreign else series.array.tz_localize(None)
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
    known = values[~_numpy().isnat(values)]
    units = ("D", "m", "s", "ms", "us")
    return next((unit for unit in units if (known.astype(f"M8[{unit}]") == known).all()), None)


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
        found = self._local().to_numpy()
        return found.astype("f8") if found.dtype.kind == "O" and self.right else found

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
        found = Statistics(0)
        if self._kind in ("float", "int", "time"):
            found = self._converted().statistics(deadline)
        elif self._kind == "text":
            found = Statistics(0, top=format_top_values(self._count_texts()))
        return found._replace(missing=self._count_missing())


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


class ArrowColumn(_TypedColumn):
    def __init__(self, values: Any, name: str = "") -> None:
        types, kind = _arrow().types, values.type
        words = (word for test, word in _ARROW_KINDS.items() if getattr(types, test)(kind))
        super().__init__(values, name or str(kind), next(words, ""))

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            part = self._values.slice(rows.start, len(rows))
        else:
            part = self._values.take(_arrow().array(list(rows), type="int64"))
        return part.to_pylist()

    def _local(self) -> Any:
        if getattr(self._values.type, "tz", None) is None:
            return self._values
        return _compute().local_timestamp(self._values)

    def _matching_texts(self, condition: Condition) -> Rows:
        compute, (op, operand) = _compute(), condition
        if op == "contains":
            ignore_case = condition.ignores_case
            fits = compute.match_substring(self._values, operand, ignore_case=ignore_case)
        else:
            fits = getattr(compute, _ARROW_COMPARISONS[op])(self._values, operand)
        return compute.indices_nonzero(fits).to_pylist()

    def _count_missing(self) -> int:
        missing = self._values.is_null(nan_is_null=self._kind == "float")
        return _compute().sum(missing).as_py() or 0

    def _count_texts(self) -> list[tuple[str, int]]:
        counted = self._values.drop_null().value_counts()[: DISTINCT + 1]
        return list(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist()))

    def value(self, row: int) -> Any:
        return self._values[row].as_py()

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        arrow = _arrow()
        rows = None if among is None else arrow.array(list(map(int, among)), type="int64")
        values = self._values if rows is None else self._values.take(rows)
        try:
            keys = [("", "descending" if descending else "ascending")]
            found = _compute().sort_indices(values, sort_keys=keys)
        except arrow.ArrowException:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        return (found if rows is None else rows.take(found)).to_pylist()


class PolarsColumn(_TypedColumn):
    def __init__(self, values: Any) -> None:
        polars, dtype = sys.modules["polars"], values.dtype
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
        return "NaN" if type(value) is float and value != value else super()._format(value)

    def _local(self) -> Any:
        if getattr(self._values.dtype, "time_zone", None) is None:
            return self._values
        return self._values.dt.replace_time_zone(None)

    def _matching_texts(self, condition: Condition) -> Rows:
        texts = self._values.cast(sys.modules["polars"].String)
        if condition.op == "contains":
            texts = texts.str.to_lowercase() if condition.ignores_case else texts
            return texts.str.contains(condition.operand, literal=True).arg_true()
        return condition.compare(texts, condition.operand).arg_true()

    def _count_missing(self) -> int:
        return int(self._values.null_count())

    def _count_texts(self) -> list[tuple[str, int]]:
        texts = self._values.drop_nulls().cast(sys.modules["polars"].String)
        return texts.alias("value").value_counts().head(DISTINCT + 1).rows()

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            missing = self._values.is_null()
            return (missing if condition.op == "missing" else ~missing).arg_true()
        return super().matching(condition, deadline)

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        polars = sys.modules["polars"]
        rows = None if among is None else polars.Series(list(map(int, among)), dtype=polars.Int64)
        values = self._values if rows is None else self._values.gather(rows)
        try:
            values = values.fill_nan(None) if self._kind == "float" else values
            found = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        return found if rows is None else rows.gather(found)


def _arrow() -> Any:
    return sys.modules["pyarrow"]


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")
