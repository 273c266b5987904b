"""Reads the numbers and lists of the texts from which an answer's figures may come."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from math import isfinite
from typing import NamedTuple

from mahtab_tui.bus.figure_arithmetic import Operand, equal_rows, table_totals
from mahtab_tui.bus.figure_lists import line_counts
from mahtab_tui.bus.figure_tokens import UNIT_SCALES

MAX_SOURCE_END_CHARS = 500_000
"""Characters that are read at each end of a source."""
_MAX_ALL_SOURCES_CHARS = 8_000_000
"""Characters of all sources; further ones are left out."""
MAX_PARTS = 20
"""In a source of more numbers, none is taken for a part of a whole."""
_MAX_ROWS = 60
"""Only this many rows of a source are searched for numbers from which others follow."""
_MAX_LISTING_CHARS = 20_000
"""The lines of a longer source are not counted and added up."""
_SOURCE_NUMBER = re.compile(
    r"""
    ( (?<! [\w.)\]] ) [-−] )?                              # a sign, not the minus of `a-1`
    (
        \d{1,3} ([,'’_]) \d{3} (?: \3 \d{3} ){0,8}+ (?!\d)  # groups of thousands
        (?: \. \d++ )?
        | \d++ (?: \. \d++ )?
        | \. \d++
    )
    ( [eE] [-+]? \d{1,3} )?
    (?:
        \s?
        ( % | (?i: thousand | million | billion | trillion ) | (?: [kKMB] | bn ) (?!\w) )
    )?
    """,
    re.VERBOSE,
)
"""A number; its groups are the parameters of `_source_values`."""
_DTYPE = re.compile(r"^Name: .*, dtype: \w+|dtype: \w+", re.MULTILINE)
"""What pandas writes below a column."""
_WORD = re.compile(r"(?<![\w-])[a-z]++(?![\w-])")
"""A word without hyphens: "two-sided" names no number."""
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_DIGITS_BY_WORD = {word: str(number) for number, word in enumerate(_NUMBER_WORDS)}


class FigureSource(NamedTuple):
    """A text from which figures may come."""

    cell: int | None
    """None for an attachment, a tool's result, code, or the user's words."""
    text: str
    printed: bool = True
    """Whether it is an output, an attachment or a tool's result, and so may be quoted wrongly."""


class SourceFigures:
    """The numbers and lists of a text, each read when it is first asked for."""

    def __init__(self, source: FigureSource) -> None:
        """Read nothing yet. Of a very long source, only both ends are read."""
        self.cell = source.cell
        self.printed = source.printed
        self.text = source.text
        if len(self.text) > 2 * MAX_SOURCE_END_CHARS:
            start = self.text[:MAX_SOURCE_END_CHARS]
            end = self.text[-MAX_SOURCE_END_CHARS:]
            self.text = f"{start}\n{end}"

    @cached_property
    def normalized_text(self) -> str:
        """The text without differences of case and white space."""
        return normalize(self.text)

    @cached_property
    def numbers(self) -> list[float]:
        """All different numbers, the smallest first."""
        values: set[float] = set()
        for match in set(_SOURCE_NUMBER.findall(self.text)):
            values.update(_source_values(*match))
        return sorted(filter(isfinite, values))

    @cached_property
    def operands(self) -> list[Operand]:
        """The different numbers of a short source in their order, at most `MAX_PARTS` + 1."""
        operands: dict[float, Operand] = {}
        for line in self._lines:
            for match in _SOURCE_NUMBER.finditer(line):
                operand = _source_operand(match)
                operands.setdefault(operand.value, operand)
                if len(operands) > MAX_PARTS:
                    return list(operands.values())
        return list(operands.values())

    @cached_property
    def operand_rows(self) -> list[list[Operand]]:
        """The numbers of each of the first lines."""
        return [
            list(map(_source_operand, _SOURCE_NUMBER.finditer(line)))
            for line in self._lines[:_MAX_ROWS]
        ]

    @cached_property
    def operand_columns(self) -> list[list[Operand]]:
        """The numbers of each column of the tables in the first lines."""
        runs = equal_rows(self.operand_rows)
        return [list(column) for run in runs for column in zip(*run, strict=True)]

    @cached_property
    def _lines(self) -> list[str]:
        """The lines of a short source, without what pandas writes below a column.

        A long source has none.
        """
        if len(self.text) > _MAX_LISTING_CHARS:
            return []
        return _DTYPE.sub("", self.text).splitlines()

    @cached_property
    def counts(self) -> set[int]:
        """How many items its lists and tables may have."""
        table_sizes = {len(table) for table in equal_rows(self._rows)}
        return line_counts(self._lines) | table_sizes

    @cached_property
    def _rows(self) -> list[list[float]]:
        """The numbers of each line of a short source, as they are written."""
        return [
            [_source_values(*match)[0] for match in _SOURCE_NUMBER.findall(line)]
            for line in self._lines
        ]

    @cached_property
    def totals(self) -> list[Operand]:
        """The sums of the columns and rows of its tables."""
        return table_totals(self._rows)

    def has_number(self, middle: float, half: float, signed: bool) -> bool:
        """Return whether one of its numbers is in a range (see `NumberRange`)."""
        return contains(self.numbers, middle, half, signed)


def _source_values(sign: str, digits: str, separator: str, power: str, unit: str) -> list[float]:
    """Return the values that a number in a source may have.

    Args:
        sign: A minus sign, or empty.
        digits: The number without its sign, such as ``1,200.5``.
        separator: What stands between groups of thousands; empty if nothing does.
        power: A power of ten, such as ``e-3``, or empty.
        unit: Such as ``%`` or ``million``, or empty.

    Returns:
        The value as it is written, then scaled by its unit; then the same for each group of digits,
        because ``1,200`` may also be two numbers of a list.
    """
    numerals = [digits]
    if separator:
        numerals = [digits.replace(separator, ""), *digits.split(separator)]

    minus = "-" if sign else ""
    scale = UNIT_SCALES.get(unit.lower(), 1)
    values: list[float] = []
    for numeral in numerals:
        value = float(f"{minus}{numeral}{power}")
        values += [value, value * scale]
    return values


def _source_operand(match: re.Match[str]) -> Operand:
    """Return the number of a match of `_SOURCE_NUMBER`, scaled by its unit."""
    _written_value, scaled_value, *_other_values = _source_values(*match.groups(""))
    return Operand(abs(scaled_value), match[0].strip())


def contains(numbers: Sequence[float], middle: float, half: float, signed: bool) -> bool:
    """Return whether one of the sorted numbers is in a range.

    Args:
        numbers: The numbers, the smallest first.
        middle: The middle of the range.
        half: Half of its width.
        signed: Whether the sign counts; if not, the range below zero will do as well.
    """
    if not isfinite(middle):
        return False

    # Floats are not exact: a number at the edge of the range is in it.
    half += abs(middle) * 1e-12 + half * 1e-9
    middles = [middle]
    if not signed:
        middles.append(-middle)
    return any(
        bisect_left(numbers, candidate - half) < bisect_right(numbers, candidate + half)
        for candidate in middles
    )


def read_sources(sources: Sequence[FigureSource], question: str) -> list[SourceFigures]:
    """Return the figures of sources, which are read when they are asked for.

    Args:
        sources: The sources in order, the newest last.
        question: The user's words.

    Returns:
        Those of the newest cell first, then of earlier cells, of other sources, and of the question.
        A source that would exceed the limit of characters is left out.
    """
    # Sorting keeps the order of what is equal: cells come first, and the newest of them first.
    newest_first = list(reversed(sources))
    newest_first.sort(key=lambda source: source.cell is None)
    remaining_chars = _MAX_ALL_SOURCES_CHARS
    source_figures: list[SourceFigures] = []
    for source in newest_first:
        figures = SourceFigures(source)
        if len(figures.text) <= remaining_chars:
            remaining_chars -= len(figures.text)
            source_figures.append(figures)

    # "the two largest" asks for a 2, which an answer may repeat in digits.
    words = _WORD.findall(normalize(question[:MAX_SOURCE_END_CHARS]))
    digits = " ".join(_DIGITS_BY_WORD.get(word, "") for word in words)
    question_source = FigureSource(None, f"{question} {digits}", printed=False)
    return [*source_figures, SourceFigures(question_source)]


def normalize(text: str) -> str:
    """Return a text for comparisons that ignore differences of case and white space."""
    return " ".join(text.casefold().split())
