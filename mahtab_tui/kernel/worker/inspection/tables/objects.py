"""Columns of Python objects; no code of the objects runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ...statics import Classes
from ..cells import cell_text, number_text
from ..pace import Pace
from .column import BARS, DISTINCT, SAMPLE, Condition, Statistics, compare, top_values

_CHUNK = 20_000
"""Objects that are sorted in one step, during which no other thread runs."""
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

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        rows = range(len(self._values)) if among is None else among
        chunks: list[list[tuple[Any, int]]] = []
        missing: list[int] = []
        for start in range(0, len(rows), _CHUNK):
            pace.check()
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
                pace.check()
            found.append(abs(row))
        return found + missing

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
        fits = _fits(condition)
        return [row for row, value in self._each(pace) if fits(value)]

    def statistics(self, pace: Pace) -> Statistics:
        missing, low, high, total, numbers = 0, None, None, 0.0, []
        only_numbers = only_texts = True
        texts: dict[str, int] = {}
        for _, value in self._each(pace):
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
                top=top_values(texts.items()) if only_texts and len(texts) <= DISTINCT else (),
            )
        mean = number_text(total / len(numbers))
        return Statistics(
            missing,
            cell_text(low) or "",
            cell_text(high) or "",
            mean,
            _bars(numbers, float(low), float(high)),
        )

    def _each(self, pace: Pace) -> Iterator[tuple[int, Any]]:
        for row in range(len(self._values)):
            if row % _CHECK_EVERY == 0:
                pace.check()
            yield row, self._values[row]


def _key(value: Any) -> tuple[int, Any] | None:
    """Return an object's sort key: numbers before texts before others; None if it is missing."""
    cls = type(value)
    if cls in _NUMBERS:
        return (0, value) if value == value else None
    if cls is str:
        return 1, value
    text = cell_text(value)
    return None if text is None else (2, text)


def _fits(condition: Condition) -> Any:
    """Return a function that tells whether a value matches."""
    op, operand = condition
    if op == "missing":
        return lambda value: cell_text(value) is None
    if op == "present":
        return lambda value: cell_text(value) is not None
    if op == "contains":
        if any(map(str.isupper, operand)):
            return lambda value: operand in _whole(value)
        return lambda value: operand in _whole(value).lower()
    try:
        number: float | None = int(operand) if operand.lstrip("+-").isdigit() else float(operand)
    except ValueError:
        number = None

    def compares(value: Any) -> bool:
        if type(value) in _NUMBERS:
            return number is not None and value == value and bool(compare(value, op, number))
        if cell_text(value) is None:
            return False
        return bool(compare(_whole(value), op, operand))

    return compares


def _whole(value: Any) -> str:
    return value if type(value) is str else cell_text(value) or ""


def _bars(numbers: Sequence[Any], low: float, high: float) -> Sequence[int]:
    width = (high - low) / BARS
    if not 0 < width < float("inf"):
        return ()
    counts = [0] * BARS
    for value in numbers[:: max(1, len(numbers) // SAMPLE)]:
        counts[min(BARS - 1, int((value - low) / width))] += 1
    return counts
