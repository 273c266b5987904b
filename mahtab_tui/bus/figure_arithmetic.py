"""Arithmetic on figures: which of them follow from others, and which are nearly another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from math import isfinite
from typing import Literal, NamedTuple, TypeVar

MAX_LISTED_LINES = 200
"""Lines up to which a text is read as a list."""
_MIN_NEAR_DIGITS = 3
"""The least digits of a figure for one wrong digit to be a slip; with two, any number is near."""
_MIN_LENGTH_CHANGE_DIGITS = 4
"""The least digits of a figure for a lost or doubled digit to be a slip."""
_UNIT_FACTORS = (1e3, 1e6, 1e9)
"""Factors between units such as s and ms or µs."""
YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_LIST_ITEM = re.compile(r"[ \t]*+(?:[-*+•]|\d{1,3}[.)])[ \t]")
_TABLE_ROW = re.compile(r"[ \t]*+\|")
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,5000})\]")
_WORD = re.compile(r"[\w.]{1,40}")
_ENUMERATION = re.compile(r",\s|\sand\s")


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


def derive_by_pairs(
    operands: Sequence[Operand],
    accepts: Callable[[float], bool],
    *,
    precision: Precision,
    ratios: bool,
    percent: bool,
    factor: bool,
) -> str:
    """Return how a figure follows from two others, such as "8 of 406"; empty if it does not.

    Args:
        operands: The figures from which it may follow.
        accepts: Tells whether a computed value is rounded to the figure.
        precision: How the figure is written; a sum of whole numbers has no decimals.
        ratios: Whether to try ratios and products.
        percent: Whether the figure is a share or a change.
        factor: Whether the figure may compare values in different units, such as s and µs.
    """
    for first, second in combinations(operands, 2):
        results = list(_sums(first, second, precision, percent=percent))
        # A share of a figure may be a whole number. A whole number is a ratio only if its text says
        # so, as "3 times" does.
        tries_ratios = ratios or first.is_percent != second.is_percent
        if tries_ratios and not (first.is_year or second.is_year):
            results += _ratios(first, second, percent=percent, factor=factor)
        for value, text in results:
            if isfinite(value) and accepts(value):
                return text
    if percent:
        for operand in operands:
            if operand.is_percent and accepts(1 - operand.value):
                return f"100 % − {operand.text}"
    return ""


def derive_part(
    part: Operand, total: Operand, accepts: Callable[[float], bool], *, percent: bool
) -> str:
    """Return how a figure follows from a part and its total: as the share of the part, or as the
    rest of the whole; empty if it does not."""
    if part.is_year or not 0 < part.value < total.value:
        return ""
    share = part.value / total.value
    if percent and accepts(share):
        return f"{part.text} of {total.text}"
    are_counts = part.is_whole and total.is_whole
    if not percent and are_counts and accepts(total.value - part.value):
        return f"{total.text} − {part.text}"
    return ""


def _sums(
    first: Operand, second: Operand, precision: Precision, *, percent: bool
) -> Iterator[tuple[float, str]]:
    """Return the difference and the sum of two figures of one kind, with how they were computed."""
    is_same_kind = first.is_percent == second.is_percent == percent
    if not is_same_kind or first.is_year != second.is_year:
        return
    # A sum of whole numbers has no decimals; another one has.
    impossible_precision = "whole"
    if first.is_whole and second.is_whole:
        impossible_precision = "decimals"
    if not percent and precision == impossible_precision:
        return

    smaller, larger = sorted((first, second))
    yield larger.value - smaller.value, f"{larger.text} − {smaller.text}"
    if not first.is_year:
        yield larger.value + smaller.value, f"{first.text} + {second.text}"


def _ratios(
    first: Operand, second: Operand, *, percent: bool, factor: bool
) -> list[tuple[float, str]]:
    """Return the ratios and the product of two figures, with how they were computed."""
    smaller, larger = sorted((first, second))
    if not smaller.value:
        return []

    is_one_a_percentage = first.is_percent != second.is_percent
    if not percent and (is_one_a_percentage or smaller.value < 1 < larger.value):
        if is_one_a_percentage and larger.is_percent:
            return _applied_share(larger, smaller)
        return _applied_share(smaller, larger)
    if is_one_a_percentage:
        return []

    share = smaller.value / larger.value
    multiple = larger.value / smaller.value
    results = [
        (share, f"{smaller.text} of {larger.text}"),
        (multiple, f"{larger.text} / {smaller.text}"),
    ]
    if percent:
        results.append((1 - share, f"({larger.text} − {smaller.text}) / {larger.text}"))
        results.append((multiple - 1, f"({larger.text} − {smaller.text}) / {smaller.text}"))
    else:
        results.append((first.value * second.value, f"{first.text} × {second.text}"))
    if factor:
        for unit_factor in _UNIT_FACTORS:
            results.append((multiple * unit_factor, f"{larger.text} / {smaller.text}"))
            results.append((share * unit_factor, f"{smaller.text} / {larger.text}"))
    return results


def _applied_share(share: Operand, base: Operand) -> list[tuple[float, str]]:
    """Return what a share of a figure is, what the rest is, and the figure before and after a change
    by that share."""
    rest = 1 - share.value
    results = [
        (base.value * share.value, f"{share.text} of {base.text}"),
        (base.value * rest, f"{base.text} − {share.text}"),
        (base.value * (1 + share.value), f"{base.text} + {share.text}"),
        (base.value / (1 + share.value), f"{base.text} before + {share.text}"),
        (base.value / share.value, f"{base.text} / {share.text}"),
    ]
    if rest:
        results.append((base.value / rest, f"{base.text} before − {share.text}"))
    return results


def derive_growth(operands: Sequence[Operand], accepts: Callable[[float], bool]) -> str:
    """Return how a yearly change follows from two figures and the years between two others.

    Empty if it does not.
    """
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
        if count > 2 and accepts(total):
            return " + ".join(operand.text for operand in operands[-count:])
    return ""


def equal_rows(rows: Iterable[Sequence[ItemT]]) -> list[list[Sequence[ItemT]]]:
    """Return the runs of two or more consecutive rows with equally many numbers."""
    runs: list[list[Sequence[ItemT]]] = []
    run: list[Sequence[ItemT]] = []
    for row in (*rows, ()):
        if run and len(row) != len(run[0]):
            if len(run) > 1:
                runs.append(run)
            run = []
        if row:
            run.append(row)
    return runs


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


def line_counts(lines: Sequence[str]) -> set[int]:
    """Return how many items a printed text may list: the lines of each block, with and without one
    or two for its head and its end; the lines that share a word; the items in brackets."""
    if not lines or len(lines) > MAX_LISTED_LINES:
        return set()
    counts: set[int] = set()
    block_lines = 0
    lines_by_word: Counter[str] = Counter()
    for line in (*lines, ""):
        lines_by_word.update(set(_WORD.findall(line)))
        for bracketed in _BRACKETED.finditer(line):
            counts.add(bracketed[1].count(", ") + 1)
        if line.strip():
            block_lines += 1
        else:
            counts.update((block_lines, block_lines - 1, block_lines - 2))
            block_lines = 0
    counts.update(lines_by_word.values())
    return {count for count in counts if count > 1}


def list_sizes(text: str) -> set[int]:
    """Return how many items each list and table in Markdown has."""
    sizes: set[int] = set()
    items = 0
    rows = 0
    for line in (*text.splitlines(), ""):
        if _TABLE_ROW.match(line):
            rows += 1
        elif rows:
            sizes.add(rows - 2)  # without the head and the rule below it
            rows = 0
        if _LIST_ITEM.match(line):
            items += 1
        elif items and not line.startswith((" ", "\t")):
            sizes.add(items)
            items = 0
    return sizes


def enumerated_items(sentence: str) -> set[int]:
    """Return how many items a sentence may enumerate after a colon."""
    items = sentence.partition(":")[2]
    separators = len(_ENUMERATION.findall(items))
    if not separators:
        return set()
    # ", and" before the last item counts as two separators.
    return {separators + 1, separators}


def wrong_digits(text: str) -> Iterator[str]:
    """Return the texts that a figure may be a slip of the pen for, the nearest first.

    They differ from it by one digit, or by two neighbouring digits that were swapped; those of long
    figures also by a digit that was lost or doubled.
    """
    positions = [index for index, char in enumerate(text) if char.isdecimal()]
    significant = "".join(text[index] for index in positions).lstrip("0")
    if len(significant) < _MIN_NEAR_DIGITS:
        return
    for left, right in pairwise(positions):
        if text[left] != text[right]:
            between = text[left + 1 : right]
            yield f"{text[:left]}{text[right]}{between}{text[left]}{text[right + 1 :]}"
    for distance in range(1, 10):
        # A wrong first digit makes another number, rather than a slip.
        for index in positions[1:]:
            for digit in (int(text[index]) - distance, int(text[index]) + distance):
                if 0 <= digit <= 9:
                    yield f"{text[:index]}{digit}{text[index + 1 :]}"
    if len(significant) >= _MIN_LENGTH_CHANGE_DIGITS and len(positions) == len(text):
        for index in positions:
            yield text[:index] + text[index + 1 :]
            yield text[:index] + text[index] + text[index:]
