"""Which parts of a text a search has looked at, and which its answers rest on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from mahtab_tui.sandbox.text import Span

How = Literal["handed", "peek", "grep", "answer"]
"""What was done with a span: given to a child, looked at, matched, or found to be what an answer rests on."""

HOWS: tuple[How, ...] = ("handed", "peek", "grep", "answer")
"""From the least that it says to the most."""

LIMIT = 4_096
"""Spans of one kind that are kept; of more, those that lie nearest to each other become one."""


class Intervals:
    """Spans of a text, merged: in order, and none touches another."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Span]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def size(self) -> int:
        """Characters in them."""
        return sum(self._ends) - sum(self._starts)

    def add(self, spans: Sequence[Span]) -> None:
        """Take in spans in any order; empty ones are nothing."""
        if len(spans) > 8:
            self._merge(spans)
        else:
            for start, end in spans:
                if start < end:
                    self._insert(start, end)
        if len(self) > self._limit:
            self._join_nearest()

    def _insert(self, start: int, end: int) -> None:
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]

    def _merge(self, spans: Iterable[Span]) -> None:
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted([*self, *spans]):
            if start >= end:
                continue
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        self._starts, self._ends = starts, ends

    def _join_nearest(self) -> None:
        """Half as many as may be kept, so that this happens seldom."""
        gaps = sorted(range(1, len(self)), key=lambda place: self._starts[place] - self._ends[place - 1])
        kept = sorted([0, *gaps[len(self) - self._limit // 2 :]])
        self._ends = [self._ends[place - 1] for place in kept[1:]] + self._ends[-1:]
        self._starts = [self._starts[place] for place in kept]


class Coverage:
    """What was done with which parts of one text."""

    def __init__(self, chars: int = 0) -> None:
        self.chars = chars
        """Length of the text."""
        self.version = 0
        """Grows with every change."""
        self._kinds: dict[How, Intervals] = {how: Intervals() for how in HOWS}
        self._seen = Intervals(limit=len(HOWS) * LIMIT)

    def add(self, how: How, spans: Sequence[Span]) -> None:
        """Take note of spans; what lies outside of the text is cut off."""
        inside = [(max(0, start), min(end, self.chars)) for start, end in spans]
        self._kinds[how].add(inside)
        if how != "handed":
            self._seen.add(inside)
        self.version += 1

    def spans(self, how: How) -> list[Span]:
        """The spans of a kind, merged and in order."""
        return list(self._kinds[how])

    @property
    def seen(self) -> float:
        """How much of the text was looked at, matched or answered from: 0.0 to 1.0."""
        return self._seen.size / self.chars if self.chars else 0.0

    def cells(self, count: int) -> list[How | None]:
        """The text as so many cells of a bar, each with the most that was done in it; a span of any length has a cell."""
        cells: list[How | None] = [None] * count
        if not self.chars:
            return cells
        for how in HOWS:
            for start, end in self._kinds[how]:
                first, after = start * count // self.chars, -(-end * count // self.chars)
                cells[first:after] = [how] * (min(count, after) - first)
        return cells
