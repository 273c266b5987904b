"""Arithmetic on figures: which of them follow from others, as a sum, a share or a change.

Each `derive_…` function tries one kind of arithmetic. It returns how the figure follows, in words that
the user sees, such as "8 of 406".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, groupby
from math import isfinite
from typing import Literal, NamedTuple, TypeVar

_UNIT_FACTORS = (1e3, 1e6, 1e9)
"""Factors between units such as s and ms or µs."""
YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_MIN_TOTAL_OPERANDS = 3
"""The least figures that are added up: sums of two are tried in pairs."""

ItemT = TypeVar("ItemT")
Precision = Literal["whole", "decimals", "rounded"]


class Operand(NamedTuple):
    """A figure from which others may be computed."""

    value: float
    """Not negative; a percentage as a fraction."""
    text: str

    @property
    def is_percent(self) -> bool:
        return "%" in self.text

    @property
    def is_year(self) -> bool:
        return YEAR.fullmatch(self.text) is not None

    @property
    def is_whole(self) -> bool:
        return self.value.is_integer()


class FigureForm(NamedTuple):
    """What the text of a figure, and the words after it, say of how it may have been computed."""

    precision: Precision
    """How it is written; a sum of whole numbers has no decimals."""
    is_percent: bool
    """Whether it is a share or a change."""
    is_factor: bool
    """Whether it says how many times as large something is, perhaps in another unit: s and µs."""
    may_be_ratio: bool
    """Whether it may be a ratio or a product of any two figures."""


class _Result(NamedTuple):
    """What two figures give."""

    value: float
    text: str
    """How it was computed."""


def derive_by_pairs(
    operands: Sequence[Operand], accepts: Callable[[float], bool], form: FigureForm
) -> str:
    """Return how a figure follows from two others, such as "8 of 406"; empty if it does not.

    Args:
        operands: The figures from which it may follow.
        accepts: Tells whether a computed value is rounded to the figure.
        form: The form of the figure.
    """
    for first, second in combinations(operands, 2):
        results = list(_sums(first, second, form))
        # A share of a figure may be a whole number. A whole number is a ratio only if its text says
        # so, as "3 times" does.
        tries_ratios = form.may_be_ratio or first.is_percent != second.is_percent
        if tries_ratios and not (first.is_year or second.is_year):
            results += _ratios(first, second, form)
        for value, text in results:
            if isfinite(value) and accepts(value):
                return text
    if form.is_percent:
        for operand in operands:
            if operand.is_percent and accepts(1 - operand.value):
                return f"100 % − {operand.text}"
    return ""


def derive_part(
    part: Operand, total: Operand, accepts: Callable[[float], bool], *, is_percent: bool
) -> str:
    """Return how a figure follows from a part and its total: as the share of the part, or as the
    rest of the whole; empty if it does not."""
    if part.is_year or not 0 < part.value < total.value:
        return ""
    share = part.value / total.value
    if is_percent and accepts(share):
        return f"{part.text} of {total.text}"
    are_counts = part.is_whole and total.is_whole
    if not is_percent and are_counts and accepts(total.value - part.value):
        return f"{total.text} − {part.text}"
    return ""


def _sums(first: Operand, second: Operand, form: FigureForm) -> Iterator[_Result]:
    """Yield the difference and the sum of two figures, if a figure of this form can be one."""
    is_same_kind = first.is_percent == second.is_percent == form.is_percent
    if not is_same_kind or first.is_year != second.is_year:
        return
    # A sum of whole numbers has no decimals; another one has.
    impossible_precision = "whole"
    if first.is_whole and second.is_whole:
        impossible_precision = "decimals"
    if not form.is_percent and form.precision == impossible_precision:
        return

    smaller, larger = sorted((first, second))
    yield _Result(larger.value - smaller.value, f"{larger.text} − {smaller.text}")
    if not first.is_year:
        yield _Result(larger.value + smaller.value, f"{first.text} + {second.text}")


def _ratios(first: Operand, second: Operand, form: FigureForm) -> list[_Result]:
    """Return the ratios and the product of two figures, as far as a figure of this form can be
    one."""
    smaller, larger = sorted((first, second))
    if not smaller.value:
        return []

    # "30 % of 406" is a number; a percentage and a number never give a percentage.
    if first.is_percent != second.is_percent:
        if form.is_percent:
            return []
        if larger.is_percent:
            return _applied_share(larger, smaller)
        return _applied_share(smaller, larger)
    # A number below 1 beside one above it is probably a share, such as 0.3 of 406.
    if not form.is_percent and smaller.value < 1 < larger.value:
        return _applied_share(smaller, larger)

    results = [
        _Result(smaller.value / larger.value, f"{smaller.text} of {larger.text}"),
        _Result(larger.value / smaller.value, f"{larger.text} / {smaller.text}"),
    ]
    if form.is_percent:
        results += _relative_differences(smaller, larger)
    else:
        results.append(_Result(first.value * second.value, f"{first.text} × {second.text}"))
    if form.is_factor:
        results += _factors_between_units(smaller, larger)
    return results


def _relative_differences(smaller: Operand, larger: Operand) -> list[_Result]:
    """Return the difference of two figures as a share of each."""
    difference = f"({larger.text} − {smaller.text})"
    return [
        _Result(1 - smaller.value / larger.value, f"{difference} / {larger.text}"),
        _Result(larger.value / smaller.value - 1, f"{difference} / {smaller.text}"),
    ]


def _factors_between_units(smaller: Operand, larger: Operand) -> Iterator[_Result]:
    """Yield how many times as large one figure is if the two are in different units."""
    multiple = larger.value / smaller.value
    share = smaller.value / larger.value
    for unit_factor in _UNIT_FACTORS:
        yield _Result(multiple * unit_factor, f"{larger.text} / {smaller.text}")
        yield _Result(share * unit_factor, f"{smaller.text} / {larger.text}")


def _applied_share(share: Operand, base: Operand) -> list[_Result]:
    """Return what a share of a figure is, what the rest is, and the figure before and after a change
    by that share."""
    rest = 1 - share.value
    results = [
        _Result(base.value * share.value, f"{share.text} of {base.text}"),
        _Result(base.value * rest, f"{base.text} − {share.text}"),
        _Result(base.value * (1 + share.value), f"{base.text} + {share.text}"),
        _Result(base.value / (1 + share.value), f"{base.text} before + {share.text}"),
        _Result(base.value / share.value, f"{base.text} / {share.text}"),
    ]
    if rest:
        results.append(_Result(base.value / rest, f"{base.text} before − {share.text}"))
    return results


def derive_growth(operands: Sequence[Operand], accepts: Callable[[float], bool]) -> str:
    """Return how a yearly change follows from two figures and the years between two others; empty if
    it does not."""
    years = sorted({operand.value for operand in operands if operand.is_year})
    durations = {later - earlier for earlier, later in combinations(years, 2)}
    for smaller, larger in combinations(sorted(operands), 2):
        if smaller.is_year or larger.is_year or not smaller.value:
            continue
        for duration in durations:
            yearly_factor = (larger.value / smaller.value) ** (1 / duration)
            if accepts(yearly_factor - 1) or accepts(1 - 1 / yearly_factor):
                return f"({larger.text} / {smaller.text}) over {duration:g} years"
    return ""


def derive_by_totals(operands: Sequence[Operand], accepts: Callable[[float], bool]) -> str:
    """Return how a figure is the sum of the last three or more; empty if it is not."""
    total = 0.0
    for count, operand in enumerate(reversed(operands), 1):
        total += operand.value
        if count >= _MIN_TOTAL_OPERANDS and accepts(total):
            return " + ".join(operand.text for operand in operands[-count:])
    return ""


def equal_rows(rows: Iterable[Sequence[ItemT]]) -> list[list[Sequence[ItemT]]]:
    """Return the runs of two or more consecutive rows with equally many numbers."""
    runs = [list(run) for length, run in groupby(rows, key=len) if length]
    return [run for run in runs if len(run) > 1]


def table_totals(rows: Sequence[Sequence[float]]) -> list[Operand]:
    """Return the sums of the columns of each run of equal rows, and those of the rows without their
    first number, which may be a label."""
    totals: list[Operand] = []
    for run in equal_rows(rows):
        column_sums = [sum(column) for column in zip(*run, strict=True)]
        totals += _totals(column_sums, len(run))
        summands = len(run[0]) - 1
        if summands > 1:
            totals += _totals([sum(row[1:]) for row in run], summands)
    return totals


def _totals(sums: Iterable[float], summands: int) -> list[Operand]:
    return [Operand(abs(value), f"total of {summands} listed") for value in sums]
