"""The values of tables as short texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..values.objects import Classes, class_module, get_if_loaded, is_one_of
from ..values.summaries import one_line, summary, type_name

MAX_CELL_CHARS = 200
_SIZED = Classes(list, tuple, set, frozenset, dict, bytearray, memoryview)
"""Types of values in a cell that are named, because their summary is only a size."""
_SAFE_ZONES = ("zoneinfo", "datetime", "pytz", "dateutil")
"""Packages of time zones whose code may run."""
SAMPLED_OBJECTS = 100
"""Objects by which a column of numbers is recognised."""
# Numbers from these sizes on, or below, are written with an exponent.
MAX_EXACT_FLOAT = 1e15
MIN_PLAIN_FLOAT = 1e-3
_MAX_DECIMALS = 4


def cell_text(value: Any) -> str | None:
    """Format a value as one line, by its exact type; None if it is missing."""
    cls = type(value)
    if cls is str:
        return one_line(value, MAX_CELL_CHARS)
    if value is None or (cls is float and value != value):
        return None
    if cls is int or cls is float or cls is bool:
        return summary(value)
    if is_one_of(value, "pandas", "Timestamp"):
        return _timestamp_text(value)
    if is_one_of(value, "pandas", "Interval"):
        return one_line(_interval_text(value), MAX_CELL_CHARS)
    if is_one_of(value, "pandas", "Timedelta", "Period"):
        return one_line(str(value), MAX_CELL_CHARS)
    if value is get_if_loaded("pandas", "NaT") or value is get_if_loaded("pandas", "NA"):
        return None
    about = summary(value)
    if cls in _SIZED or not about:
        return one_line(f"{type_name(value)} {about}".rstrip(), MAX_CELL_CHARS)
    return about


def _timestamp_text(timestamp: Any) -> str:
    """Return a timestamp of pandas as it is written; if its time zone is the user's, whose code would
    run, its nanoseconds since 1970."""
    zone = timestamp.tzinfo
    if zone is not None and not is_safe_zone(zone):
        return f"Timestamp {timestamp.value} ns"
    return str(timestamp)


def _interval_text(interval: Any) -> str:
    """Return an interval of pandas as it is written, without running the user's code: the types of
    ends stand for ends of the user's own types."""
    opening = "[" if interval.closed_left else "("
    closing = "]" if interval.closed_right else ")"
    return f"{opening}{cell_text(interval.left)}, {cell_text(interval.right)}{closing}"


def is_safe_zone(zone: object) -> bool:
    """Return whether a time zone is of a known library, so that its code may run."""
    return class_module(type(zone)).partition(".")[0] in _SAFE_ZONES


def choose_decimals(sample: Iterable[float | None]) -> int | None:
    """Return how many decimals the floats of a column have, without the errors of binary fractions;
    None for exponential notation."""
    sizes = [abs(float(value)) for value in sample if value and math.isfinite(value)]
    if sizes and (max(sizes) >= MAX_EXACT_FLOAT or max(sizes) < MIN_PLAIN_FLOAT):
        return None
    decimals = 1
    for size in sizes:
        size_text = repr(round(size, _MAX_DECIMALS))
        if "e" not in size_text:
            decimals = max(decimals, len(size_text.partition(".")[2]))
    return decimals


def float_text(value: float, decimals: int | None) -> str | None:
    """Format a float of a column, with the number of decimals from `choose_decimals`; None for
    NaN."""
    if value != value:
        return None
    if decimals is None or (value and abs(value) < 0.5 * 10**-decimals):
        return f"{value:.4e}"
    return f"{value:.{decimals}f}"


def full_text(value: object) -> str:
    """Return a text that is not cut, so that all of it is searched."""
    if type(value) is str:
        return value
    return cell_text(value) or ""
