"""Reduces values to as many points as the screen can show."""

from __future__ import annotations

import math
import sys
from typing import Any

from .pace import LookError, Pace

BINS = 40
MOST_VALUES = 20_000_000
"""Values that a plot reads at most; of more, a sample."""


def line(values: Any, width: int, pace: Pace) -> dict[str, Any]:
    """Plot one-dimensional values by position; of many, the minimum and maximum of each part."""
    numpy = sys.modules["numpy"]
    values = numpy.asarray(values)
    size = len(values)
    points: list[tuple[int, float]] = []
    if size <= 2 * width:
        points = list(enumerate(values.astype("f8").tolist()))
    else:
        edges = [size * place // width for place in range(width + 1)]
        step = max(1, size // MOST_VALUES)
        for first, last in zip(edges, edges[1:]):
            pace.check()
            part = values[first:last:step].astype("f8")
            part = part[numpy.isfinite(part)]
            if part.size:
                points += [(first, float(part.min())), ((first + last) // 2, float(part.max()))]
    points = [(x, y) for x, y in points if math.isfinite(y)]
    return {"kind": "line", "xs": [x for x, _ in points], "ys": [y for _, y in points]}


def histogram(values: Any, pace: Pace) -> dict[str, Any]:
    """Compute a histogram."""
    numpy = sys.modules["numpy"]
    flat = numpy.asarray(values).reshape(-1)
    flat = flat[:: max(1, flat.size // MOST_VALUES)].astype("f8")
    flat = flat[numpy.isfinite(flat)]
    pace.check()
    if not flat.size:
        return {"kind": "histogram", "xs": [], "ys": []}
    counts, edges = numpy.histogram(flat, bins=BINS)
    return {
        "kind": "histogram",
        "xs": [float((a + b) / 2) for a, b in zip(edges, edges[1:])],
        "ys": [int(count) for count in counts],
    }


def heat(values: Any, width: int, height: int, pace: Pace) -> dict[str, Any]:
    """Reduce two-dimensional values to a grid of means of at most this size; None for parts without
    numbers."""
    numpy = sys.modules["numpy"]
    values = numpy.asarray(values)
    rows, columns = min(height, values.shape[0]), min(width, values.shape[1])
    if not rows or not columns:
        raise LookError("There are no numbers.")
    row_edges = [values.shape[0] * place // rows for place in range(rows + 1)]
    column_edges = [values.shape[1] * place // columns for place in range(columns + 1)]
    row_step, column_step = (
        max(1, values.shape[0] // rows // 50),
        max(1, values.shape[1] // columns // 50),
    )
    grid: list[list[float | None]] = []
    with numpy.errstate(all="ignore"):
        for top, bottom in zip(row_edges, row_edges[1:]):
            pace.check()
            band = values[top:bottom:row_step].astype("f8") if column_step == 1 else None
            found: list[float | None] = []
            for left, right in zip(column_edges, column_edges[1:]):
                part = (
                    band[:, left:right]
                    if band is not None
                    else values[top:bottom:row_step, left:right:column_step].astype("f8")
                )
                part = part[numpy.isfinite(part)]
                found.append(float(part.mean()) if part.size else None)
            grid.append(found)
    return {"kind": "heat", "grid": grid}
