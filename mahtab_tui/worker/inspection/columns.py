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

MAX_CELL_CHARS = 200
_SIZED = Classes(list, tuple, set, frozenset, dict, bytearray, memoryview)
_SAFE_ZONES = ("zoneinfo", "datetime", "pytz", "dateutil")

SAMPLED_ROWS = 200
"""For the number of decimals."""
HISTOGRAM_BARS = 8
SAMPLED_VALUES = 20_000
TOP_VALUES = 4
MAX_DISTINCT_VALUES = 100_000
"""Columns with more distinct values are not counted."""
_MAX_VALUE_CHARS = 24

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


class InspectionError(Exception):
    """The message is a sentence for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer."""


def run_limited(
    work: Callable[[], object], subject: str, seconds: float = USER_CODE_TIMEOUT_S
) -> Any:
    """Raises `InspectionError`."""
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
        text = one_line(str(error), 500)
    except BaseException:  # the message's code may fail too
        text = ""
    if text:
        return f"{type_name(error)}: {text}"
    return f"{type_name(error)}."


class Deadline:
    def __init__(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """over: returns whether the user has moved on."""
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
        foreign = value.tzinfo is not None and not is_safe_zone(value.tzinfo)
        if foreign:
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
    return class_module(type(zone)).partition(".")[0] in _SAFE_ZONES


def choose_decimals(sample: Iterable[float | None]) -> int | None:
    """Return None for exponential notation."""
    sizes = [abs(float(value)) for value in sample if value and math.isfinite(value)]
    if sizes and (max(sizes) >= 1e15 or max(sizes) < 1e-3):
        return None
    return max(
        [1, *(min(4, len(repr(size).partition(".")[2])) for size in sizes if "e" not in repr(size))]
    )


def float_text(value: float, decimals: int | None) -> str | None:
    if value != value:
        return None
    if decimals is None or (value and abs(value) < 0.5 * 10**-decimals):
        return f"{value:.4e}"
    return f"{value:.{decimals}f}"


def number_text(value: float) -> str:
    """Format a statistic, with separators and without digits that say little."""
    if value != value:
        return "—"
    if math.isfinite(value) and value == int(value):
        if abs(value) < 1e15:
            return f"{int(value):,}"
        return f"{value:.4e}"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.4e}"
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.1f}"


class Statistics(NamedTuple):
    """Texts, because dates have them too."""

    missing: int
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    top: Sequence[str] = ()


def number_statistics(
    missing: int, low: Any, high: Any, mean: float, sample: Iterable[Any]
) -> Statistics:
    bars = histogram(sample, float(low), float(high))
    return Statistics(missing, _extreme_text(low), _extreme_text(high), number_text(mean), bars)


def _extreme_text(value: Any) -> str:
    if type(value) is bool:
        return str(value)
    if type(value) is int:
        return f"{value:,}"
    return number_text(float(value))


def histogram(sample: Iterable[Any], low: float, high: float) -> Sequence[int]:
    width = (high - low) / HISTOGRAM_BARS
    if not 0 < width < float("inf"):
        return ()
    counts = [0] * HISTOGRAM_BARS
    for value in sample:
        counts[min(HISTOGRAM_BARS - 1, int((float(value) - low) / width))] += 1
    return counts


def sampled(values: Any) -> Any:
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
    """Missing values only match ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""

    def compare(self, values: object, operand: object) -> Any:
        return _COMPARISONS[self.op](values, operand)

    @property
    def ignores_case(self) -> bool:
        return not any(map(str.isupper, self.operand))


def parse_condition(text: str) -> Condition:
    """Parse ``> 5``, ``= berlin``, ``missing`` or ``present``; other texts must be contained."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        return Condition("contains", text.strip())
    return Condition({"=": "=="}.get(matched[1], matched[1]), matched[2].strip())


def not_comparable(operand: str, kind: str) -> InspectionError:
    return InspectionError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")


Rows = Sequence[int]


class Column:
    """A column of any objects, whose code does not run."""

    right = False

    def __init__(self, values: Any, kind: str = "object") -> None:
        """values: access must run no code of the items."""
        self._values = values
        self.type = kind
        sample = [values[row] for row in range(min(100, len(values)))]
        present_values = [value for value in sample if cell_text(value) is not None]
        self.right = bool(present_values) and all(
            type(value) in NUMBERS for value in present_values
        )

    def texts(self, rows: Rows) -> list[str | None]:
        """Return None for missing values."""
        return [cell_text(self._values[row]) for row in rows]

    def value(self, row: int) -> Any:
        return self._values[row]

    def numbers(self) -> Any:
        """Return numbers for a plot as a numpy array, if there are any."""
        return None

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        """Sort rows (None: all) stably, missing ones last. Raises `InspectionError` if the values
        have no order."""
        rows = range(len(self._values)) if among is None else among
        chunks: list[list[tuple[Any, int]]] = []
        missing: list[int] = []
        for start in range(0, len(rows), _SORTED_CHUNK_OBJECTS):
            deadline.check()
            chunk = []
            for row in rows[start : start + _SORTED_CHUNK_OBJECTS]:
                key = _sort_key(self._values[row])
                if key is None:
                    missing.append(row)
                else:
                    chunk.append((key, -row if descending else row))
            chunks.append(sorted(chunk, reverse=descending))
        sort_items = []
        for count, (_, row) in enumerate(heapq.merge(*chunks, reverse=descending)):
            if count % _DEADLINE_CHECK_INTERVAL == 0:
                deadline.check()
            sort_items.append(abs(row))
        return sort_items + missing

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        """Raises `InspectionError` if the condition does not apply."""
        fits = _make_predicate(condition)
        return [row for row, value in self._each(deadline) if fits(value)]

    def statistics(self, deadline: Deadline) -> Statistics:
        missing = 0
        numbers = []
        only_numbers = only_texts = True
        texts: dict[str, int] = {}
        for _, value in self._each(deadline):
            if type(value) in NUMBERS and value == value:
                only_texts = False
                if only_numbers:
                    numbers.append(value)
            elif type(value) is str:
                only_numbers = False
                if len(texts) <= MAX_DISTINCT_VALUES:
                    texts[value] = texts.get(value, 0) + 1
            elif cell_text(value) is None:
                missing += 1
            else:
                only_numbers = only_texts = False
        if only_numbers and numbers:
            low = min(numbers)
            high = max(numbers)
            mean = sum(float(value) for value in numbers if abs(value) < 1e300) / len(numbers)
            return number_statistics(missing, low, high, mean, sampled(numbers))
        return Statistics(missing, top=format_top_values(texts.items()) if only_texts else ())

    def _each(self, deadline: Deadline) -> Iterator[tuple[int, Any]]:
        for row in range(len(self._values)):
            if row % _DEADLINE_CHECK_INTERVAL == 0:
                deadline.check()
            yield row, self._values[row]


def _sort_key(value: Any) -> tuple[int, object] | None:
    """Order numbers before texts before others; None if missing."""
    if type(value) in NUMBERS:
        return (0, value) if value == value else None
    if type(value) is str:
        return 1, value
    text = cell_text(value)
    return None if text is None else (2, text)


def _make_predicate(condition: Condition) -> Callable[[Any], bool]:
    op, operand = condition
    if op in ("missing", "present"):
        return lambda value: (cell_text(value) is None) == (op == "missing")
    if op == "contains":
        fold: Callable[[str], str] = str.lower if condition.ignores_case else str
        return lambda value: operand in fold(_full_text(value))
    try:
        number: float | None = int(operand) if operand.lstrip("+-").isdigit() else float(operand)
    except ValueError:
        number = BOOLEANS.get(operand.lower())

    def compares(value: object) -> bool:
        if type(value) in NUMBERS:
            return number is not None and value == value and condition.compare(value, number)
        return cell_text(value) is not None and condition.compare(_full_text(value), operand)

    return compares


def _full_text(value: object) -> str:
    if type(value) is str:
        return value
    return cell_text(value) or ""
