"""Reports to the engine which parts of the text the code reads."""

from __future__ import annotations

from collections.abc import Iterable

from .host import EngineHost

MOST_A_CALL = 1_000
MOST_IN_ALL = 20_000
"""Spans that are reported at most, so that a loop over peek cannot flood the engine."""
_NOTED = 4_096
"""Spans that are noted before they are merged."""


class ReadTracker:
    """Reports spans of one sandbox. Several threads may use it; the limit is then only nearly
    exact."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._left = MOST_IN_ALL
        self._noted: list[tuple[int, int]] = []

    def tell(self, how: str, spans: Iterable[tuple[int, int]]) -> None:
        """Report spans, given in order; those that touch or have only a line break between them are
        merged."""
        merged = merge(spans)[: self._left]
        self._left -= len(merged)
        for first in range(0, len(merged), MOST_A_CALL):
            self._host.tell("touch", {"how": how, "spans": merged[first : first + MOST_A_CALL]})

    def note(self, start: int, end: int) -> None:
        """Note a slice, which is reported later, since code may take many one after the other."""
        if self._noted and self._noted[-1][1] == start:
            self._noted[-1] = self._noted[-1][0], end
        elif self._left:
            self._noted.append((start, end))
            if len(self._noted) >= _NOTED:
                self.flush()

    def flush(self) -> None:
        """Report the slices that were noted."""
        noted, self._noted = self._noted, []
        self.tell("peek", sorted(noted))


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
