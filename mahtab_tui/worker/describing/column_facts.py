"""What a model is told about a column's values: how many are missing, the smallest and the largest,
and how often each text occurs.

A `ColumnReader` collects `ColumnFacts`, and `facts_text` writes them.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..values.short_values import literal
from .written_values import DATES_AS_TEXT, MAX_VALUE_CHARS, have_order_of_time, text_note

MAX_LISTED_VALUES = 30
"""Different values up to which all are listed."""
COMMONEST_VALUES = 5
"""The commonest values, which are listed otherwise."""

_MAX_BITS = 200
"""Bits of a whole number that is written."""
_MAX_INT_CHARS = 20
"""Characters of a whole number that is written exactly."""
_MAX_FLOAT_CHARS = 8
"""Characters of a number with a fraction that is written exactly."""
_MAX_FLOAT_DIGITS = 6
"""Digits of a number with a fraction that is written exactly."""
_MIDNIGHT = " 00:00:00"
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_UNIT = {"D": 86_400, "h": 3_600, "m": 60}
_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnFacts(NamedTuple):
    """What was read of a column's values."""

    rows: int
    """How many rows were read, from the first."""
    is_complete: bool
    """Whether these are all rows."""
    missing: int
    """How many of the values are missing."""
    low: str = ""
    """The smallest value; empty if the values have no order."""
    high: str = ""
    """The largest value."""
    counts: Sequence[tuple[str, int]] = ()
    """Values as Python literals, the most frequent first: all of them up to `MAX_LISTED_VALUES`,
    otherwise the commonest."""
    distinct: int | None = None
    """How many values differ, if they were counted."""
    note: str = ""
    """What the type of the column does not say."""

    @property
    def present(self) -> int:
        """How many of the values are not missing."""
        return self.rows - self.missing


def text_facts(facts: ColumnFacts, texts: Counter[str]) -> ColumnFacts:
    """Add what can be said about texts.

    Args:
        facts: What is known of the column.
        texts: How often each text occurs.
    """
    note = facts.note or text_note(texts)
    facts = with_counts(facts, texts)._replace(note=note)
    if not note.startswith(DATES_AS_TEXT) or not have_order_of_time(texts):
        return facts

    # Of dates, the first and the last say more than the commonest.
    return facts._replace(
        low=literal(min(texts), MAX_VALUE_CHARS),
        high=literal(max(texts), MAX_VALUE_CHARS),
        counts=(),
    )


def with_counts(facts: ColumnFacts, counts: Counter[Any]) -> ColumnFacts:
    """Add how often each value occurs."""
    distinct_count = len(counts)
    listed_count = distinct_count if distinct_count <= MAX_LISTED_VALUES else COMMONEST_VALUES
    listed = [(_value_text(value), count) for value, count in counts.most_common(listed_count)]
    return facts._replace(counts=listed, distinct=distinct_count)


def _value_text(value: object) -> str:
    return literal(value, MAX_VALUE_CHARS) if type(value) is str else str(value)


def facts_text(facts: ColumnFacts, max_values: int, width: int, commonest_width: int) -> str:
    """Return what is said about a column, such as "3 missing; 1 to 40; 12 different".

    Args:
        facts: What was read of its values.
        max_values: Different values up to which all are listed.
        width: Characters of that list.
        commonest_width: Characters of the commonest values, if not all are listed.
    """
    statements: list[str] = []
    if facts.missing:
        statements.append(f"{facts.missing:,} missing")
    elif not facts.is_complete:
        statements.append("none missing")
    if facts.low and facts.high:
        # Rounded numbers may differ although their texts are the same.
        is_constant = facts.low == facts.high and "~" not in facts.low
        statements.append(f"only {facts.low}" if is_constant else f"{facts.low} to {facts.high}")
    if facts.distinct is not None and facts.present > 1:
        statements.append(
            _list_values(facts, facts.distinct, max_values, width)
            or _count_values(facts, facts.distinct, commonest_width)
        )
    if facts.note:
        statements.append(facts.note)

    statement = "; ".join(statements)
    if facts.is_complete:
        return statement
    return f"first {facts.rows:,} rows only: {statement}"


def _list_values(facts: ColumnFacts, distinct: int, max_values: int, width: int) -> str:
    """List all values; return an empty string if there are more, or they do not fit."""
    if not facts.counts or distinct > max_values:
        return ""
    first_count = facts.counts[0][1]
    are_equally_common = distinct > 1 and all(count == first_count for _, count in facts.counts)
    if are_equally_common:
        listed = ", ".join(text for text, _ in facts.counts)
    else:
        listed = ", ".join(f"{text} {count}" for text, count in facts.counts)
    if len(listed) > width:
        return ""
    if are_equally_common and first_count > 1:
        return f"values ({first_count:,} each): {listed}"
    return f"values: {listed}"


def _count_values(facts: ColumnFacts, distinct: int, width: int) -> str:
    """Say how many values differ, and which are the commonest."""
    if distinct == facts.present:
        return "all different"
    commonest = [f"{text} {count}" for text, count in facts.counts[:COMMONEST_VALUES]]
    ends = accumulate(len(value) + len(", ") for value in commonest)
    fitting_count = sum(end <= width for end in ends)
    if not fitting_count:
        return f"{distinct:,} different"
    return f"{distinct:,} different, most often {', '.join(commonest[:fitting_count])}"


def number_text(value: Any) -> str:
    """Write a number exactly, or rounded with ``~`` before it if that would be long; return an empty
    string if it is huge."""
    if type(value) is int and value.bit_length() > _MAX_BITS:
        return ""
    text = str(value)
    text = text.removesuffix(".0")
    if "." in text or "e" in text:
        significant_digits = text.partition("e")[0].replace(".", "").lstrip("-0")
        has_few_digits = len(significant_digits) <= _MAX_FLOAT_DIGITS
        is_exact = len(text) <= _MAX_FLOAT_CHARS and has_few_digits
    else:
        is_exact = len(text) <= _MAX_INT_CHARS
    if is_exact:
        return text
    return f"~{float(value):.5g}"


def moment_text(ticks: int, unit: str, zone: str = "") -> str:
    """Write a moment; return an empty string if no calendar has it, or its unit is unknown.

    Args:
        ticks: Units since the beginning of 1970.
        unit: Such as ``ns`` or ``D``.
        zone: The column's time zone, in which case the moment is written in UTC.
    """
    if unit not in _UNITS_PER_SECOND and unit not in _SECONDS_PER_UNIT:
        return ""
    per_second = _UNITS_PER_SECOND.get(unit, 1)
    seconds, fraction = divmod(ticks * _SECONDS_PER_UNIT.get(unit, 1), per_second)
    try:
        text = (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat(" ")
    except OverflowError:
        return ""
    if fraction:
        digits = len(str(per_second)) - 1
        text += f".{fraction:0{digits}}".rstrip("0")
    text = text.removesuffix(_MIDNIGHT)
    return f"{text} UTC" if zone else text
