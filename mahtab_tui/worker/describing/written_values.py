"""Recognises numbers and dates that are written as texts, and dates that sort wrongly as texts."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from ..values.short_values import literal

MAX_VALUE_CHARS = 24
"""Characters of a value that is quoted."""
DATES_AS_TEXT = "dates as text"
_NUMBERS_AS_TEXT = "numbers as text"
_SAMPLED_TEXTS = 500
"""Different texts that decide whether a column has numbers or dates as text."""
_MAX_MATCHED_TEXTS = 5_000
"""Different texts up to which all are compared with the pattern of numbers or dates."""
_MAX_MATCHED_CHARS = 40
"""Longer texts are neither numbers nor dates."""
_NUMBER = re.compile(r"\s*[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,4})?%?\s*")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
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


def text_note(texts: Counter[str]) -> str:
    """Say if texts are written numbers or dates; return an empty string if at least half are not.

    Args:
        texts: How often each text occurs.
    """
    sample = list(islice(texts, _SAMPLED_TEXTS))
    for pattern, note in ((_NUMBER, _NUMBERS_AS_TEXT), (_DATE, DATES_AS_TEXT)):
        matching_count = sum(_matches(pattern, text) for text in sample)
        if 2 * matching_count <= len(sample):
            continue
        # The sample decides which pattern all texts are compared with, if they are not too many.
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
    """Say how many values are not numbers or dates, and which, if that is one text; an empty string
    if all are.

    Args:
        note: What most values are.
        texts: The others, each once.
        count: How often these occur.
    """
    if not count:
        return ""
    noun = note.partition(" ")[0].removesuffix("s")
    if count == 1:
        description = f", but 1 is not a {noun}"
    else:
        description = f", but {count:,} are not {noun}s"
    if len(texts) == 1:
        return f"{description}: {literal(texts[0], MAX_VALUE_CHARS)}"
    return description


def have_order_of_time(texts: Iterable[str]) -> bool:
    """Return whether the order of dates as text is their order in time: all have the year first,
    the same separators, as many digits, and the same offset from UTC."""
    forms: set[tuple[str, str]] = set()
    for text in texts:
        match = _ISO_DATE.fullmatch(text)
        if match is None:
            return False
        utc_offset = match[3] or ""
        forms.add((_form(match[1]), utc_offset))
        if len(forms) > 1:
            return False
    return True


def _form(date: str) -> str:
    """Return a date with each digit replaced by a zero."""
    return _DIGIT.sub("0", date)


def may_misorder_dates(texts: Collection[str], other_text: str) -> bool:
    """Return whether texts are dates that may not be compared with another text as texts, because
    that order need not be their order in time.

    Args:
        texts: The different texts of a column.
        other_text: What code compares them with.
    """
    sample = list(islice(texts, _SAMPLED_TEXTS))
    if not sample or not all(_matches(_DATE, text) for text in sample):
        return False
    if not have_order_of_time(texts):
        return True
    if have_order_of_time((sample[0], other_text)):
        return False
    # A year or a month can be compared with whole dates, but not a part of its digits.
    form = _form(sample[0])
    other_form = _form(other_text)
    if not form.startswith(other_form):
        return True
    next_char = form[len(other_form) :][:1]
    return other_form[-1:] == "0" and next_char in ("", "0")


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a whole text matches; a long one is not looked at."""
    return len(text) <= _MAX_MATCHED_CHARS and pattern.fullmatch(text) is not None
