"""What a query asks to compute, read from its words: an aggregate, with a limit or a date.

The example of code that a model is shown is made from this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Types


class QueryCondition(NamedTuple):
    """A limit that a query sets: "more than 1,000 tons" is ``> 1000``."""

    number: str
    """The number, without separators of thousands."""
    operator: str
    """A Python comparison operator."""


class _Comparison(NamedTuple):
    """A way to state a limit."""

    operator: str
    """A Python comparison operator."""
    pattern: re.Pattern[str]
    """Its groups are the `number`, and before it the `negation`, if there is one."""


class Aggregate(NamedTuple):
    """A way to compute an answer from many lines."""

    pattern: re.Pattern[str]
    """Finds the words of a query that ask for it."""
    description: str
    """What the code computes, for the model; `{key}` stands for the name of the values."""
    code: str
    """An expression over the list `values`."""
    needs_numbers: bool = True
    """Whether `values` must be numbers; otherwise they are the texts as they stand. Counting lines
    needs no values, so it does not matter there."""
    is_extreme: bool = False
    """Whether it is the largest or the smallest number."""


# Words of a query

_NUMBER = r"(?P<number>(?<!\d,)(?<!,,)\d[\d,]*(?:\.\d+)?)"
"""The number of a limit, such as "5", "1,234" or "2.75".

A match may not begin within a number, at "234" of "1,234", nor at each digit of a long row of commas:
the lookbehinds forbid both, and so keep the search linear.
"""
_GREATER = "more|greater|larger|bigger|longer|heavier|higher|older"
_LESS = "less|fewer|smaller|shorter|lighter|lower|younger"
_NEGATION = r"(?:no|not|never|cannot|without|\w+n['’]t)(?: \w+(?: (?:for|by|to|at|in|with|of))?)?"
"""The words before a comparison that reverse it, with up to one word and one preposition after them:

    no            more than 5
    do not        exceed 5
    never weighed more than 5
    wasn't kept for more than 5
"""
_OPPOSITE_OPERATORS = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}
"""What each operator becomes after a negation."""
WHICH = re.compile(r"which (\w+)\b|who\b", re.IGNORECASE)
"""The start of a query that asks for what has an extreme, and not for the extreme: "Which truck carried
the largest load?" Its group is what it asks for; None for "who"."""
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
"""A day, a month, or a year from 1500 to 2099. Its groups are an ISO date, the name and the year of a
month, and a year."""

# Tables


def _comparison(operator: str, words: str) -> _Comparison:
    """Return a way to state a limit.

    Args:
        operator: A Python comparison operator.
        words: A regular expression with `_NUMBER`. A negation may stand before it.
    """
    pattern = re.compile(rf"\b(?:(?P<negation>{_NEGATION}) )?{words}\b", re.IGNORECASE)
    return _Comparison(operator, pattern)


def _aggregate(
    words: str, description: str, code: str, *, needs_numbers: bool = True, is_extreme: bool = False
) -> Aggregate:
    """Return an aggregate; see its fields.

    Args:
        words: A regular expression, which matches only whole words.
    """
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    return Aggregate(pattern, description, code, needs_numbers, is_extreme)


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

COUNT = _aggregate(
    r"how many|how often|number of(?! the\b)|count", "the number of lines", "len(values)"
)
SUM = _aggregate("sum|total|altogether|all in all|add up", "the sum of {key}", "sum(values)")
EARLIEST = _aggregate("earliest", "the earliest {key}", "min(values)", needs_numbers=False)
LATEST = _aggregate("latest", "the latest {key}", "max(values)", needs_numbers=False)
_AGGREGATES = (
    _aggregate(
        r"(?:how many|number of|count)(?: \w+)? (?:different|distinct|unique)",
        "the number of different values of {key}",
        "len(set(values))",
        needs_numbers=False,
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
"""From the first whose words a query has, the example is made: "how many different" stands before "how
many"."""


def find_comparison(query: str) -> QueryCondition | None:
    """Return the only limit that a query sets; None if it sets none or several."""
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
    """Return the aggregate that a query asks for; None if it asks for none.

    Args:
        query: The query.
        quantity: The name of the numbers that it is about, such as "tons"; empty if unknown. "How
            many tons" asks for their sum, and not for a number of lines.
    """
    aggregate = _first_aggregate(query)
    if aggregate is COUNT and quantity:
        amount = rf"\bhow (?:many|much) {re.escape(quantity)}\b"
        if re.search(amount, query, re.IGNORECASE):
            return SUM
    return aggregate


def _first_aggregate(query: str) -> Aggregate | None:
    """Return the first aggregate whose words a query has; None if it has none."""
    for aggregate in _AGGREGATES:
        if aggregate.pattern.search(query):
            return aggregate
    return None


def find_named_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that a query is most likely about; empty if it uses none of them.

    That is the first name from the words on that say what to compute, or else the first name of the
    whole query. In "For each shop, what is the sum of the amounts?", of `shop` and `amount`, it is
    `amount`.

    Args:
        query: The query.
        keys: The names of columns or values in the text. The query may use their plural.
    """
    rest_of_query = query[_aggregate_start(query) :]
    return _first_named_key(rest_of_query, keys) or _first_named_key(query, keys)


def _aggregate_start(query: str) -> int:
    """Return the index where the words begin that say what to compute; 0 if there are none."""
    matches = [aggregate.pattern.search(query) for aggregate in _AGGREGATES]
    return min((match.start() for match in matches if match is not None), default=0)


def _first_named_key(text: str, keys: Sequence[str]) -> str:
    """Return the name that a text uses first, or uses in the plural; empty if it uses none."""
    for word in re.findall(r"\w+", text):
        for key in keys:
            if _singular(key) == _singular(word):
                return key
    return ""


def _singular(word: str) -> str:
    """Return a word in lower case and without an "s" at its end, to compare it with others."""
    return word.lower().removesuffix("s")


def choose_key(query: str, keys: Sequence[str]) -> str:
    """Return the name of the values from which a query is answered; empty if there is no name.

    That is the name that the query uses, or else the first one that does not identify something as
    `order_id` does, or else the first one.

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
    """Return the first day, month or year that a query names, in the form of ISO dates: ``2024-05-31``,
    ``2024-05`` or ``2024``; empty if it names none."""
    match = DATE.search(query)
    if match is None:
        return ""
    iso_date, month, year_of_month, year = match.groups()
    if month:
        return f"{year_of_month}-{_MONTHS.index(month.lower()) + 1:02}"
    return iso_date or year
