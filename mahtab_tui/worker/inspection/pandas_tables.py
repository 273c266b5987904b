"""numpy arrays and pandas tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..objects import class_module, is_index, is_one_of, is_own_type
from ..variables import type_name
from .arrow_tables import ArrowColumn
from .columns import (
    BARS,
    BOOLEANS,
    DISTINCT,
    SAMPLE,
    SAMPLED_ROWS,
    ZONES,
    Column,
    Condition,
    Deadline,
    InspectionError,
    ObjectColumn,
    Statistics,
    Table,
    as_slice,
    cell_text,
    choose_decimals,
    compare,
    float_text,
    format_top_values,
    key_text,
    not_comparable,
    number_text,
)

_MANY = 1_000_000
"""Number of floats from which sorting is not stable."""


class NumberColumn:
    """A one-dimensional numpy array whose kind is one of ``biufcmMUS``. missing: a mask, if the
    array cannot represent missing values."""

    def __init__(self, values: Any, type: str = "", missing: Any = None) -> None:
        self._values = values
        self._missing = missing
        self._kind: str = values.dtype.kind
        self.type = type or str(values.dtype)
        self.right = self._kind in "iufc"
        self._decimals = (
            choose_decimals(map(float, values[:SAMPLED_ROWS].tolist())) if self._kind == "f" else 1
        )
        self._unit = _unit(values[:SAMPLED_ROWS]) if self._kind == "M" else None

    @property
    def numbers(self) -> Any:
        """The numbers, with NaN for missing ones."""
        return (
            self._values
            if self._missing is None
            else _numpy().where(self._missing, float("nan"), self._values)
        )

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        selected = as_slice(rows)
        part = self._values[selected]
        found: list[str | None]
        if self._kind in "mM":
            found = self._moments(part)
        elif self._kind == "f":
            found = [float_text(float(value), self._decimals) for value in part.tolist()]
        elif self._kind == "c":
            found = [str(value) for value in part.tolist()]
        else:
            found = [cell_text(value) for value in part.tolist()]
        if self._missing is not None:
            found = [
                None if missing else text
                for text, missing in zip(found, self._missing[selected].tolist())
            ]
        return found

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        numpy = _numpy()
        values, missing = self._values, self._gone()
        if self._kind == "c":
            raise InspectionError("Complex numbers cannot be sorted.")
        if among is not None:
            among = numpy.asarray(among, dtype="i8")
            values, missing = values[among], None if missing is None else missing[among]
        # None, which is not stable, is five times faster for floats.
        kind = "stable" if self._kind != "f" or len(values) < _MANY else None
        # Descending order is stable too.
        found = (
            len(values) - 1 - numpy.argsort(values[::-1], kind=kind)[::-1]
            if descending
            else numpy.argsort(values, kind=kind)
        )
        deadline.check()
        if missing is not None and missing.any():
            found = numpy.concatenate([found[~missing[found]], numpy.flatnonzero(missing)])
        return found if among is None else among[found]  # type: ignore[no-any-return]

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        numpy = _numpy()
        missing = self._gone()
        if condition.op in ("missing", "present"):
            missing = numpy.zeros(len(self._values), dtype=bool) if missing is None else missing
            return numpy.flatnonzero(missing if condition.op == "missing" else ~missing)  # type: ignore[no-any-return]
        if condition.op == "contains" and self._kind in "US":
            wanted = condition.operand if self._kind == "U" else condition.operand.encode()
            return numpy.flatnonzero(numpy.char.find(self._values, wanted) >= 0)  # type: ignore[no-any-return]
        fits = compare(self._values, condition.op, self._operand(condition.operand))
        return numpy.flatnonzero(fits if missing is None else fits & ~missing)  # type: ignore[no-any-return]

    def statistics(self, deadline: Deadline) -> Statistics:
        numpy = _numpy()
        values, missing = self._values, self._gone()
        count = 0 if missing is None else int(missing.sum())
        deadline.check()
        if self._kind not in "biufmM" or count == len(values):
            return Statistics(count)
        if count:
            values = values[~missing]
            deadline.check()
        if self._kind in "mM":
            low, high = values.min(), values.max()
            ticks = values.view("i8")
            middle = numpy.array(int(ticks.mean()), dtype="i8").view(values.dtype)
            first, last, mean = (
                text or ""
                for text in self._moments(numpy.array([low, high, middle], dtype=values.dtype))
            )
            return Statistics(
                count, first, last, mean, _bars(ticks, int(low.view("i8")), int(high.view("i8")))
            )
        with numpy.errstate(all="ignore"):
            low, high, average = values.min(), values.max(), float(values.mean(dtype="f8"))
            deadline.check()
            if self._kind == "b":
                return Statistics(
                    count,
                    str(bool(low)),
                    str(bool(high)),
                    number_text(average),
                    _bars(values.view("i1"), 0, 1),
                )
            shown = (
                [str(int(low)), str(int(high))]
                if self._kind in "iu"
                else [number_text(float(low)), number_text(float(high))]
            )
            return Statistics(
                count,
                shown[0],
                shown[1],
                number_text(average),
                _bars(values, float(low), float(high)),
            )

    def _moments(self, part: Any) -> list[str | None]:
        """Format datetimes or timedeltas."""
        numpy = _numpy()
        if self._kind == "M":
            texts = numpy.datetime_as_string(part, unit=self._unit, casting="unsafe").tolist()
            return [None if text == "NaT" else text.replace("T", " ") for text in texts]
        spans = part.astype("m8[us]").tolist()
        return [None if span is None else str(span) for span in spans]

    def _gone(self) -> Any:
        """Return a mask of missing values; None if there can be none."""
        if self._missing is not None:
            return self._missing
        if self._kind in "fc":
            return _numpy().isnan(self._values)
        return _numpy().isnat(self._values) if self._kind in "mM" else None

    def _operand(self, text: str) -> Any:
        """Convert a condition's operand to the array's type."""
        try:
            if self._kind == "M":
                return _numpy().datetime64(text.replace(" ", "T"))
            if self._kind == "m":
                number, _, unit = text.partition(" ")
                return _numpy().timedelta64(int(number), unit or "s")
            if self._kind == "b":
                return BOOLEANS[text.lower()]
            if self._kind in "US":
                return text if self._kind == "U" else text.encode()
            if self._kind == "c":
                return complex(text)
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        except (
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
        ):
            # TypeError and OverflowError for unknown units and for numbers that are too large.
            raise not_comparable(text, self.type) from None


class MatrixTable(Table):
    """A numpy array of one or two dimensions; its columns are those of the second dimension, or the
    fields of a record array."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._fields: tuple[str, ...] = value.dtype.names or ()
        self.rows: int = value.shape[0]
        self.columns: int = len(self._fields) or (value.shape[1] if value.ndim == 2 else 1)

    def name(self, column: int) -> str:
        return (
            self._fields[column] if self._fields else str(column) if self._value.ndim == 2 else ""
        )

    def column(self, column: int) -> Column:
        values = self.series(column)
        if values.dtype.kind in "biufcmMUS" and values.ndim == 1:
            return NumberColumn(values)
        if values.dtype.kind in "OT":
            return ObjectColumn(values)
        raise InspectionError(f"Values of the type {values.dtype} are not supported.")

    def series(self, column: int) -> Any:
        if self._fields:
            return self._value[self._fields[column]]
        return self._value[:, column] if self._value.ndim == 2 else self._value

    def expression(self, column: int) -> str:
        if self._fields:
            return f"[{self._fields[column]!r}]"
        return f"[:, {column}]" if self._value.ndim == 2 else ""

    def cell_expression(self, row: int, column: int) -> str:
        if self._fields:
            return f"[{self._fields[column]!r}][{row}]"
        return f"[{row}, {column}]" if self._value.ndim == 2 else f"[{row}]"


def _bars(values: Any, low: float, high: float) -> Sequence[int]:
    if not 0 < high - low < float("inf"):
        return ()
    counts: Sequence[int] = (
        _numpy()
        .histogram(values[:: max(1, len(values) // SAMPLE)], bins=BARS, range=(low, high))[0]
        .tolist()
    )
    return counts


def _unit(values: Any) -> str | None:
    """Return the coarsest unit that shows some datetimes exactly; None for their own unit."""
    numpy = _numpy()
    known = values[~numpy.isnat(values)]
    return next(
        (
            unit
            for unit in ("D", "m", "s", "ms", "us")
            if (known.astype(f"M8[{unit}]") == known).all()
        ),
        None,
    )


def _numpy() -> Any:
    """Return numpy, which is already loaded if there is one of its arrays."""
    return sys.modules["numpy"]


class PandasTable(Table):
    """A DataFrame, or a Series or an Index as its only column."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._frame = value.ndim == 2
        self.rows: int = value.shape[0]
        self.columns: int = value.shape[1] if self._frame else 1

    def name(self, column: int) -> str:
        return key_text(self._value.columns[column] if self._frame else self._value.name)

    def column(self, column: int) -> Column:
        return column_of(self.series(column))

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        index: Any = getattr(self._value, "index", None)
        if index is None or not all(
            map(is_own_type, index.dtypes if hasattr(index, "levels") else [index.dtype])
        ):
            return None
        part = index[rows.start : rows.stop] if isinstance(rows, range) else index[list(rows)]
        # A foreign time zone's code would be called by the labels' own methods.
        if not hasattr(index, "levels") and has_foreign_zone(index.dtype):
            return [text or "—" for text in column_of(part).texts(range(len(part)))]
        return [key_text(label) for label in part.tolist()]

    def expression(self, column: int) -> str:
        if not self._frame:
            return ""
        names = list(self._value.columns)
        alone = (
            type(names[column]) is str
            and sum(type(name) is str and name == names[column] for name in names) == 1
        )
        return f"[{names[column]!r}]" if alone else f".iloc[:, {column}]"

    def series(self, column: int) -> Any:
        return self._value.iloc[:, column] if self._frame else self._value

    def cell_expression(self, row: int, column: int) -> str:
        if self._frame:
            return f".iloc[{row}, {column}]"
        return f".iloc[{row}]" if hasattr(self._value, "iloc") else f"[{row}]"


def column_of(series: Any) -> Column:
    """Create the column for a Series, by its dtype."""
    dtype = series.dtype
    name = type(dtype).__name__
    if not is_own_type(dtype):
        raise InspectionError(f"Values of the type {name} are not supported.")
    if type(dtype).__module__.startswith("numpy"):
        values = series.to_numpy()
        return NumberColumn(values) if dtype.kind in "biufcmM" else ObjectColumn(values)
    if (
        name == "CategoricalDtype"
        and is_index(dtype.categories)
        and is_own_type(dtype.categories.dtype)
    ):
        return CategoryColumn(series.array)
    if name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return ArrowColumn(
            sys.modules["pyarrow"].chunked_array(series.array.__arrow_array__()), str(dtype)
        )
    if name == "DatetimeTZDtype":
        foreign = has_foreign_zone(dtype)
        # A time zone of the user's would run their code.
        moments = series.array.tz_convert(None) if foreign else series.array.tz_localize(None)
        return NumberColumn(moments.to_numpy(), dtype_text(dtype))
    if name == "SparseDtype":
        values = series.array.to_dense()
        numeric = values.dtype.kind in "biufcmM"
        return (
            NumberColumn(values, dtype_text(dtype))
            if numeric
            else ObjectColumn(values, dtype_text(dtype))
        )
    if getattr(dtype, "_is_numeric", False) or name == "BooleanDtype":
        missing = series.array.isna()
        values = series.array.to_numpy(
            dtype=dtype.numpy_dtype, na_value=False if name == "BooleanDtype" else 0
        )
        return NumberColumn(values, str(dtype), missing)
    return ObjectColumn(series.array, dtype_text(dtype))


def has_foreign_zone(dtype: Any) -> bool:
    """Return whether a dtype has a time zone of the user's, whose code would run."""
    return (
        is_one_of(dtype, "pandas", "DatetimeTZDtype")
        and class_module(type(dtype.tz)).partition(".")[0] not in ZONES
    )


def dtype_text(dtype: Any) -> str:
    """Format a dtype of numpy or pandas. User objects inside it, such as a time zone, are shown by
    their type."""
    if has_foreign_zone(dtype):
        return f"datetime64[{dtype.unit}, {type_name(dtype.tz)}]"
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return f"interval[{dtype_text(dtype.subtype)}, {dtype.closed}]"
    if is_one_of(dtype, "pandas", "SparseDtype"):
        return f"Sparse[{dtype.subtype}]"
    return str(dtype)


class CategoryColumn:
    """A Categorical, sorted in the order of its categories."""

    right = False

    def __init__(self, values: Any) -> None:
        self._values = values
        self._codes = values.codes
        self.type = "category"

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        codes = self._codes[as_slice(rows)].tolist()
        categories = self._values.categories
        known = {code: cell_text(categories[code]) for code in set(codes) if code >= 0}
        return [known.get(code) for code in codes]

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        return NumberColumn(self._codes, missing=self._codes < 0).order(descending, among, deadline)

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        if condition.op in ("missing", "present"):
            return NumberColumn(self._codes, missing=self._codes < 0).matching(condition, deadline)
        fitting = ObjectColumn(self._values.categories).matching(condition, deadline)
        numpy = sys.modules["numpy"]
        found: Sequence[int] = numpy.flatnonzero(numpy.isin(self._codes, list(fitting)))
        return found

    def statistics(self, deadline: Deadline) -> Statistics:
        missing = int((self._codes < 0).sum())
        counts = sys.modules["numpy"].bincount(self._codes[self._codes >= 0], minlength=1)
        categories, used = self._values.categories, counts.nonzero()[0].tolist()
        if len(used) > DISTINCT:
            return Statistics(missing)
        return Statistics(
            missing,
            top=format_top_values(
                (cell_text(categories[code]) or "", int(counts[code])) for code in used
            ),
        )
