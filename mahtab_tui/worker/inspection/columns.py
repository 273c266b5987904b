"""Columns of any objects, read a part at a time; the classes for numpy, Arrow and polars derive
from `Column`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from ..values.objects import NUMBERS
from .cell_texts import SAMPLED_OBJECTS, cell_text
from .conditions import Condition, make_predicate
from .limits import Deadline
from .statistics import (
    MAX_AVERAGED,
    MAX_DISTINCT_VALUES,
    Statistics,
    format_top_values,
    number_statistics,
    sampled,
)

_SORTED_CHUNK_OBJECTS = 20_000
"""Objects to sort in one step, during which no other thread runs."""
_DEADLINE_CHECK_INTERVAL = 4096
"""Rows between two looks at the clock."""
# Of values of different kinds, numbers are sorted before texts, and texts before others.
_NUMBER_RANK = 0
_TEXT_RANK = 1
_OTHER_RANK = 2
Rows = Sequence[int]


class Column:
    """A column of any objects, whose code does not run."""

    type: str
    """The name of the type, as the library has it."""
    is_right_aligned = False
    """Whether the values stand at the right, as numbers do."""

    def __init__(self, values: Any, kind: str = "object") -> None:
        """Recognise whether the values are numbers.

        Args:
            values: A sequence; access must run no code of the items.
            kind: The name of their type.
        """
        self._values = values
        self.type = kind
        sample = [values[row] for row in range(min(SAMPLED_OBJECTS, len(values)))]
        present_values = [value for value in sample if cell_text(value) is not None]
        are_numbers = all(type(value) in NUMBERS for value in present_values)
        self.is_right_aligned = bool(present_values) and are_numbers

    def texts(self, rows: Rows) -> list[str | None]:
        """Return the texts of some values; None for missing ones."""
        return [cell_text(self._values[row]) for row in rows]

    def value(self, row: int) -> Any:
        """Return a value itself."""
        return self._values[row]

    def numbers(self) -> Any:
        """Return numbers for a plot as a numpy array; None if there are none."""
        return None

    def order(self, descending: bool, selected_rows: Rows | None, deadline: Deadline) -> Rows:
        """Sort rows stably, those with missing values last.

        Args:
            descending: Whether the largest values come first.
            selected_rows: The numbers of the rows; None for all.
            deadline: Ends it.

        Raises:
            InspectionError: The values have no order.
        """
        rows = range(len(self._values)) if selected_rows is None else selected_rows
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
        """Return the numbers of the rows whose values fulfil a condition.

        Raises `InspectionError` if it does not apply.
        """
        fits = make_predicate(condition)
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
        averaged = [float(value) for value in numbers if abs(value) < MAX_AVERAGED]
        mean = sum(averaged) / len(averaged) if averaged else float("nan")
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
