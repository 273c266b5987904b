"""What a query asks to compute: an aggregate, with a limit or a date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
"""A pattern for the number of a limit."""
_COMPARISONS = (
    (
        rf"(?:more|greater|larger|bigger|longer|heavier|higher|older) than {_NUMBER}|(?:above|over|exceed(?:s|ed|ing)?) {_NUMBER}",
        ">",
    ),
    (
        rf"(?:less|fewer|smaller|shorter|lighter|lower|younger) than {_NUMBER}|(?:below|under) {_NUMBER}",
        "<",
    ),
    (rf"at least {_NUMBER}|{_NUMBER}(?: \w+)? or more", ">="),
    (rf"at most {_NUMBER}|{_NUMBER}(?: \w+)? or (?:less|fewer)", "<="),
)
"""Patterns for limits, and their operators."""
_IDENTIFIER = re.compile(r"(?:.*[_ ])?(?:id|no|nr|number|index|key|code|year)", re.IGNORECASE)
"""The name of a column whose numbers nobody adds up."""
WHICH = re.compile(r"which (\w+)\b|who\b", re.IGNORECASE)
"""At the start of a query that asks for what has an extreme, and not for the extreme."""
_MONTHS = (
    "january february march april may june july august september october november december".split()
)
DATE = re.compile(
    rf"\b(?:(\d{{4}}-\d\d(?:-\d\d)?)|({'|'.join(_MONTHS)}) (\d{{4}})|in (\d{{4}}))\b", re.IGNORECASE
)
"""A day, a month or a year."""
_DIFFERENT = "(?:different|distinct|unique)"
"""A pattern for words that ask for different values."""


class QueryCondition(NamedTuple):
    """A condition of the query, as "more than 5"."""

    number: str
    operator: str
    """Of Python."""


class Aggregate(NamedTuple):
    """A way to compute an answer from many lines."""

    pattern: re.Pattern[str]
    """Words of a query that asks for it."""
    name: str
    """What it is of `{key}`, for the model."""
    code: str
    """An expression over `values`."""
    is_of_numbers: bool = True
    is_extreme: bool = False
    """Whether it is the largest or the smallest number."""


def _aggregate(
    words: str, name: str, code: str, *, is_of_numbers: bool = True, is_extreme: bool = False
) -> Aggregate:
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    return Aggregate(pattern, name, code, is_of_numbers, is_extreme)


COUNT = _aggregate(
    r"how many|how often|number of(?! the\b)|count", "the number of lines", "len(values)"
)
SUM = _aggregate("sum|total|altogether|all in all|add up", "the sum of {key}", "sum(values)")
EARLIEST = _aggregate("earliest", "the earliest {key}", "min(values)", is_of_numbers=False)
LATEST = _aggregate("latest", "the latest {key}", "max(values)", is_of_numbers=False)
_AGGREGATES = (
    _aggregate(
        rf"(?:how many|number of|count)(?: \w+)? {_DIFFERENT}",
        "the number of different values of {key}",
        "len(set(values))",
        is_of_numbers=False,
    ),
    _aggregate("average|mean", "the average of {key}", "sum(values) / len(values)"),
    _aggregate(
        "maximum|largest|highest|longest|heaviest|biggest|the most that",
        "the largest {key}",
        "max(values)",
        is_extreme=True,
    ),
    _aggregate(
        "minimum|smallest|lowest|shortest|lightest",
        "the smallest {key}",
        "min(values)",
        is_extreme=True,
    ),
    EARLIEST,
    LATEST,
    SUM,
    COUNT,
)
"""The first whose words a query has is shown as the example."""


def find_comparison(query: str) -> QueryCondition | None:
    """Return the condition of a query; None if it has none or several."""
    comparisons = [
        QueryCondition(next(filter(None, match.groups())).replace(",", ""), operator)
        for pattern, operator in _COMPARISONS
        for match in re.finditer(rf"\b(?:{pattern})\b", query, re.IGNORECASE)
    ]
    return comparisons[0] if len(comparisons) == 1 else None


def choose_aggregate(query: str, quantity: str) -> Aggregate | None:
    """Return the first aggregate whose words a query has; None if it has none.

    Args:
        query: The query.
        quantity: The name of the numbers that it is about, such as "tons"; empty if unknown. "How
            many tons" asks for a sum.
    """
    for aggregate in _AGGREGATES:
        if aggregate.pattern.search(query):
            break
    else:
        return None
    if aggregate is COUNT and quantity:
        amount = rf"\bhow (?:many|much) {re.escape(quantity)}\b"
        if re.search(amount, query, re.IGNORECASE):
            return SUM
    return aggregate


def named_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that the query uses first after the words that say what to compute, also in
    the plural; empty if it uses none."""
    starts = [
        match.start() for aggregate in _AGGREGATES if (match := aggregate.pattern.search(query))
    ]
    start = min(starts, default=0)
    for part in (query[start:], query):
        for word in re.findall(r"\w+", part):
            singular = word.lower().removesuffix("s")
            for key in keys:
                if key.lower().removesuffix("s") == singular:
                    return key
    return ""


def choose_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that the query uses, or else the first of a quantity; empty if there is
    none."""
    quantities = [key for key in keys if not _IDENTIFIER.fullmatch(key)]
    return named_key(query, keys) or next(iter([*quantities, *keys]), "")


def find_date(query: str) -> str:
    """Return the day, month or year that a query names, as in ISO dates; empty if it names none."""
    match = DATE.search(query)
    if match is None:
        return ""
    iso_date, month, year_of_month, year = match.groups()
    if month:
        return f"{year_of_month}-{_MONTHS.index(month.lower()) + 1:02}"
    return iso_date or year
