"""What a column can be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from ..conditions import Condition
from ..pace import Pace

BARS = 8
"""Bars of a column's histogram."""
SAMPLE = 1_000_000
"""Values that a histogram is made of, taken evenly from a column that has more."""


class Statistics(NamedTuple):
    """A column in figures; texts, since dates have figures, too."""

    missing: int
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    """Counts of a histogram from min to max; empty where there is none."""
    top: Sequence[str] = ()
    """Of texts the commonest with how often each is there."""


TOP = 4
"""Values that are told as the commonest."""
DISTINCT = 100_000
"""Different values of a column, of which more are not counted."""
_LONGEST = 24
"""Characters of a value that are told."""


def top_values(counts: Iterable[tuple[str, int]]) -> Sequence[str]:
    """The commonest of some texts, as in ``berlin ×412``; equally common ones in their order. One sentence where all differ."""
    counted = list(counts)
    if len(counted) > 1 and all(count == 1 for _, count in counted):
        return (f"all {len(counted):,} differ",)
    common = sorted(counted, key=lambda each: -each[1])[:TOP]
    return [f"{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'} ×{count:,}" for text, count in common]


class Column(Protocol):
    """One column of a table. Positions are those of its rows, from 0."""

    type: str
    right: bool
    """Whether its values are numbers, which stand right."""

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        """The values of some rows, None where one is missing."""

    def value(self, row: int) -> Any:
        """One value itself."""

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        """The positions of some rows (None: of all), sorted by value, equal ones in their order, missing ones last."""

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
        """The positions of the rows that fit, in order. Raises `LookError` where the condition does not fit the column."""

    def statistics(self, pace: Pace) -> Statistics: ...


class Table(Protocol):
    """A table. `columns` may be thousands: they are asked for one by one."""

    rows: int
    columns: int

    def name(self, column: int) -> str: ...

    def column(self, column: int) -> Column: ...

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        """The names of some rows; None where rows have only numbers."""

    def series(self, column: int) -> Any:
        """A column as the object that the library makes of it."""

    def expression(self, column: int) -> str:
        """How a column is written in code, as in ``["price"]``; empty where that is not known."""

    def cell_expression(self, row: int, column: int) -> str:
        """How one value is written in code; empty where that is not known."""


def as_slice(rows: Sequence[int]) -> Any:
    """What an array takes to give these rows: a slice where they are one."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
