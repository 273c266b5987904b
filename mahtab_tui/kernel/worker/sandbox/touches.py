"""Reports to the engine which parts of the text the code reads."""

from __future__ import annotations

from collections.abc import Iterable

from .host import EngineHost

MOST_A_CALL = 1_000
MOST_IN_ALL = 20_000
"""Spans that are reported at most, so that a loop over peek cannot flood the engine."""


class Touches:
    """Reports spans of one sandbox. Several threads may use it; the limit is then only nearly exact."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._left = MOST_IN_ALL

    def tell(self, how: str, spans: Iterable[tuple[int, int]]) -> None:
        """Report spans, given in order; those that touch or have only a line break between them are merged."""
        merged = merge(spans)[: self._left]
        self._left -= len(merged)
        for first in range(0, len(merged), MOST_A_CALL):
            self._host.tell("touch", {"how": how, "spans": merged[first : first + MOST_A_CALL]})


def merge(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Merge neighbouring spans, given in order, and drop empty ones."""
    merged: list[list[int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged
