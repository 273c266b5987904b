"""Reads the numbers and lists of the texts from which an answer's figures may come."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from math import isfinite
from typing import NamedTuple

from mahtab_tui.bus.figure_arithmetic import Operand, equal_rows, line_counts, table_totals
from mahtab_tui.bus.figure_tokens import UNIT_SCALES, FigureToken

SOURCE_END = 500_000
"""Characters to read at each end of a source."""
ALL_SOURCES = 8_000_000
MAX_PARTS = 20
"""Numbers up to which each number of a source may be a part of a whole."""
_MAX_ROWS = 60
"""Rows of a source from whose numbers others may follow."""


class FigureSource(NamedTuple):
    cell: int | None
    """None for an attachment, a tool's result, code, or the user's words."""
    text: str
    printed: bool = True
    """Whether it is an output, an attachment or a tool's result."""


_SOURCE_NUMBER = re.compile(
    r"((?<![\w.)\]])[-−])?(\d{1,3}([,'’_])\d{3}(?:\3\d{3}){0,8}+(?!\d)(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
    r"([eE][-+]?\d{1,3})?(?:\s?(%|(?i:thousand|million|billion)|[kKMB](?!\w)))?"
)
_DTYPE = re.compile(r"^Name: .*|dtype: \w+", re.MULTILINE)
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_LISTING_CHARS = 20_000
"""Characters up to which the lines of a source are counted and added up."""


class Source:
    def __init__(self, source: FigureSource) -> None:
        self.cell = source.cell
        self.printed = source.printed
        self.text = f"{source.text[:SOURCE_END]}\n{source.text[SOURCE_END:][-SOURCE_END:]}"

    @cached_property
    def folded(self) -> str:
        return fold(self.text)

    @cached_property
    def numbers(self) -> list[float]:
        values: set[float] = set()
        for match in set(_SOURCE_NUMBER.findall(self.text)):
            values.update(_source_values(*match))
        return sorted(filter(isfinite, values))

    @cached_property
    def operands(self) -> list[Operand]:
        """The different numbers of a short source in their order; only the first few."""
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
        return [
            list(map(_source_operand, _SOURCE_NUMBER.finditer(line)))
            for line in self._lines[:_MAX_ROWS]
        ]

    @cached_property
    def operand_columns(self) -> list[list[Operand]]:
        runs = equal_rows(self.operand_rows)
        return [list(column) for run in runs for column in zip(*run, strict=True)]

    @cached_property
    def _lines(self) -> list[str]:
        """The lines of a short source, without what pandas writes below a column."""
        if len(self.text) > _LISTING_CHARS:
            return []
        return _DTYPE.sub("", self.text).splitlines()

    @cached_property
    def counts(self) -> set[int]:
        return line_counts(self._lines) | {len(block) for block in equal_rows(self._rows)}

    @cached_property
    def _rows(self) -> list[list[float]]:
        return [
            [_source_values(*match)[0] for match in _SOURCE_NUMBER.findall(line)]
            for line in self._lines
        ]

    @cached_property
    def totals(self) -> list[Operand]:
        return table_totals(self._rows)

    def has_number(self, middle: float, half: float, signed: bool) -> bool:
        return contains(self.numbers, middle, half, signed)


def _source_values(sign: str, digits: str, gap: str, power: str, unit: str) -> list[float]:
    """Return the values that a number in a source may have: as it is written, scaled by its unit,
    or several numbers in a list."""
    grouped = digits.replace(gap, "") if gap else digits
    values: list[float] = []
    for piece in (grouped, *(digits.split(gap) if gap else ())):
        value = float(f"{'-' * bool(sign)}{piece}{power}")
        values += [value, value * UNIT_SCALES.get(unit.lower(), 1)]
    return values


def _source_operand(match: re.Match[str]) -> Operand:
    values = _source_values(*match.groups(""))
    return Operand(abs(values[1]), match[0].strip())


def contains(numbers: Sequence[float], middle: float, half: float, signed: bool) -> bool:
    half += abs(middle) * 1e-12 + half * 1e-9
    return any(
        bisect_left(numbers, candidate - half) < bisect_right(numbers, candidate + half)
        for candidate in ((middle,) if signed else (middle, -middle))
        if isfinite(candidate)
    )


def read_sources(sources: Sequence[FigureSource], question: str) -> list[Source]:
    """Return the newest cell first, then other sources, and the question last."""
    remaining_chars = ALL_SOURCES
    chosen: list[Source] = []
    newest_first = list(reversed(sources))
    for source in sorted(newest_first, key=lambda source: source.cell is None):
        read = Source(source)
        if len(read.text) <= remaining_chars:
            remaining_chars -= len(read.text)
            chosen.append(read)
    digits = dict(zip(_NUMBER_WORDS, map(str, range(13)), strict=True))
    spoken = " ".join(digits.get(word, "") for word in fold(question[:SOURCE_END]).split())
    return [*chosen, Source(FigureSource(None, f"{question} {spoken}", printed=False))]


def find_token(token: FigureToken, sources: Sequence[Source]) -> tuple[bool, int | None]:
    """Return whether a figure occurs in a source, and in which cell; exact numbers come first."""
    if token.ranges == []:
        return True, None
    if (ranges := token.ranges) is not None:
        exact = [candidate._replace(half=0) for candidate in ranges]
        for wanted in (exact, ranges):
            for source in sources:
                if any(source.has_number(*candidate) for candidate in wanted):
                    return True, source.cell
        return False, None
    text = fold(token.quoted or token.text)
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\d)" if text[-1].isdigit() else r"(?!\w)" if text[-1].isalnum() else ""
    pattern = re.compile(before + re.escape(text) + after)
    for source in sources:
        if text in source.folded and pattern.search(source.folded):
            return True, source.cell
    return False, None


def fold(text: str) -> str:
    return " ".join(text.casefold().split())
