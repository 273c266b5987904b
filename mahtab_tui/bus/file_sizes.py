"""Sizes of files, in words."""

from __future__ import annotations

_UNITS = ("kB", "MB", "GB", "TB")


def format_size(byte_count: float) -> str:
    """Format a number of bytes with a decimal prefix: ``1.2 MB``."""
    if byte_count < 1000:
        return f"{byte_count} B"
    number = byte_count / 1000
    exponent = 0
    # A number that is rounded to 1000.0 belongs to the next unit.
    while round(number, 1) >= 1000 and exponent < len(_UNITS) - 1:
        number /= 1000
        exponent += 1
    return f"{number:.1f} {_UNITS[exponent]}"
