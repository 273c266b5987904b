"""What a model is told about a column's values: how many are missing, the smallest and the largest,
and how often each text occurs.

A `ColumnReader` collects `ColumnFacts`, and `facts_text` writes them.
"""

from __future__ import annotations

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
