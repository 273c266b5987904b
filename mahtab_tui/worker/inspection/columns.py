"""Values of tables as short texts, sorting, conditions and statistics."""

from __future__ import annotations

import heapq
import math
import operator
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple

from ..values.objects import (
    NUMBERS,
    Classes,
    TimeLimitError,
    class_module,
    get_if_loaded,
    is_one_of,
    run_with_timeout,
)
from ..values.summaries import one_line, summary, type_name

USER_CODE_TIMEOUT_S = 2.0
"""For an object's own code, run at the user's request."""
_MAX_ERROR_CHARS = 500

MAX_CELL_CHARS = 200
_SIZED = Classes(list, tuple, set, frozenset, dict, bytearray, memoryview)
"""Types of values in a cell that are named, because their summary is only a size."""
_SAFE_ZONES = ("zoneinfo", "datetime", "pytz", "dateutil")
"""Packages of time zones whose code may run."""

SAMPLED_ROWS = 200
"""Rows by which the number of decimals is chosen."""
_SAMPLED_OBJECTS = 100
"""Objects by which a column of numbers is recognised."""
HISTOGRAM_BARS = 8
SAMPLED_VALUES = 20_000
"""Values of which a histogram is made."""
TOP_VALUES = 4
"""Most common texts that are listed."""
MAX_DISTINCT_VALUES = 100_000
"""Columns with more distinct values are not counted."""
_MAX_VALUE_CHARS = 24

# Numbers from these sizes on, or below, are written with an exponent.
_MAX_EXACT_FLOAT = 1e15
_MAX_STATISTIC = 1e9
_MIN_PLAIN_FLOAT = 1e-3
_MAX_DECIMALS = 4
_MAX_AVERAGED = 1e300
"""Larger numbers are left out of a mean, which would become infinite."""

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_CONDITION = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "contains": operator.eq,
}
"""Except for texts, ``contains`` means ``==``."""

_SORTED_CHUNK_OBJECTS = 20_000
"""Objects to sort in one step, during which no other thread runs."""
_DEADLINE_CHECK_INTERVAL = 4096
"""Rows between two looks at the clock."""

# Of values of different kinds, numbers are sorted before texts, and texts before others.
_NUMBER_RANK = 0
_TEXT_RANK = 1
_OTHER_RANK = 2


class InspectionError(Exception):
    """The message is a sentence for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer."""


def run_limited(
    work: Callable[[], object], subject: str, seconds: float = USER_CODE_TIMEOUT_S
) -> Any:
    """Run an object's code.

    Args:
        work: Runs it.
        subject: What it is, as the beginning of a sentence.
        seconds: Time limit.

    Returns:
        What `work` returns.

    Raises:
        InspectionError: It took too long, or raised an error.
    """
    try:
        return run_with_timeout(seconds, work)
    except TimeLimitError:
        raise InspectionError(f"{subject} did not end within {seconds:g} s.") from None
    except InspectionError:
        raise
    except BaseException as error:  # raised by the object's code, including SystemExit
        raise InspectionError(f"{subject} raised {error_text(error)}") from None


def error_text(error: BaseException) -> str:
    """Return an error as the end of a sentence."""
    try:
        text = one_line(str(error), _MAX_ERROR_CHARS)
    except BaseException:  # the message's code may fail too
        text = ""
    if text:
        return f"{type_name(error)}: {text}"
    return f"{type_name(error)}."


class Deadline:
    """The time that an answer may take."""

    def __init__(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Start the clock.

        Args:
            seconds: Time limit.
            over: Returns whether the user has moved on.
        """
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._is_abandoned = over

    def check(self) -> None:
        """Raises `AbandonedError` if nobody waits, or `InspectionError` if time is over."""
        if self._is_abandoned():
            raise AbandonedError("No one is waiting for this answer.")
        if time.monotonic() > self._end:
            raise InspectionError(f"This took longer than {self.seconds:g} s and was stopped.")


# Texts of values


def cell_text(value: Any) -> str | None:
    """Format a value as one line, by its exact type; None if it is missing."""
    cls = type(value)
    if cls is str:
        return one_line(value, MAX_CELL_CHARS)
    if value is None or (cls is float and value != value):
        return None
    if cls is int or cls is float or cls is bool:
        return summary(value)
    if is_one_of(value, "pandas", "Timestamp"):
        # A time zone of the user's would run their code.
        has_foreign_zone = value.tzinfo is not None and not is_safe_zone(value.tzinfo)
        if has_foreign_zone:
            return f"Timestamp {value.value} ns"
        return str(value)
    if is_one_of(value, "pandas", "Timedelta", "Period", "Interval"):
        return one_line(str(value), MAX_CELL_CHARS)
    if value is get_if_loaded("pandas", "NaT") or value is get_if_loaded("pandas", "NA"):
        return None
    about = summary(value)
    if cls in _SIZED or not about:
        return one_line(f"{type_name(value)} {about}".rstrip(), MAX_CELL_CHARS)
    return about


def is_safe_zone(zone: object) -> bool:
    """Return whether a time zone is of a known library, so that its code may run."""
    return class_module(type(zone)).partition(".")[0] in _SAFE_ZONES


def choose_decimals(sample: Iterable[float | None]) -> int | None:
    """Return how many decimals the floats of a column have; None for exponential notation."""
    sizes = [abs(float(value)) for value in sample if value and math.isfinite(value)]
    if sizes and (max(sizes) >= _MAX_EXACT_FLOAT or max(sizes) < _MIN_PLAIN_FLOAT):
        return None
    decimals = 1
    for size_text in map(repr, sizes):
        if "e" not in size_text:
            decimals = max(decimals, len(size_text.partition(".")[2]))
    return min(decimals, _MAX_DECIMALS)


def float_text(value: float, decimals: int | None) -> str | None:
    """Format a float of a column, with the number of decimals from `choose_decimals`; None for
    NaN."""
    if value != value:
        return None
    if decimals is None or (value and abs(value) < 0.5 * 10**-decimals):
        return f"{value:.4e}"
    return f"{value:.{decimals}f}"


def number_text(value: float) -> str:
    """Format a statistic, with separators and without digits that say little."""
    if value != value:
        return "—"
    size = abs(value)
    if math.isfinite(value) and value == int(value):
        return f"{int(value):,}" if size < _MAX_EXACT_FLOAT else f"{value:.4e}"
    if size >= _MAX_STATISTIC or size < _MIN_PLAIN_FLOAT:
        return f"{value:.4e}"
    if size < 1000:
        return f"{value:.4g}"
    return f"{value:,.1f}"


class Statistics(NamedTuple):
    """What a column contains. Texts, because dates have them too."""

    missing: int
    """Number of missing values."""
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    """The histogram: numbers of values in `HISTOGRAM_BARS` ranges of the same width."""
    top: Sequence[str] = ()
    """The most common texts."""


def number_statistics(
    missing: int, low: Any, high: Any, mean: float, sample: Iterable[Any]
) -> Statistics:
    """Return the statistics of a column of numbers.

    Args:
        missing: Number of missing values.
        low: The smallest number.
        high: The largest number.
        mean: The mean.
        sample: Some of the numbers.
    """
    bars = histogram(sample, float(low), float(high))
    return Statistics(missing, _extreme_text(low), _extreme_text(high), number_text(mean), bars)


def _extreme_text(value: Any) -> str:
    if type(value) is bool:
        return str(value)
    if type(value) is int:
        return f"{value:,}"
    return number_text(float(value))


def histogram(sample: Iterable[Any], low: float, high: float) -> Sequence[int]:
    """Count the values in each part of the range from `low` to `high`; empty if there is no such
    range."""
    bar_width = (high - low) / HISTOGRAM_BARS
    if not 0 < bar_width < float("inf"):
        return ()
    counts = [0] * HISTOGRAM_BARS
    for value in sample:
        bar = int((float(value) - low) / bar_width)
        counts[min(bar, HISTOGRAM_BARS - 1)] += 1
    return counts


def sampled(values: Any) -> Any:
    """Return some of the values, at the same distance from each other."""
    return values[:: max(1, len(values) // SAMPLED_VALUES)]


def format_top_values(counts: Collection[tuple[str, int]]) -> Sequence[str]:
    """Format the most common texts, as in ``berlin ×412``, or say that all differ."""
    if not 0 < len(counts) <= MAX_DISTINCT_VALUES:
        return ()
    top = sorted(counts, key=lambda counted_value: -counted_value[1])[:TOP_VALUES]
    if len(top) > 1 and top[0][1] == 1:
        return (f"all {len(counts):,} differ",)
    return [f"{one_line(text, _MAX_VALUE_CHARS)} ×{count:,}" for text, count in top]


class Condition(NamedTuple):
    """What the values of the rows that are shown must be. Missing values only match ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""

    def compare(self, values: object, operand: object) -> Any:
        """Compare a value, or all values of an array, with the operand as a value of their type."""
        return _COMPARISONS[self.op](values, operand)

    @property
    def ignores_case(self) -> bool:
        """Whether ``contains`` ignores case: unless the operand has capital letters."""
        return not any(map(str.isupper, self.operand))


def parse_condition(text: str) -> Condition:
    """Parse ``> 5``, ``= berlin``, ``missing`` or ``present``; other texts must be contained."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    match = _CONDITION.fullmatch(text)
    if match is None:
        return Condition("contains", text.strip())
    sign = match[1]
    return Condition("==" if sign == "=" else sign, match[2].strip())


def not_comparable(operand: str, kind: str) -> InspectionError:
    """Return the error for a condition that the values of a type do not have."""
    return InspectionError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")


Rows = Sequence[int]


class Column:
    """A column of any objects, whose code does not run."""

    type: str
    """The name of the type, as the library has it."""
    right = False
    """Whether the values stand at the right, as numbers do."""

    def __init__(self, values: Any, kind: str = "object") -> None:
        """Recognise whether the values are numbers.

        Args:
            values: A sequence; access must run no code of the items.
            kind: The name of their type.
        """
        self._values = values
        self.type = kind
        sample = [values[row] for row in range(min(_SAMPLED_OBJECTS, len(values)))]
        present_values = [value for value in sample if cell_text(value) is not None]
        are_numbers = all(type(value) in NUMBERS for value in present_values)
        self.right = bool(present_values) and are_numbers

    def texts(self, rows: Rows) -> list[str | None]:
        """Return the texts of some values; None for missing ones."""
        return [cell_text(self._values[row]) for row in rows]

    def value(self, row: int) -> Any:
        """Return a value itself."""
        return self._values[row]

    def numbers(self) -> Any:
        """Return numbers for a plot as a numpy array; None if there are none."""
        return None

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        """Sort rows stably, those with missing values last.

        Args:
            descending: Whether the largest values come first.
            among: The numbers of the rows; None for all.
            deadline: Ends it.

        Raises:
            InspectionError: The values have no order.
        """
        rows = range(len(self._values)) if among is None else among
        sorted_chunks: list[list[tuple[tuple[int, Any], int]]] = []
        missing_rows: list[int] = []
        for start in range(0, len(rows), _SORTED_CHUNK_OBJECTS):
            deadline.check()
            chunk = []
            for row in rows[start : start + _SORTED_CHUNK_OBJECTS]:
                key = _sort_key(self._values[row])
                if key is None:
                    missing_rows.append(row)
                else:
                    # Of equal values, the first row comes first in both directions.
                    chunk.append((key, -row if descending else row))
            sorted_chunks.append(sorted(chunk, reverse=descending))

        ordered_rows = []
        for count, (_, row) in enumerate(heapq.merge(*sorted_chunks, reverse=descending)):
            if count % _DEADLINE_CHECK_INTERVAL == 0:
                deadline.check()
            ordered_rows.append(abs(row))
        return ordered_rows + missing_rows

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        """Return the numbers of the rows whose values fulfil a condition. Raises `InspectionError` if
        it does not apply."""
        fits = _make_predicate(condition)
        return [row for row, value in self._numbered_values(deadline) if fits(value)]

    def statistics(self, deadline: Deadline) -> Statistics:
        """Count missing values; describe the others if all are numbers, or all are texts."""
        missing = 0
        numbers: list[Any] = []
        text_counts: dict[str, int] = {}
        has_texts = False
        has_others = False
        for _, value in self._numbered_values(deadline):
            if type(value) in NUMBERS and value == value:
                numbers.append(value)
            elif type(value) is str:
                has_texts = True
                if len(text_counts) <= MAX_DISTINCT_VALUES:
                    text_counts[value] = text_counts.get(value, 0) + 1
            elif cell_text(value) is None:
                missing += 1
            else:
                has_others = True

        if has_others or (numbers and has_texts):
            return Statistics(missing)
        if not numbers:
            return Statistics(missing, top=format_top_values(text_counts.items()))
        averaged = (float(value) for value in numbers if abs(value) < _MAX_AVERAGED)
        mean = sum(averaged) / len(numbers)
        return number_statistics(missing, min(numbers), max(numbers), mean, sampled(numbers))

    def _numbered_values(self, deadline: Deadline) -> Iterator[tuple[int, Any]]:
        """Yield all values with the numbers of their rows."""
        for row in range(len(self._values)):
            if row % _DEADLINE_CHECK_INTERVAL == 0:
                deadline.check()
            yield row, self._values[row]


def _sort_key(value: Any) -> tuple[int, object] | None:
    """Return by what a value is sorted; None if it is missing."""
    if type(value) in NUMBERS:
        return (_NUMBER_RANK, value) if value == value else None
    if type(value) is str:
        return _TEXT_RANK, value
    text = cell_text(value)
    return None if text is None else (_OTHER_RANK, text)


def _make_predicate(condition: Condition) -> Callable[[Any], bool]:
    """Return what says whether a value fulfils a condition."""
    op, operand = condition
    if op in ("missing", "present"):
        return lambda value: (cell_text(value) is None) == (op == "missing")
    if op == "contains":
        fold: Callable[[str], str] = str.lower if condition.ignores_case else str
        return lambda value: operand in fold(_full_text(value))
    number = _parse_number(operand)

    def compares(value: object) -> bool:
        if type(value) in NUMBERS:
            return number is not None and value == value and condition.compare(value, number)
        return cell_text(value) is not None and condition.compare(_full_text(value), operand)

    return compares


def _parse_number(text: str) -> float | None:
    """Return the number, or the truth value, that a condition names; None if it names none."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return BOOLEANS.get(text.lower())


def _full_text(value: object) -> str:
    """Return a text that is not cut, so that all of it is searched."""
    if type(value) is str:
        return value
    return cell_text(value) or ""
