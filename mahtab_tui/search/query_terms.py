"""What a query asks to compute: an aggregate, with a limit or a date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Limits

_NUMBER = r"(?P<number>(?<!\d,)(?<!,,)\d[\d,]*(?:\.\d+)?)"
"""The number of a limit. The lookbehinds let it begin only at its first digit."""
_GREATER = "more|greater|larger|bigger|longer|heavier|higher|older"
_LESS = "less|fewer|smaller|shorter|lighter|lower|younger"
_NEGATION = r"(?:no|not|never|cannot|without|\w+n['’]t)(?: \w+(?: (?:for|by|to|at|in|with|of))?)?"
"""What turns a limit around: "no more than", "do not exceed", "was not kept for more than"."""
_OPPOSITE_OPERATORS = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}


class QueryCondition(NamedTuple):
    """A condition of the query, as "more than 5"."""

    number: str
    """The limit, without separators of thousands."""
    operator: str
    """A Python comparison operator."""


class _Comparison(NamedTuple):
    """A way to state a limit."""

    operator: str
    """A Python comparison operator."""
    pattern: re.Pattern[str]
    """Its groups are the `number` and the `negation` before it, if there is one."""


def _comparison(operator: str, words: str) -> _Comparison:
    """Return a comparison. words: a pattern with the number."""
    pattern = re.compile(rf"\b(?:(?P<negation>{_NEGATION}) )?{words}\b", re.IGNORECASE)
    return _Comparison(operator, pattern)


_COMPARISONS = (
    _comparison(">", rf"(?:{_GREATER}) than {_NUMBER}"),
    _comparison(">", rf"(?:above|over|exceed(?:s|ed|ing)?) {_NUMBER}"),
    _comparison("<", rf"(?:{_LESS}) than {_NUMBER}"),
    _comparison("<", rf"(?:below|under) {_NUMBER}"),
    _comparison(">=", rf"at least {_NUMBER}"),
    _comparison(">=", rf"{_NUMBER}(?: \w+)? or more"),
    _comparison("<=", rf"at most {_NUMBER}"),
    _comparison("<=", rf"{_NUMBER}(?: \w+)? or (?:less|fewer)"),
)

# Columns and dates

WHICH = re.compile(r"which (\w+)\b|who\b", re.IGNORECASE)
"""The start of a query that asks for what has an extreme, and not for the extreme."""
_IDENTIFIER = re.compile(r"(?:.*[_ ])?(?:id|no|nr|number|index|key|code|year)", re.IGNORECASE)
"""The name of a column that identifies, such as `order_id`; nobody adds up its numbers."""
_MONTHS = (
    "january february march april may june july august september october november december".split()
)
DATE = re.compile(
    rf"""
    \b(?:
        (\d{{4}}-\d\d(?:-\d\d)?)                # a day or a month as in ISO dates
        | ({"|".join(_MONTHS)})[ ](\d{{4}})     # a month
        | in[ ]((?:1[5-9]|20)\d\d)              # a year, and not the number of lines
          (?![ ](?:lines|rows|records|entries|items|words|characters)\b)
    )\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A day, a month, or a year from 1500 to 2099."""

# Aggregates


class Aggregate(NamedTuple):
    """A way to compute an answer from many lines."""

    pattern: re.Pattern[str]
    """Words of a query that asks for it."""
    description: str
    """What the code computes, for the model; `{key}` stands for the column."""
    code: str
    """An expression over `values`."""
    is_of_numbers: bool = True
    is_extreme: bool = False
    """Whether it is the largest or the smallest number."""


def _aggregate(
    words: str, description: str, code: str, *, is_of_numbers: bool = True, is_extreme: bool = False
) -> Aggregate:
    """Return an aggregate. words: a pattern; for the others see `Aggregate`."""
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    return Aggregate(pattern, description, code, is_of_numbers, is_extreme)


COUNT = _aggregate(
    r"how many|how often|number of(?! the\b)|count", "the number of lines", "len(values)"
)
SUM = _aggregate("sum|total|altogether|all in all|add up", "the sum of {key}", "sum(values)")
EARLIEST = _aggregate("earliest", "the earliest {key}", "min(values)", is_of_numbers=False)
LATEST = _aggregate("latest", "the latest {key}", "max(values)", is_of_numbers=False)
_AGGREGATES = (
    _aggregate(
        r"(?:how many|number of|count)(?: \w+)? (?:different|distinct|unique)",
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
    conditions: list[QueryCondition] = []
    for comparison in _COMPARISONS:
        for match in comparison.pattern.finditer(query):
            operator = comparison.operator
            if match["negation"]:
                operator = _OPPOSITE_OPERATORS[operator]
            conditions.append(QueryCondition(match["number"].replace(",", ""), operator))
    if len(conditions) != 1:
        return None
    return conditions[0]


def choose_aggregate(query: str, quantity: str) -> Aggregate | None:
    """Return the first aggregate whose words a query has; None if it has none.

    Args:
        query: The query.
        quantity: The name of the numbers that it is about, such as "tons"; empty if unknown. "How
            many tons" asks for a sum.
    """
    aggregate = _first_aggregate(query)
    if aggregate is COUNT and quantity:
        amount = rf"\bhow (?:many|much) {re.escape(quantity)}\b"
        if re.search(amount, query, re.IGNORECASE):
            return SUM
    return aggregate


def _first_aggregate(query: str) -> Aggregate | None:
    for aggregate in _AGGREGATES:
        if aggregate.pattern.search(query):
            return aggregate
    return None


def find_named_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that a query uses first after the words that say what to compute, or else
    first of all; also in the plural. Empty if it uses none.

    Args:
        query: The query.
        keys: The names of columns or values in the text.
    """
    rest_of_query = query[_aggregate_start(query) :]
    return _first_named_key(rest_of_query, keys) or _first_named_key(query, keys)


def _aggregate_start(query: str) -> int:
    """Return where the words begin that say what to compute; 0 if there are none."""
    matches = [aggregate.pattern.search(query) for aggregate in _AGGREGATES]
    return min((match.start() for match in matches if match is not None), default=0)


def _first_named_key(text: str, keys: Sequence[str]) -> str:
    """Return the first name in a text, also in the plural; empty if there is none."""
    for word in re.findall(r"\w+", text):
        for key in keys:
            if _singular(key) == _singular(word):
                return key
    return ""


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def choose_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that a query uses, or else the first of a quantity, or else the first of all;
    empty if there is none.

    Args:
        query: The query.
        keys: The names of columns or values in the text.
    """
    named_key = find_named_key(query, keys)
    if named_key:
        return named_key
    for key in keys:
        if not _IDENTIFIER.fullmatch(key):
            return key
    if keys:
        return keys[0]
    return ""


def find_date(query: str) -> str:
    """Return the day, month or year that a query names, as in ISO dates; empty if it names none."""
    match = DATE.search(query)
    if match is None:
        return ""
    iso_date, month, year_of_month, year = match.groups()
    if month:
        return f"{year_of_month}-{_MONTHS.index(month.lower()) + 1:02}"
    return iso_date or year
