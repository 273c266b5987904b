"""Reads values of events, which may be malformed: invalid values count as missing."""

from __future__ import annotations

from typing import Any

from mahtab_tui.sandbox.text import TextSpan


def count(value: object) -> int:
    """Return a count; 0 if invalid."""
    return value if type(value) is int and value > 0 else 0


def number(value: object) -> float | None:
    """Return a number that is finite and not negative; None if invalid."""
    return float(value) if type(value) in (int, float) and 0 <= value < 1e15 else None  # type: ignore[operator, arg-type]


def spans_of(value: Any) -> tuple[TextSpan, ...]:
    """Return the valid spans."""
    if not isinstance(value, list | tuple):
        return ()
    found = []
    for each in value:
        if (
            isinstance(each, list | tuple)
            and len(each) == 2
            and all(type(place) is int for place in each)
            and 0 <= each[0] < each[1]
        ):
            found.append((each[0], each[1]))
    return tuple(found)
