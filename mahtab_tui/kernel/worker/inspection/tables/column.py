"""The interfaces of tables and columns, and conditions on their values, as the user types them."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from ..pace import LookError, Pace

LOOKED_AT = 200
"""Values at the start of a column that decide how many decimals are shown."""
BARS = 8
"""Bars of a column's histogram."""
SAMPLE = 1_000_000
"""Values of a histogram, sampled evenly from a longer column."""


class Statistics(NamedTuple):
    """Statistics of a column, as texts, since dates have them too."""

    missing: int
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    """Counts of a histogram from min to max; empty if there is none."""
    top: Sequence[str] = ()
    """The most common texts with their counts."""


BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
"""How the user writes truth values."""
TOP = 4
"""How many of the most common values are listed."""
DISTINCT = 100_000
"""Columns with more different values are not counted."""
_LONGEST = 24
"""Characters of a listed value."""


def top_values(counts: Iterable[tuple[str, int]]) -> Sequence[str]:
    """Format the most common texts, as in ``berlin ×412``; equally common ones in order. One
    sentence if all differ."""
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
    """A condition on the values of a column. Missing values match only ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""


def parse(text: str) -> Condition:
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
    """Compare a value or a library's array with an operand; without texts, ``contains`` means
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

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        """Sort some rows (None: all) by value, stably, missing ones last. Returns positions."""

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
        """Return the positions of matching rows, in order. Raises `LookError` if the condition does
        not apply to the column."""

    def statistics(self, pace: Pace) -> Statistics: ...


class Table(Protocol):
    """A table. Columns are read one by one, since there may be thousands."""

    rows: int
    columns: int

    def name(self, column: int) -> str: ...

    def column(self, column: int) -> Column: ...

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        """Return the labels of some rows; None if rows have only numbers."""
        return None

    def series(self, column: int) -> Any:
        """Return a column as the library's object."""

    def expression(self, column: int) -> str:
        """Return a column as code, as in ``["price"]``; empty if unknown."""

    def cell_expression(self, row: int, column: int) -> str:
        """Return a value as code; empty if unknown."""


def not_comparable(operand: str, kind: str) -> LookError:
    """Return what a column raises for a condition with an operand of another type."""
    return LookError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")


def as_slice(rows: Sequence[int]) -> Any:
    """Convert rows to an array's index, a slice if possible."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
