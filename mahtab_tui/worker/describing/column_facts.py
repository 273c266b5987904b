"""What a model is told about a column's values: how many are missing, the smallest and the largest,
and how often each text occurs."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple

from ..values.short_values import literal

MAX_LISTED_VALUES = 30
"""Different values up to which all are listed."""
COMMONEST_VALUES = 5
"""Values that are listed otherwise."""

_MAX_VALUE_CHARS = 24
_SAMPLED_TEXTS = 500
"""Different texts that decide whether a column has numbers or dates as text."""
_MAX_MATCHED_TEXTS = 5_000
"""Different texts up to which all are compared with the pattern of numbers or dates."""
_MAX_MATCHED_CHARS = 40
_MAX_BITS = 200
"""Bits of a whole number that is written."""
_MAX_INT_CHARS = 20
_MAX_FLOAT_CHARS = 8
"""Characters of a number that is written exactly."""
_MAX_FLOAT_DIGITS = 6
"""Digits of a number with a fraction that is written exactly."""
_MIDNIGHT = " 00:00:00"
_NUMBER = re.compile(r"\s*[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,4})?%?\s*")
_MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_DATE = re.compile(
    r"\s*(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[/.]\d\d?[/.]\d{2,4}"
    rf"|{_MONTH} \d\d?,? \d{{4}}|\d\d?[ -]{_MONTH}[ -]\d{{2,4}})(?:[T ][\d:.+Z-]+)?\s*",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"(\d{4}([-/.])\d\d\2\d\d(?:[T ][\d:.]+)?)([Z+-][\d:.+Z-]*)?")
"""A date with the year first. Groups: date and time, a separator, the offset from UTC."""
_YEAR_MONTH_DAY = re.compile(r"\s*(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
"""The date at the start of a text that has the year first."""
_DIGIT = re.compile("[0-9]")
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_UNIT = {"D": 86_400, "h": 3_600, "m": 60}
_NUMBERS_AS_TEXT = "numbers as text"
_DATES_AS_TEXT = "dates as text"
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
        texts: How often each text occurs.
    """
    note = facts.note or _text_note(texts)
    facts = with_counts(facts, texts)._replace(note=note)
    if not note.startswith(_DATES_AS_TEXT) or not _have_order_of_time(texts):
        return facts

    # Of dates, the first and the last say more than the commonest.
    return facts._replace(
        low=literal(min(texts), _MAX_VALUE_CHARS),
        high=literal(max(texts), _MAX_VALUE_CHARS),
        counts=(),
    )


def with_counts(facts: ColumnFacts, counts: Counter[Any]) -> ColumnFacts:
    """Add how often each value occurs."""
    distinct = len(counts)
    listed = counts.most_common(None if distinct <= MAX_LISTED_VALUES else COMMONEST_VALUES)
    pairs = [
        (literal(value, _MAX_VALUE_CHARS) if type(value) is str else str(value), count)
        for value, count in listed
    ]
    return facts._replace(counts=pairs, distinct=distinct)


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
    repetitions = facts.counts[0][1]
    are_equally_common = distinct > 1 and all(count == repetitions for _, count in facts.counts)
    if are_equally_common:
        listed = ", ".join(text for text, _ in facts.counts)
    else:
        listed = ", ".join(f"{text} {count}" for text, count in facts.counts)
    if len(listed) > width:
        return ""
    if are_equally_common and repetitions > 1:
        return f"values ({repetitions:,} each): {listed}"
    return f"values: {listed}"


def _count_values(facts: ColumnFacts, distinct: int, width: int) -> str:
    """Say how many values differ, and which are the commonest."""
    if distinct == facts.present:
        return "all different"
    values = [f"{text} {count}" for text, count in facts.counts[:COMMONEST_VALUES]]
    ends = accumulate(len(value) + len(", ") for value in values)
    fitting = values[: sum(end <= width for end in ends)]
    commonest = ""
    if fitting:
        commonest = f", most often {', '.join(fitting)}"
    return f"{distinct:,} different{commonest}"


def number_text(value: Any) -> str:
    """Write a number exactly, or rounded with ``~`` before it if that would be long; return an empty
    string if it is huge."""
    if type(value) is int and value.bit_length() > _MAX_BITS:
        return ""
    text = str(value)
    text = text.removesuffix(".0")
    if "." in text or "e" in text:
        digits = text.partition("e")[0].replace(".", "").lstrip("-0")
        is_exact = len(text) <= _MAX_FLOAT_CHARS and len(digits) <= _MAX_FLOAT_DIGITS
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


def _text_note(texts: Counter[str]) -> str:
    """Say if texts are written numbers or dates; return an empty string if at least half are not."""
    sample = list(islice(texts, _SAMPLED_TEXTS))
    for pattern, note in ((_NUMBER, _NUMBERS_AS_TEXT), (_DATE, _DATES_AS_TEXT)):
        if 2 * sum(_matches(pattern, text) for text in sample) <= len(sample):
            continue
        if len(texts) > _MAX_MATCHED_TEXTS:
            return f"the first {len(sample):,} are mostly {note}"
        unmatched_texts = [
            text for text in texts if not _matches(pattern, text) or _is_impossible_date(text)
        ]
        unmatched_count = sum(texts[text] for text in unmatched_texts)
        if 2 * unmatched_count < sum(texts.values()):
            return note + _describe_unmatched(note, unmatched_texts, unmatched_count)
    return ""


def _is_impossible_date(text: str) -> bool:
    """Return whether a text is a date with the year first that no calendar has, such as
    2024-02-30."""
    match = _YEAR_MONTH_DAY.match(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        datetime.date(year, month, day)
    except ValueError:
        return True
    return False


def _describe_unmatched(note: str, texts: Sequence[str], count: int) -> str:
    """Say how many values are no numbers or dates, and which, if that is one text.

    Args:
        note: What most values are.
        texts: The others.
        count: How often these occur.
    """
    if not count:
        return ""
    noun = note.partition(" ")[0].removesuffix("s")
    words = f", but {count:,} are not {noun}s"
    if count == 1:
        words = f", but 1 is not a {noun}"
    return f"{words}: {literal(texts[0], _MAX_VALUE_CHARS)}" if len(texts) == 1 else words


def _have_order_of_time(texts: Iterable[str]) -> bool:
    """Return whether the order of dates as text is their order in time: all have the year first,
    the same separators, as many digits, and the same offset from UTC."""
    forms: set[tuple[str, str]] = set()
    for text in texts:
        match = _ISO_DATE.fullmatch(text)
        if match is None:
            return False
        forms.add((_DIGIT.sub("0", match[1]), match[3] or ""))
        if len(forms) > 1:
            return False
    return True


def may_misorder_dates(texts: Collection[str], other_text: str) -> bool:
    """Return whether all of some texts are dates, whose order as text, with another text, need not be
    their order in time."""
    sample = list(islice(texts, _SAMPLED_TEXTS))
    if not sample or not all(_matches(_DATE, text) for text in sample):
        return False
    if not _have_order_of_time(texts):
        return True
    if _have_order_of_time((sample[0], other_text)):
        return False
    # A year or a month can be compared with whole dates, but not a part of its digits.
    form = _DIGIT.sub("0", sample[0])
    other_form = _DIGIT.sub("0", other_text)
    is_prefix = form.startswith(other_form)
    is_cut_in_number = other_form[-1:] == "0" and form[len(other_form) :][:1] in ("", "0")
    return not is_prefix or is_cut_in_number


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _MAX_MATCHED_CHARS and pattern.fullmatch(text) is not None
