"""Columns of tables: values as short texts, conditions, and columns of Python objects."""

from __future__ import annotations

import heapq
import math
import operator
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple, Protocol

from ..objects import Classes, class_module, get_if_loaded
from ..variables import one_line, summary, type_name


class InspectionError(Exception):
    """Something cannot be shown; the message is a sentence for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class Deadline:
    """A time limit, checked regularly by work on many items."""

    def __init__(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """over: returns whether the user has moved on."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._is_abandoned = over

    def check(self) -> None:
        """Raise `AbandonedError` if nobody waits, or `InspectionError` after the time limit."""
        if self._is_abandoned():
            raise AbandonedError("No one is waiting for this answer.")
        if time.monotonic() > self._end:
            raise InspectionError(f"This took longer than {self.seconds:g} s and was stopped.")


WIDTH = 200
"""Maximum characters of a cell."""

_SIZED = Classes(list, tuple, set, frozenset, dict, bytearray, memoryview)
ZONES = ("zoneinfo", "datetime", "pytz", "dateutil")
"""Modules whose time zones are safe to use."""


def cell_text(value: Any) -> str | None:
    """Format a table's value as one line, by its exact type; None if it is missing."""
    cls = type(value)
    if cls is str:
        return one_line(value, WIDTH)
    if value is None or (cls is float and value != value):
        return None
    if cls is int or cls is float or cls is bool:
        return summary(value)
    if cls is get_if_loaded("pandas", "Timestamp"):
        return _moment(value)
    if (
        cls is get_if_loaded("pandas", "Timedelta")
        or cls is get_if_loaded("pandas", "Period")
        or cls is get_if_loaded("pandas", "Interval")
    ):
        return one_line(str(value), WIDTH)
    if value is get_if_loaded("pandas", "NaT") or value is get_if_loaded("pandas", "NA"):
        return None
    about = summary(value)
    if cls in _SIZED or not about:
        return one_line(f"{type_name(value)} {about}".rstrip(), WIDTH)
    return about


def _moment(value: Any) -> str:
    zone = value.tzinfo
    if zone is not None and class_module(type(zone)).partition(".")[0] not in ZONES:
        return f"Timestamp {value.value} ns"  # a time zone of the user's would run their code
    return str(value)


def key_text(value: Any) -> str:
    """Format a row's label; the parts of a tuple are joined by commas."""
    if type(value) is tuple:
        return ", ".join(key_text(part) for part in tuple.__iter__(value))
    return "—" if (text := cell_text(value)) is None else text


def choose_decimals(sample: Iterable[float | None]) -> int | None:
    """Choose the number of decimals for all floats of a column; None for exponential notation."""
    sizes = [abs(value) for value in sample if value and math.isfinite(value)]
    if sizes and (max(sizes) >= 1e15 or max(sizes) < 1e-3):
        return None
    return max(
        [1, *(min(4, len(repr(size).partition(".")[2])) for size in sizes if "e" not in repr(size))]
    )


def float_text(value: float, decimals: int | None) -> str | None:
    """Format a float with this many decimals; None for NaN."""
    if value != value:
        return None
    if decimals is None or (value and abs(value) < 0.5 * 10**-decimals):
        return f"{value:.4e}"
    return f"{value:.{decimals}f}"


def number_text(value: float) -> str:
    """Format a number of the statistics in short form."""
    if value != value:
        return "—"
    if math.isfinite(value) and value == int(value):
        return str(int(value)) if abs(value) < 1e15 else f"{value:.4e}"
    return (
        f"{value:.4e}"
        if abs(value) >= 1e9 or abs(value) < 1e-3
        else f"{value:.4g}"
        if abs(value) < 1000
        else f"{value:.1f}"
    )


SAMPLED_ROWS = 200
"""Values at the start of a column that determine the number of decimals."""
BARS = 8
"""Number of bars of a column's histogram."""
SAMPLE = 1_000_000
"""Maximum number of values for a histogram, sampled evenly from a longer column."""


class Statistics(NamedTuple):
    """Statistics of a column, as texts because dates have them too."""

    missing: int
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    """Counts of a histogram from min to max; empty if there is none."""
    top: Sequence[str] = ()
    """The most common texts with their counts."""


BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
"""Spellings of booleans that the user may type."""
TOP = 4
"""Number of most common values to list."""
DISTINCT = 100_000
"""Columns with more distinct values are not counted."""
_LONGEST = 24
"""Maximum characters of a listed value."""


def format_top_values(counts: Iterable[tuple[str, int]]) -> Sequence[str]:
    """Format the most common texts, as in ``berlin ×412``; equally common ones in order. Returns a
    single sentence if all are different."""
    counted = list(counts)
    if len(counted) > 1 and all(count == 1 for _, count in counted):
        return (f"all {len(counted):,} differ",)
    common = sorted(counted, key=lambda each: -each[1])[:TOP]
    return [
        f"{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'} ×{count:,}"
        for text, count in common
    ]


_CONDITION = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)

_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "contains": operator.eq,
}


class Condition(NamedTuple):
    """A condition on the values of a column. Missing values only match ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""


def parse_condition(text: str) -> Condition:
    """Parse ``> 5``, ``= berlin``, ``!= 0``, ``missing`` or ``present``; anything else is a text
    that values must contain."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        return Condition("contains", text.strip())
    return Condition({"=": "=="}.get(matched[1], matched[1]), matched[2].strip())


def compare(values: Any, op: str, operand: Any) -> Any:
    """Compare a value, or a library's array, with an operand; except for texts, ``contains`` means
    ``==``."""
    return _COMPARISONS[op](values, operand)


class Column(Protocol):
    """A column of a table. Positions count its rows from 0."""

    type: str
    right: bool
    """Whether its values are numbers, which are right-aligned."""

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        """Format the values of some rows; None for missing ones."""

    def value(self, row: int) -> Any:
        """Return a value."""

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        """Return the positions of some rows (None: all), sorted stably by value, missing ones
        last."""

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        """Return the positions of matching rows, in order. Raises `InspectionError` if the
        condition does not apply to the column."""

    def statistics(self, deadline: Deadline) -> Statistics: ...


class Table(Protocol):
    """A table. Columns are read one by one, because there may be thousands."""

    rows: int
    columns: int

    def name(self, column: int) -> str: ...

    def column(self, column: int) -> Column: ...

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        """Return the labels of some rows; None if the rows are only numbered."""
        return None

    def series(self, column: int) -> Any:
        """Return a column as the library's object."""

    def expression(self, column: int) -> str:
        """Return code for a column, such as ``["price"]``; empty if unknown."""

    def cell_expression(self, row: int, column: int) -> str:
        """Return code for a value; empty if unknown."""


def not_comparable(operand: str, kind: str) -> InspectionError:
    """Return the error for a condition whose operand has another type than the column."""
    return InspectionError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")


def as_slice(rows: Sequence[int]) -> Any:
    """Convert rows to an array index, a slice if possible."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)


_CHUNK = 20_000
"""Objects to sort in one step, during which no other thread runs."""
_CHECK_EVERY = 4096
_NUMBERS = Classes(int, float, bool)


class Values(Protocol):
    """A sequence whose access runs no code of its items."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Any: ...


class ObjectColumn:
    """A column of arbitrary objects."""

    def __init__(self, values: Values, kind: str = "object") -> None:
        self._values = values
        self.type = kind
        sample = [values[row] for row in range(min(100, len(values)))]
        known = [value for value in sample if cell_text(value) is not None]
        self.right = bool(known) and all(type(value) in _NUMBERS for value in known)

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        return [cell_text(self._values[row]) for row in rows]

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        rows = range(len(self._values)) if among is None else among
        chunks: list[list[tuple[Any, int]]] = []
        missing: list[int] = []
        for start in range(0, len(rows), _CHUNK):
            deadline.check()
            chunk = []
            for row in rows[start : start + _CHUNK]:
                key = _key(self._values[row])
                if key is None:
                    missing.append(row)
                else:
                    chunk.append((key, -row if descending else row))
            chunks.append(sorted(chunk, reverse=descending))
        found = []
        for count, (_, row) in enumerate(heapq.merge(*chunks, reverse=descending)):
            if count % _CHECK_EVERY == 0:
                deadline.check()
            found.append(abs(row))
        return found + missing

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        fits = _make_predicate(condition)
        return [row for row, value in self._each(deadline) if fits(value)]

    def statistics(self, deadline: Deadline) -> Statistics:
        missing, low, high, total, numbers = 0, None, None, 0.0, []
        only_numbers = only_texts = True
        texts: dict[str, int] = {}
        for _, value in self._each(deadline):
            cls = type(value)
            if cls in _NUMBERS and value == value:
                only_texts = False
                if only_numbers:
                    low = value if low is None or value < low else low
                    high = value if high is None or value > high else high
                    total += float(value) if abs(value) < 1e300 else 0.0
                    numbers.append(value)
            elif cls is str:
                only_numbers = False
                if len(texts) <= DISTINCT:
                    texts[value] = texts.get(value, 0) + 1
            elif cell_text(value) is None:
                missing += 1
            else:
                only_numbers = only_texts = False
        if not only_numbers or low is None or high is None:
            return Statistics(
                missing,
                top=format_top_values(texts.items())
                if only_texts and len(texts) <= DISTINCT
                else (),
            )
        mean = number_text(total / len(numbers))
        return Statistics(
            missing,
            cell_text(low) or "",
            cell_text(high) or "",
            mean,
            _bars(numbers, float(low), float(high)),
        )

    def _each(self, deadline: Deadline) -> Iterator[tuple[int, Any]]:
        for row in range(len(self._values)):
            if row % _CHECK_EVERY == 0:
                deadline.check()
            yield row, self._values[row]


def _key(value: Any) -> tuple[int, Any] | None:
    """Return an object's sort key: numbers before texts before other objects; None if it is
    missing."""
    cls = type(value)
    if cls in _NUMBERS:
        return (0, value) if value == value else None
    if cls is str:
        return 1, value
    text = cell_text(value)
    return None if text is None else (2, text)


def _make_predicate(condition: Condition) -> Any:
    """Return a function that checks whether a value matches."""
    op, operand = condition
    if op == "missing":
        return lambda value: cell_text(value) is None
    if op == "present":
        return lambda value: cell_text(value) is not None
    if op == "contains":
        if any(map(str.isupper, operand)):
            return lambda value: operand in _full_text(value)
        return lambda value: operand in _full_text(value).lower()
    try:
        number: float | None = int(operand) if operand.lstrip("+-").isdigit() else float(operand)
    except ValueError:
        number = None

    def compares(value: Any) -> bool:
        if type(value) in _NUMBERS:
            return number is not None and value == value and bool(compare(value, op, number))
        if cell_text(value) is None:
            return False
        return bool(compare(_full_text(value), op, operand))

    return compares


def _full_text(value: Any) -> str:
    return value if type(value) is str else cell_text(value) or ""


def _bars(numbers: Sequence[Any], low: float, high: float) -> Sequence[int]:
    width = (high - low) / BARS
    if not 0 < width < float("inf"):
        return ()
    counts = [0] * BARS
    for value in numbers[:: max(1, len(numbers) // SAMPLE)]:
        counts[min(BARS - 1, int((value - low) / width))] += 1
    return counts
