"""What a model is told of a column's values: how many are missing, the smallest and the largest, and
how often each text occurs."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple

from .inspection.children import literal

MAX_LISTED_VALUES = 30
COMMONEST_VALUES = 5

_VALUE_WIDTH = 24
_PATTERN_SAMPLE = 500
_MAX_MATCHED_TEXTS = 5_000
_MAX_MATCHED_LENGTH = 40
_MAX_BITS = 200
_INT_WIDTH, _FLOAT_WIDTH = 20, 8
"""Characters of a number that is written exactly."""
_MIDNIGHT = " 00:00:00"
_NUMBER = re.compile(r"\s*[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,4})?%?\s*")
_DATE = re.compile(
    r"\s*(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[/.]\d\d?[/.]\d{2,4})(?:[T ][\d:.+Z-]+)?\s*"
)
_SORTED_DATE = re.compile(r"\d{4}([-/.])\d\d\1\d\d(?:[T ][\d:.+Z-]+)?")
"""A date whose order as text is that in time."""
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_UNIT = {"D": 86_400, "h": 3_600, "m": 60}
_DATES = "dates as text"
_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnFacts(NamedTuple):
    rows: int
    """Number of the rows that were read, from the first."""
    is_complete: bool
    """Whether these are all rows."""
    missing: int
    low: str = ""
    high: str = ""
    counts: Sequence[tuple[str, int]] = ()
    """Values as Python literals, the most frequent first: all of them up to `MAX_LISTED_VALUES`,
    otherwise the commonest."""
    distinct: int | None = None
    """How many values differ, if they were counted."""
    note: str = ""
    """What the type of the column does not say."""

    @property
    def present(self) -> int:
        return self.rows - self.missing


def text_facts(facts: ColumnFacts, texts: Counter[str]) -> ColumnFacts:
    """Add what is stated of texts. texts: how often each occurs."""
    note = facts.note or _text_note(texts)
    facts = with_counts(facts, texts)._replace(note=note)
    if note != _DATES or not all(map(_SORTED_DATE.fullmatch, texts)):
        return facts
    low, high = literal(min(texts), _VALUE_WIDTH), literal(max(texts), _VALUE_WIDTH)
    return facts._replace(low=low, high=high, counts=())


def with_counts(facts: ColumnFacts, counts: Counter[Any]) -> ColumnFacts:
    """Add how often each value occurs."""
    distinct = len(counts)
    listed = counts.most_common(None if distinct <= MAX_LISTED_VALUES else COMMONEST_VALUES)
    pairs = [
        (literal(value, _VALUE_WIDTH) if type(value) is str else str(value), count)
        for value, count in listed
    ]
    return facts._replace(counts=pairs, distinct=distinct)


def facts_text(facts: ColumnFacts, max_values: int, width: int, commonest_width: int) -> str:
    """Return what is stated of a column. max_values: how many values are listed. width: characters
    of that list. commonest_width: characters of the commonest values where there are more."""
    words = []
    if facts.low and facts.high:
        is_constant = facts.low == facts.high and "~" not in facts.low
        words.append(f"only {facts.low}" if is_constant else f"{facts.low} to {facts.high}")
    if facts.distinct is not None and facts.present > 1:
        words.append(
            _list_values(facts, facts.distinct, max_values, width)
            or _count_values(facts, facts.distinct, commonest_width)
        )
    words += [facts.note] if facts.note else []
    statement = "; ".join(words)
    gaps = f"{facts.missing:,} missing" if facts.missing else ""
    if not facts.is_complete:
        statement = "; ".join([gaps or "none missing", *words])
        return f"first {facts.rows:,} rows only: {statement}"
    return "  ".join(filter(None, [f"({gaps})" if gaps else "", statement]))


def _list_values(facts: ColumnFacts, distinct: int, max_values: int, width: int) -> str:
    """List all values; return an empty string if there are more, or they do not fit."""
    if not facts.counts or distinct > max_values:
        return ""
    repetitions = {count for _, count in facts.counts}
    are_equal = distinct > 1 and len(repetitions) == 1
    values = [text if are_equal else f"{text} {count}" for text, count in facts.counts]
    if len(", ".join(values)) > width:
        return ""
    [*_, most] = repetitions
    each = f" ({most:,} each)" if are_equal and most > 1 else ""
    return f"values{each}: {', '.join(values)}"


def _count_values(facts: ColumnFacts, distinct: int, width: int) -> str:
    """Say how many values differ, and which are the commonest."""
    if distinct == facts.present:
        return "all different"
    values = [f"{text} {count}" for text, count in facts.counts[:COMMONEST_VALUES]]
    ends = accumulate(len(value) + 2 for value in values)
    listed = values[: sum(end <= width for end in ends)]
    commonest = f", most often {', '.join(listed)}" if listed else ""
    return f"{distinct:,} different{commonest}"


def number_text(value: Any) -> str:
    """Write a number exactly, or with ``~`` before it if that would be long; empty if it is
    huge."""
    if type(value) is int and value.bit_length() > _MAX_BITS:
        return ""
    text = str(value)
    text = text[:-2] if text.endswith(".0") else text
    width = _FLOAT_WIDTH if "." in text or "e" in text else _INT_WIDTH
    return text if len(text) <= width else f"~{float(value):.5g}"


def moment_text(ticks: int, unit: str, zone: str = "") -> str:
    """Write a moment, given in units since 1970; empty if no calendar has it. zone: its zone, in
    which case it is written in UTC."""
    per_second = _UNITS_PER_SECOND.get(unit, 1)
    seconds, fraction = divmod(ticks * _SECONDS_PER_UNIT.get(unit, 1), per_second)
    if unit not in _UNITS_PER_SECOND and unit not in _SECONDS_PER_UNIT:
        return ""
    try:
        text = (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat(" ")
    except OverflowError:
        return ""
    if fraction:
        digits = len(str(per_second)) - 1
        text += f".{fraction:0{digits}}".rstrip("0")
    text = text[: -len(_MIDNIGHT)] if text.endswith(_MIDNIGHT) else text
    return f"{text} UTC" if zone else text


def _text_note(texts: Counter[str]) -> str:
    """Say if texts are written numbers or dates; empty if at least half are not."""
    for pattern, what in ((_NUMBER, "numbers as text"), (_DATE, _DATES)):
        sample = list(islice(texts, _PATTERN_SAMPLE))
        if 2 * sum(_matches(pattern, text) for text in sample) <= len(sample):
            continue
        if len(texts) > _MAX_MATCHED_TEXTS:
            return f"the first {len(sample)} are mostly {what}"
        matched = sum(count for text, count in texts.items() if _matches(pattern, text))
        others = sum(texts.values()) - matched
        if matched > others:
            return f"{what}, except {others:,}" if others else what
    return ""


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _MAX_MATCHED_LENGTH and pattern.fullmatch(text) is not None
