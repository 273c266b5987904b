"""Writes numbers and moments of time for a model, in few characters."""

from __future__ import annotations

import datetime
from typing import Any

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
