"""Columns of Arrow and polars, whose values have one type each.

`ArrowColumn` also reads columns of pandas that are stored by Arrow. Both libraries compare, count and
sort their values themselves where they do it as the inspector needs it. For the rest, the values are
converted to an array of numpy (`numpy_column`), or else to Python's objects (`columns`).
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any, Literal

from .cell_texts import cell_text, choose_decimals, float_text
from .columns import Column, Rows
from .conditions import Condition
from .limits import Deadline, InspectionError
from .numpy_column import NumPyColumn
from .statistics import MAX_DISTINCT_VALUES, SAMPLED_ROWS, Statistics, format_top_values

Kind = Literal["float", "int", "text", "time", "bool", "other"]
"""What values are, whatever their size and the library. Decimal numbers are among the ``int``: they
have as many decimals as their type says, so none need to be chosen."""

_ARROW_KINDS: dict[str, Kind] = {
    "is_floating": "float",
    "is_integer": "int",
    "is_decimal": "int",
    "is_string": "text",
    "is_large_string": "text",
    "is_temporal": "time",
    "is_boolean": "bool",
}
"""Kinds, by the functions of `pyarrow.types` that recognise them."""
_ARROW_COMPARISONS = {
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
}
"""Functions of `pyarrow.compute`, by the `op` of a condition."""
_NUMPY_NUMBER_KINDS = "biufmM"
"""The kinds of numpy's types that a `NumPyColumn` may have, except for texts."""
_NUMPY_WHOLE_KINDS = "iub"


class _TypedColumn(Column):
    """A column of a library that knows the type of its values; derived classes read them."""

    def __init__(self, values: Any, type_name: str, kind: Kind) -> None:
        """Choose how the values are written.

        Args:
            values: The library's object.
            type_name: The name of their type, for the user.
            kind: What they are.
        """
        self._values = values
        self.type = type_name
        self._kind = kind
        self.is_right_aligned = kind in ("float", "int")
        sample = range(min(SAMPLED_ROWS, len(values)))
        self._decimals = choose_decimals(self._read(sample)) if kind == "float" else 1

    # What derived classes do in their own way

    def _read(self, rows: Rows) -> list[Any]:
        """Return some values as Python's objects; None for missing ones."""
        raise NotImplementedError

    def _without_zone(self) -> Any:
        """Return the values, datetimes as they are shown, without their time zone."""
        raise NotImplementedError

    def _rows_by_presence(self, *, is_present: bool) -> Rows:
        """Return the rows whose values are there, or those whose values are missing."""
        raise NotImplementedError

    def _matching_texts(self, condition: Condition) -> Rows:
        """Return the rows whose texts fulfil a condition."""
        raise NotImplementedError

    def _count_missing(self) -> int:
        raise NotImplementedError

    def _count_texts(self) -> list[tuple[str, int]]:
        """Return different texts, at most one more than can be counted, each with its number."""
        raise NotImplementedError

    # What they have in common

    def texts(self, rows: Rows) -> list[str | None]:
        return list(map(self._format, self._read(rows)))

    def _format(self, value: Any) -> str | None:
        """Return the text of a value; None if it is missing."""
        if self._kind == "float" and value is not None:
            return float_text(value, self._decimals)
        return cell_text(value)

    def numbers(self) -> Any:
        numbers = self._without_zone().to_numpy()
        # Decimal numbers, or whole ones with missing ones among them.
        if numbers.dtype.kind == "O" and self.is_right_aligned:
            return numbers.astype("f8")
        return numbers

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            return self._rows_by_presence(is_present=condition.op == "present")
        if self._kind == "text":
            return self._matching_texts(condition)
        return self._converted().matching(condition, deadline)

    def statistics(self, deadline: Deadline) -> Statistics:
        column_statistics = Statistics(missing=0)
        if self._kind in ("float", "int", "time"):
            column_statistics = self._converted().statistics(deadline)
        elif self._kind == "text":
            top = format_top_values(self._count_texts())
            column_statistics = Statistics(missing=0, top=top)
        return column_statistics._replace(missing=self._count_missing())

    def _converted(self) -> Column:
        """Return a column of numpy's values, or else of Python's."""
        if self._kind not in ("text", "other"):
            with suppress(ImportError):  # Arrow and polars work without numpy
                column = self._whole_column()
                if column is not None:
                    return column
                numbers = self.numbers()  # a missing one is NaN
                if numbers.dtype.kind in _NUMPY_NUMBER_KINDS:
                    return NumPyColumn(numbers, self.type)
        return Column(self._read(range(len(self._values))), self.type)

    def _whole_column(self) -> NumPyColumn | None:
        """Return a column of whole numbers or truth values with missing ones among them; None for other
        values.

        numpy would make floats of them, with NaN for the missing ones, and round large numbers.
        """
        if self._kind not in ("int", "bool") or not self._count_missing():
            return None
        filler = 0 if self._kind == "int" else False
        numbers = self._values.fill_null(filler).to_numpy()
        if numbers.dtype.kind not in _NUMPY_WHOLE_KINDS:
            return None
        return NumPyColumn(numbers, self.type, missing=self._values.is_null().to_numpy())


class ArrowColumn(_TypedColumn):
    """A column of Arrow, or of pandas with Arrow's values."""

    def __init__(self, values: Any, pandas_type: str = "") -> None:
        """Find the kind of the values.

        Args:
            values: A chunked array.
            pandas_type: The name of the type in pandas; empty in a table of Arrow. pandas takes NaN
                for a missing value, and Arrow does not.
        """
        self._nan_is_missing = bool(pandas_type)
        super().__init__(values, pandas_type or str(values.type), _arrow_kind(values.type))

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            return self._values.slice(rows.start, len(rows)).to_pylist()
        return self._values.take(_arrow_rows(rows)).to_pylist()

    def _format(self, value: Any) -> str | None:
        if not self._nan_is_missing and _is_nan(value):
            return "NaN"
        return super()._format(value)

    def value(self, row: int) -> Any:
        return self._values[row].as_py()

    def _without_zone(self) -> Any:
        if getattr(self._values.type, "tz", None) is None:
            return self._values
        return _compute().local_timestamp(self._values)

    def _rows_by_presence(self, *, is_present: bool) -> Rows:
        compute = _compute()
        matches = compute.invert(self._missing_mask()) if is_present else self._missing_mask()
        return compute.indices_nonzero(matches).to_pylist()

    def _missing_mask(self) -> Any:
        """Return an array of Arrow that says of each value whether it is missing."""
        is_float = self._kind == "float"
        return self._values.is_null(nan_is_null=is_float and self._nan_is_missing)

    def _matching_texts(self, condition: Condition) -> Rows:
        compute = _compute()
        if condition.op == "contains":
            matches = compute.match_substring(
                self._values, condition.operand, ignore_case=condition.ignores_case
            )
        else:
            compare = getattr(compute, _ARROW_COMPARISONS[condition.op])
            matches = compare(self._values, condition.operand)
        return compute.indices_nonzero(matches).to_pylist()

    def _count_missing(self) -> int:
        # The sum of no values is null.
        return _compute().sum(self._missing_mask()).as_py() or 0

    def _count_texts(self) -> list[tuple[str, int]]:
        counts = self._values.drop_null().value_counts()[: MAX_DISTINCT_VALUES + 1]
        return list(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist()))

    def order(self, descending: bool, selected_rows: Rows | None, deadline: Deadline) -> Rows:
        chosen_rows = None
        values = self._values
        if selected_rows is not None:
            chosen_rows = _arrow_rows(selected_rows)
            values = values.take(chosen_rows)
        direction = "descending" if descending else "ascending"
        try:
            # An array has no names of columns to sort by.
            positions = _compute().sort_indices(values, sort_keys=[("", direction)])
        except _arrow().ArrowException:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        if chosen_rows is None:
            return positions.to_pylist()
        return chosen_rows.take(positions).to_pylist()


class PolarsColumn(_TypedColumn):
    """A column of polars."""

    def __init__(self, values: Any) -> None:
        """
        Args:
            values: A Series.
        """
        # Without the parameters of the type, such as those of ``Datetime(time_unit='us', …)``.
        type_name = str(values.dtype).partition("(")[0].lower()
        super().__init__(values, type_name, _polars_kind(values.dtype))

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            return self._values.slice(rows.start, len(rows)).to_list()
        return self._values.gather(list(rows)).to_list()

    def _format(self, value: Any) -> str | None:
        # NaN is not a missing value.
        if _is_nan(value):
            return "NaN"
        return super()._format(value)

    def _without_zone(self) -> Any:
        if getattr(self._values.dtype, "time_zone", None) is None:
            return self._values
        return self._values.dt.replace_time_zone(None)

    def _rows_by_presence(self, *, is_present: bool) -> Rows:
        matches = self._values.is_not_null() if is_present else self._values.is_null()
        return matches.arg_true()

    def _matching_texts(self, condition: Condition) -> Rows:
        texts = _as_strings(self._values)
        if condition.op == "contains":
            if condition.ignores_case:
                texts = texts.str.to_lowercase()
            return texts.str.contains(condition.operand, literal=True).arg_true()
        return condition.compare(texts, condition.operand).arg_true()

    def _count_missing(self) -> int:
        return int(self._values.null_count())

    def _count_texts(self) -> list[tuple[str, int]]:
        texts = _as_strings(self._values.drop_nulls())
        return texts.alias("value").value_counts().head(MAX_DISTINCT_VALUES + 1).rows()

    def order(self, descending: bool, selected_rows: Rows | None, deadline: Deadline) -> Rows:
        polars = _polars()
        chosen_rows = None
        values = self._values
        if selected_rows is not None:
            chosen_rows = polars.Series(list(map(int, selected_rows)), dtype=polars.Int64)
            values = values.gather(chosen_rows)
        try:
            if self._kind == "float":
                # Like missing values, NaN comes last in both directions.
                values = values.fill_nan(None)
            positions = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        return positions if chosen_rows is None else chosen_rows.gather(positions)


def _as_strings(series: Any) -> Any:
    """Return a Series of polars with the strings of one of strings, categories or enums."""
    return series.cast(_polars().String)


def _is_nan(value: Any) -> bool:
    return type(value) is float and value != value


def _arrow_kind(dtype: Any) -> Kind:
    """Return the kind of a type of Arrow."""
    types = _arrow().types
    for test_name, kind in _ARROW_KINDS.items():
        if getattr(types, test_name)(dtype):
            return kind
    return "other"


def _polars_kind(dtype: Any) -> Kind:
    """Return the kind of a type of polars."""
    polars = _polars()
    if dtype.is_float():
        return "float"
    if dtype.is_numeric():
        return "int"
    if dtype in (polars.String, polars.Categorical, polars.Enum):
        return "text"
    if dtype.is_temporal():
        return "time"
    return "bool" if dtype == polars.Boolean else "other"


def _arrow_rows(rows: Rows) -> Any:
    """Return the numbers of rows as an array of Arrow."""
    return _arrow().array(list(map(int, rows)), type="int64")


# The libraries, which a cell has loaded if it has one of their columns


def _arrow() -> Any:
    return sys.modules["pyarrow"]


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")


def _polars() -> Any:
    return sys.modules["polars"]
