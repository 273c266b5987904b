"""Plots of arrays of numbers, as the values that a screen draws."""

from __future__ import annotations

import math
import sys
from typing import Any

from .limits import Deadline, InspectionError
from .statistics import MAX_AVERAGED

HISTOGRAM_BINS = 40
MAX_PLOTTED_VALUES = 20_000_000
"""Maximum values that a plot reads; from more values it takes a sample."""


def line_plot(values: Any, width: int, deadline: Deadline) -> dict[str, Any]:
    """Return the points of a line through values. Infinite and extremely large values and NaN are left
    out.

    Args:
        values: A one-dimensional array of numpy.
        width: The number of cells of the screen that the plot is wide. If there are more than two
            values for each cell, the smallest and the largest value of each cell stand for them: of a
            sample, if there are very many.
        deadline: Ends it.

    Returns:
        ``xs``: the positions of the values. ``ys``: the values.
    """
    if len(values) <= 2 * width:
        points = list(enumerate(values.astype("f8").tolist()))
    else:
        points = _extreme_points(values, width, deadline)
    plotted_points = [(x, y) for x, y in points if _is_plotted(y)]
    xs = [x for x, _ in plotted_points]
    ys = [y for _, y in plotted_points]
    return {"kind": "line", "xs": xs, "ys": ys}


def _extreme_points(values: Any, part_count: int, deadline: Deadline) -> list[tuple[int, float]]:
    """Return the smallest and the largest value of each part of an array: of a sample, if there are
    very many. The smallest one stands at the start of its part and the largest one in its middle, so
    that the line between them covers the part."""
    size = len(values)
    step = _sample_step(size)
    edges = [size * part // part_count for part in range(part_count + 1)]
    points: list[tuple[int, float]] = []
    for start, end in zip(edges, edges[1:]):
        deadline.check()
        part = values[start:end:step].astype("f8")
        part = part[_is_plotted(part)]
        if part.size:
            middle = (start + end) // 2
            points.append((start, float(part.min())))
            points.append((middle, float(part.max())))
    return points


def histogram(values: Any, deadline: Deadline) -> dict[str, Any]:
    """Count the values of an array in equal bins: of a sample, if there are very many. Infinite and
    extremely large values and NaN are left out.

    Returns:
        ``xs``: the middles of the bins. ``ys``: how many values are in each bin. Both are empty if
        there are no values.

    Raises:
        InspectionError: The values are so close to each other that floats cannot divide their range.
    """
    numpy = sys.modules["numpy"]
    flat = values.reshape(-1)
    sample = flat[:: _sample_step(flat.size)].astype("f8")
    sample = sample[_is_plotted(sample)]
    deadline.check()
    if not sample.size:
        return {"kind": "histogram", "xs": [], "ys": []}
    try:
        counts, edges = numpy.histogram(sample, bins=HISTOGRAM_BINS)
    except (ValueError, IndexError):  # IndexError by numpy 1
        raise InspectionError("The numbers are too close to each other for a histogram.") from None
    middles = (edges[:-1] + edges[1:]) / 2
    return {"kind": "histogram", "xs": middles.tolist(), "ys": counts.tolist()}


def heat_map(values: Any, width: int, height: int) -> dict[str, Any]:
    """Reduce a two-dimensional array to a grid that fits the screen, by leaving out rows and columns.

    Args:
        values: The array.
        width: Maximum columns of the grid.
        height: Maximum rows of the grid.

    Returns:
        ``grid``: the rows, with None for infinite and extremely large values and NaN.

    Raises:
        InspectionError: The array is empty.
    """
    if not values.size:
        raise InspectionError("There are no numbers.")
    numpy = sys.modules["numpy"]
    all_rows, all_columns = values.shape
    row_count = min(height, all_rows)
    column_count = min(width, all_columns)
    rows = numpy.arange(row_count) * all_rows // row_count
    columns = numpy.arange(column_count) * all_columns // column_count
    cells = values[numpy.ix_(rows, columns)].astype("f8").tolist()
    grid = [[value if _is_plotted(value) else None for value in row] for row in cells]
    return {"kind": "heat", "grid": grid}


def _is_plotted(values: Any) -> Any:
    """Return whether a plot shows a number; of an array, an array with this for each number."""
    return (values > -MAX_AVERAGED) & (values < MAX_AVERAGED)


def _sample_step(size: int) -> int:
    """Return the distance between values so that at most `MAX_PLOTTED_VALUES` of `size` values are
    read."""
    return max(1, math.ceil(size / MAX_PLOTTED_VALUES))
