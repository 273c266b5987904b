"""Which parts of a text a search has read, and on which parts its answers rest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from mahtab_tui.sandbox.text import TextSpan

How = Literal["handed", "peek", "grep", "answer"]
"""Use of a span: handed to a child, read, matched, or used by an answer."""

HOWS: tuple[How, ...] = ("handed", "peek", "grep", "answer")
"""From the weakest to the strongest."""

LIMIT = 4_096
"""Spans of one kind that are kept; of more, the nearest to each other are joined."""


class Intervals:
    """Spans of a text in order, merged so that no two touch."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[TextSpan]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def size(self) -> int:
        """Characters in all spans."""
        return sum(self._ends) - sum(self._starts)

    def add(self, spans: Sequence[TextSpan]) -> None:
        """Add spans in any order; empty ones are ignored."""
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

    def _merge(self, spans: Iterable[TextSpan]) -> None:
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
        """Reduce the spans to half the limit, so that this is rarely needed."""
        gaps = sorted(
            range(1, len(self)), key=lambda place: self._starts[place] - self._ends[place - 1]
        )
        kept = sorted([0, *gaps[len(self) - self._limit // 2 :]])
        self._ends = [self._ends[place - 1] for place in kept[1:]] + self._ends[-1:]
        self._starts = [self._starts[place] for place in kept]


class Coverage:
    """Uses of each part of one text."""

    def __init__(self, chars: int = 0) -> None:
        self.chars = chars
        """Length of the text."""
        self.version = 0
        """Grows with every change."""
        self._kinds: dict[How, Intervals] = {how: Intervals() for how in HOWS}
        self._seen = Intervals(limit=len(HOWS) * LIMIT)

    def add(self, how: How, spans: Sequence[TextSpan]) -> None:
        """Add spans, cut to the text."""
        inside = [(max(0, start), min(end, self.chars)) for start, end in spans]
        self._kinds[how].add(inside)
        if how != "handed":
            self._seen.add(inside)
        self.version += 1

    def spans(self, how: How) -> list[TextSpan]:
        """Return the spans of a kind, merged and in order."""
        return list(self._kinds[how])

    @property
    def seen(self) -> float:
        """The share of the text that was read, matched or used by an answer, from 0.0 to 1.0."""
        return self._seen.size / self.chars if self.chars else 0.0

    def cells(self, count: int) -> list[How | None]:
        """Divide the text into the cells of a bar, each with the strongest thing done in it; even
        the shortest span has a cell."""
        cells: list[How | None] = [None] * count
        if not self.chars:
            return cells
        for how in HOWS:
            for start, end in self._kinds[how]:
                first, after = start * count // self.chars, -(-end * count // self.chars)
                cells[first:after] = [how] * (min(count, after) - first)
        return cells
