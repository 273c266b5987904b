"""Telling the engine which parts of the text the code looks at."""

from __future__ import annotations

from collections.abc import Iterable

from .host import Host

MOST_A_CALL = 1_000
MOST_IN_ALL = 20_000
"""Spans that are told before the rest is kept quiet: a loop over peek must not flood the engine."""


class Touches:
    """What one sandbox has told. Several threads may use it; the limit is then nearly exact."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._left = MOST_IN_ALL

    def tell(self, how: str, spans: Iterable[tuple[int, int]]) -> None:
        """Tell of spans in order; those that meet, or have but a line end between them, become one."""
        merged = merge(spans)[: self._left]
        self._left -= len(merged)
        for first in range(0, len(merged), MOST_A_CALL):
            self._host.tell("touch", {"how": how, "spans": merged[first : first + MOST_A_CALL]})


def merge(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Spans in order, neighbours as one, empty ones left out."""
    merged: list[list[int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged
