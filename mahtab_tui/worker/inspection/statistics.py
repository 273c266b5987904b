"""What the columns of tables contain: ranges, means, histograms and the commonest values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from ..values.summaries import one_line, summary
from .cell_texts import MAX_EXACT_FLOAT, MIN_PLAIN_FLOAT

SAMPLED_ROWS = 200
"""Rows by which the number of decimals is chosen."""
HISTOGRAM_BARS = 8
SAMPLED_VALUES = 20_000
"""A histogram is made of at most this many values."""
TOP_VALUES = 4
"""Most common texts that are listed."""
MAX_DISTINCT_VALUES = 100_000
"""Columns with more distinct values are not counted."""
_MAX_VALUE_CHARS = 24
_MAX_STATISTIC = 1e9
MAX_AVERAGED = 1e300
"""Larger numbers are left out of means, histograms and plots, because the sum of two of them, or the
distance between them, may be infinite."""


def number_text(value: float) -> str:
    """Format a statistic, with separators and without digits that say little."""
    if value != value:
        return "—"
    size = abs(value)
    if math.isfinite(value) and value == int(value):
        return f"{int(value):,}" if size < MAX_EXACT_FLOAT else f"{value:.4e}"
    if size >= _MAX_STATISTIC or size < MIN_PLAIN_FLOAT:
        return f"{value:.4e}"
    if size < 1000:
        return f"{value:.4g}"
    return f"{value:,.1f}"


class Statistics(NamedTuple):
    """What a column contains. Texts, because dates have them too."""

    missing: int
    """Number of missing values."""
    min: str = ""
    max: str = ""
    mean: str = ""
    bars: Sequence[int] = ()
    """The histogram: numbers of values in `HISTOGRAM_BARS` ranges of the same width."""
    top: Sequence[str] = ()
    """The most common texts."""


def number_statistics(
    missing: int, low: Any, high: Any, mean: float, sample: Iterable[Any]
) -> Statistics:
    """Return the statistics of a column of numbers.

    Args:
        missing: Number of missing values.
        low: The smallest number.
        high: The largest number.
        mean: The mean.
        sample: Some of the numbers.
    """
    bars: Sequence[int] = ()
    if max(abs(low), abs(high)) < MAX_AVERAGED:
        bars = histogram(sample, float(low), float(high))
    return Statistics(missing, _extreme_text(low), _extreme_text(high), number_text(mean), bars)


def _extreme_text(value: Any) -> str:
    if type(value) is bool:
        return str(value)
    if type(value) is int:
        return f"{value:,}" if abs(value) < MAX_AVERAGED else summary(value)
    return number_text(float(value))


def histogram(sample: Iterable[Any], low: float, high: float) -> Sequence[int]:
    """Count the values in each part of the range from `low` to `high`; empty if there is no such
    range."""
    bar_width = (high - low) / HISTOGRAM_BARS
    if not 0 < bar_width < float("inf"):
        return ()
    counts = [0] * HISTOGRAM_BARS
    for value in sample:
        bar = int((float(value) - low) / bar_width)
        counts[min(bar, HISTOGRAM_BARS - 1)] += 1
    return counts


def sampled(values: Any) -> Any:
    """Return some of the values, at the same distance from each other."""
    return values[:: max(1, len(values) // SAMPLED_VALUES)]


def format_top_values(counts: Collection[tuple[str, int]]) -> Sequence[str]:
    """Format the most common texts, as in ``berlin ×412``, or say that all differ."""
    if not 0 < len(counts) <= MAX_DISTINCT_VALUES:
        return ()
    top = sorted(counts, key=lambda counted_value: -counted_value[1])[:TOP_VALUES]
    if len(top) > 1 and top[0][1] == 1:
        return (f"all {len(counts):,} differ",)
    return [f"{one_line(text, _MAX_VALUE_CHARS)} ×{count:,}" for text, count in top]
