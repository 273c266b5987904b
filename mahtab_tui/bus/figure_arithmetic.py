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
"""Digits of a figure from which one wrong digit is a slip; with two, any number is near."""
_MIN_LENGTH_CHANGE_DIGITS = 4
"""Digits from which a lost or doubled digit is a slip."""
_UNIT_SCALES = (1e3, 1e6, 1e9)
"""Between units such as s and µs."""
_LIST_ITEM = re.compile(r"[ \t]*+(?:[-*+•]|\d{1,3}[.)])[ \t]")
_TABLE_ROW = re.compile(r"[ \t]*+\|")
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,5000})\]")
_WORD = re.compile(r"[\w.]{1,40}")
YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_ENUMERATION = re.compile(r",\s|\sand\s")


ItemT = TypeVar("ItemT")
Precision = Literal["whole", "decimals", "rounded"]


class Operand(NamedTuple):
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
    """Return how two figures give one that `accepts` takes, such as "8 of 406"; empty if none do.

    Args:
        precision: How it is written; a sum of whole numbers has no decimals.
        ratios: Whether to try ratios and products.
        percent: Whether it is a share or a change.
        factor: Whether it may compare figures of different units, such as s and µs.
    """
    for first, second in combinations(operands, 2):
        results = list(_sums(first, second, precision, percent=percent))
        # A share of a figure may be a whole number, a ratio is not without a word for it.
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
    part: Operand, whole: Operand, accepts: Callable[[float], bool], *, percent: bool
) -> str:
    """Return whether a part is a share of a whole, or what the rest of it is."""
    if part.is_year or not 0 < part.value < whole.value:
        return ""
    share = part.value / whole.value
    if percent and accepts(share):
        return f"{part.text} of {whole.text}"
    exact = part.is_whole and whole.is_whole
    if not percent and exact and accepts(whole.value - part.value):
        return f"{whole.text} − {part.text}"
    return ""


def _sums(
    first: Operand, second: Operand, precision: Precision, *, percent: bool
) -> Iterator[tuple[float, str]]:
    """Return the sum and the difference of two figures of one kind, with how they were computed."""
    same_kind = first.is_percent == second.is_percent == percent
    unlike: Precision = "decimals" if first.is_whole and second.is_whole else "whole"
    if not same_kind or first.is_year != second.is_year or (not percent and precision == unlike):
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
    one_percentage = first.is_percent != second.is_percent
    if not percent and (one_percentage or smaller.value < 1 < larger.value):
        if one_percentage and larger.is_percent:
            return _applied_share(larger, smaller)
        return _applied_share(smaller, larger)
    if one_percentage:
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
        for scale in _UNIT_SCALES:
            results.append((multiple * scale, f"{larger.text} / {smaller.text}"))
            results.append((share * scale, f"{smaller.text} / {larger.text}"))
    return results


def _applied_share(share: Operand, base: Operand) -> list[tuple[float, str]]:
    """Return what a share of a figure is, its rest, and the figure before or after such a
    change."""
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
    """Return how a yearly change follows from two figures and the years between two others."""
    years = sorted({operand.value for operand in operands if operand.is_year})
    spans = {later - earlier for earlier, later in combinations(years, 2)}
    for smaller, larger in combinations(sorted(operands), 2):
        if smaller.is_year or larger.is_year or not smaller.value:
            continue
        for span in spans:
            rate = (larger.value / smaller.value) ** (1 / span)
            if accepts(rate - 1) or accepts(1 - 1 / rate):
                return f"({larger.text} / {smaller.text}) over {span:g} years"
    return ""


def derive_by_totals(operands: Sequence[Operand], accepts: Callable[[float], bool]) -> str:
    """Return whether the last three or more figures add up to one that `accepts` takes."""
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
        sums = [sum(column) for column in zip(*run, strict=True)]
        totals += [Operand(abs(value), f"total of {len(run)} listed") for value in sums]
        if len(run[0]) > 2:
            sums = [sum(row[1:]) for row in run]
            totals += [Operand(abs(value), f"total of {len(run[0]) - 1} listed") for value in sums]
    return totals


def line_counts(lines: Sequence[str]) -> set[int]:
    """Return the numbers of items that a printed text lists: of lines in a block, without one or
    two for its head and its end; of lines that share a word; of items in brackets."""
    if not lines or len(lines) > MAX_LISTED_LINES:
        return set()
    counts: set[int] = set()
    block = 0
    words: Counter[str] = Counter()
    for line in (*lines, ""):
        words.update(set(_WORD.findall(line)))
        for bracketed in _BRACKETED.finditer(line):
            counts.add(bracketed[1].count(", ") + 1)
        if line.strip():
            block += 1
        else:
            counts.update((block, block - 1, block - 2))
            block = 0
    counts.update(words.values())
    return {count for count in counts if count > 1}


def list_sizes(text: str) -> set[int]:
    """Return the numbers of items of the lists and tables in Markdown."""
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
    """Return how many items the rest of a sentence may enumerate."""
    _, colon, items = sentence.partition(":")
    separators = len(_ENUMERATION.findall(items))
    return {separators + 1, separators} if colon and separators else set()


def wrong_digits(text: str) -> Iterator[str]:
    """Return the texts that differ from a figure's by one digit, nearest first, or by two
    neighbouring digits that were swapped; in long figures by a lost or doubled digit, too."""
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
