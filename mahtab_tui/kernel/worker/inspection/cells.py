"""Formats single values as short texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..statics import Classes, loaded, module_of
from ..summary import one_line, summary, type_name

WIDTH = 200
"""Characters of a cell."""

_SIZED = Classes(list, tuple, set, frozenset, dict, bytearray, memoryview)
ZONES = ("zoneinfo", "datetime", "pytz", "dateutil")
"""Modules whose time zones are safe to use."""


def cell_text(value: Any) -> str | None:
    """Format a value of a table in a line, by its exact type; None if it is missing."""
    cls = type(value)
    if cls is str:
        return one_line(value, WIDTH)
    if value is None or (cls is float and value != value):
        return None
    if cls is int or cls is float or cls is bool:
        return summary(value)
    if cls is loaded("pandas", "Timestamp"):
        return _moment(value)
    if (
        cls is loaded("pandas", "Timedelta")
        or cls is loaded("pandas", "Period")
        or cls is loaded("pandas", "Interval")
    ):
        return one_line(str(value), WIDTH)
    if value is loaded("pandas", "NaT") or value is loaded("pandas", "NA"):
        return None
    about = summary(value)
    if cls in _SIZED or not about:
        return one_line(f"{type_name(value)} {about}".rstrip(), WIDTH)
    return about


def _moment(value: Any) -> str:
    zone = value.tzinfo
    if zone is not None and module_of(type(zone)).partition(".")[0] not in ZONES:
        return f"Timestamp {value.value} ns"  # the user's own time zone would run their code
    return str(value)


def key_text(value: Any) -> str:
    """Format the label of a row; the parts of a tuple are joined by commas."""
    if type(value) is tuple:
        return ", ".join(key_text(part) for part in tuple.__iter__(value))
    return "—" if (text := cell_text(value)) is None else text


def decimals_of(sample: Iterable[float | None]) -> int | None:
    """Choose the number of decimals for all floats of a column; None for exponential notation."""
    sizes = [abs(value) for value in sample if value and math.isfinite(value)]
    if sizes and (max(sizes) >= 1e15 or max(sizes) < 1e-3):
        return None
    return max(
        [1, *(min(4, len(repr(size).partition(".")[2])) for size in sizes if "e" not in repr(size))]
    )


def float_text(value: float, decimals: int | None) -> str | None:
    """Format a float with so many decimals; None for NaN."""
    if value != value:
        return None
    if decimals is None or (value and abs(value) < 0.5 * 10**-decimals):
        return f"{value:.4e}"
    return f"{value:.{decimals}f}"


def number_text(value: float) -> str:
    """Format a number of the statistics shortly."""
    if value != value:
        return "—"
    if math.isfinite(value) and value == int(value):
        return str(int(value)) if abs(value) < 1e15 else f"{value:.4e}"
    return (
        f"{value:.4e}"
        if abs(value) >= 1e9 or abs(value) < 1e-3
        else f"{value:.4g}"
        if abs(value) < 1000
        else f"{value:.1f}"
    )
