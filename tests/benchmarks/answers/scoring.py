"""Checks whether a text states an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

import pandas as pd

from tests.benchmarks.answers.tables import Tables

_NUMBER = re.compile(
    r"(?<![\w.])[-−]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)
_FALL = re.compile(
    r"\b(?:fell|fallen|dropped|decreased|declined|shrank|down)\b(?:\s+\w+){0,3}?\s*$", re.IGNORECASE
)
"""The words right before the size of a fall."""
_MAX_FALL_CHARS = 60
"""Characters before a number that are searched for them."""
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<!\d)(?P<year>\d{4})[-/.](?P<month>\d{1,2})(?:[-/.](?P<day>\d{1,2}))?(?!\d)",
        r"(?<!\d)(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})(?!\d)",
        rf"\b{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})\b",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?\s+(?P<year>\d{{4}})\b",
        rf"\b{_MONTH},?\s+(?:of\s+)?(?P<year>\d{{4}})\b",
    )
]
MOST_NUMBERS = 12
MOST_DATES = 3
"""A text that states more of them is a printed table."""


class Check(Protocol):
    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        """Return whether the text states the expected value."""


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text: with thousands separators, or as small words. The size of a
    fall stands in it with both signs, because people write "fell by 3%" and "fell by -3%"."""
    digits = []
    for match in _NUMBER.finditer(text):
        number = float(match[0].replace(",", "").replace("−", "-"))
        digits.append(number)
        if _FALL.search(text, max(0, match.start() - _MAX_FALL_CHARS), match.start()):
            digits.append(-number)
    words = [word for word in re.findall(r"[a-z]+", text.lower()) if word in _WORDS]
    return digits + [float(_WORDS.index(word)) for word in words]


def dates_in(text: str) -> list[tuple[int, int, int | None]]:
    """Return year, month and day (None for a month) of each date of a text, form by form."""
    dates = []
    for pattern in _DATES:
        for match in pattern.finditer(text):
            month = match["month"].lower()[:3]
            number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
            day = match.groupdict().get("day")
            dates.append((int(match["year"]), number, int(day) if day else None))
        text = pattern.sub(" ", text)
    return dates


@dataclass(frozen=True)
class Number:
    """A number, exact or rounded to at least these decimals."""

    decimals: int | None = None
    percent: bool = False
    """The value is a share, which may be stated as a percentage, with so many decimals."""

    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        numbers = numbers_in(text)
        if len(set(numbers)) > MOST_NUMBERS:
            return False
        tolerance = 1e-6 if self.decimals is None else 0.5 * 10**-self.decimals + 1e-9
        value = float(expected)
        if self.percent:
            numbers += [number * 100 for number in numbers]
            value *= 100
        return any(abs(number - value) <= tolerance for number in numbers)


@dataclass(frozen=True)
class Names:
    """All expected names of a column and no others, or one name that comes before the others."""

    column: str
    """The table and the column with all possible names, as in "cars.Origin"."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other words for names."""

    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        stated_names = self._found(text, tables)
        if isinstance(expected, str):
            return stated_names[:1] == [expected]
        return set(stated_names) == {str(name) for name in expected}

    def _found(self, text: str, tables: Tables) -> list[str]:
        table, _, column = self.column.partition(".")
        names = tables[table][column].dropna().unique()
        meant = {str(name): str(name) for name in names} | dict(self.aliases)
        # In small letters a code such as "IN" or "OR" is a word.
        codes = {name for name in meant if name.isupper() and len(name) == 2}
        forms = (
            re.escape(name) if name in codes else f"(?i:{re.escape(name)})"
            for name in sorted(meant, key=len, reverse=True)
        )
        lowered = {name.lower(): value for name, value in meant.items()}
        pattern = rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)"
        return [
            meant.get(name_text) or lowered[name_text.lower()]
            for name_text in re.findall(pattern, text)
        ]


@dataclass(frozen=True)
class Date:
    """A date, or only its month."""

    month: bool = False

    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        expected_date: date = pd.Timestamp(expected).date()
        stated_dates = dates_in(text)
        if len(set(stated_dates)) > MOST_DATES:
            return False
        if self.month:
            return any(
                stated_date[:2] == (expected_date.year, expected_date.month)
                for stated_date in stated_dates
            )
        return (expected_date.year, expected_date.month, expected_date.day) in stated_dates


@dataclass(frozen=True)
class Words:
    """At least one word of each group. Expected: groups of beginnings of words."""

    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        return all(
            any(re.search(rf"(?<![^\W_]){re.escape(word)}", text, re.IGNORECASE) for word in group)
            for group in expected
        )


@dataclass(frozen=True)
class All:
    """Several values, each with its own check."""

    checks: Sequence[Check]

    def states(self, text: str, expected: Any, tables: Tables) -> bool:
        pairs = zip(self.checks, expected, strict=True)
        return all(check.states(text, expected_part, tables) for check, expected_part in pairs)
