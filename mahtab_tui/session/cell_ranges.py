"""Names many cells in few words."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_RANGES = 10
"""At most this many cells, and ranges of cells, are named. The cells after them are counted."""
_MIN_RANGE_CELLS = 3
"""Fewer cells in a row are named one by one."""


def format_cell_ranges(cells: Sequence[int]) -> str:
    """Return the numbers of cells in ascending order, as in ``2, 4 to 9 and 12``."""
    ranges: list[list[int]] = []
    for cell in cells:
        if ranges and ranges[-1][-1] == cell - 1:
            ranges[-1].append(cell)
        else:
            ranges.append([cell])

    parts: list[str] = []
    omitted_count = 0
    for numbers in ranges:
        names = [str(number) for number in numbers]
        if len(names) >= _MIN_RANGE_CELLS:
            names = [f"{names[0]} to {names[-1]}"]
        if omitted_count or len(parts) + len(names) > _MAX_RANGES:
            omitted_count += len(numbers)
        else:
            parts += names
    if omitted_count:
        parts.append(f"{omitted_count:,} more")
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
