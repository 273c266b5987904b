"""Plays a recording: tells which of its events are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from mahtab_tui.bus.records import Record

PACES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the original speed."""


class Player:
    """Follows a clock, at a pace that can be changed."""

    def __init__(self, events: Iterator[tuple[float, Record]], clock: Callable[[], float] = time.monotonic) -> None:
        """events: records, each with the seconds to wait before it. clock: seconds from any start."""
        self._events = events
        self._clock = clock
        self._looked = clock()
        self._played = 0.0
        """Seconds of the recording that were played."""
        self._before: tuple[float, float] = (0.0, 0.0)
        """When the last event was due, and its own time."""
        self._next = self._following(0.0)
        self.pace = 1.0
        self.paused = False

    @property
    def ended(self) -> bool:
        return self._next is None

    @property
    def now(self) -> float:
        """The time in the recording, in seconds since the epoch, between the last event and the next one."""
        at, then = self._before
        if self._next is None or not then:
            return then
        next_at, record = self._next
        share = (self._played - at) / (next_at - at) if next_at > at else 1.0
        return then + max(0.0, record.time - then) * min(1.0, max(0.0, share))

    def take(self, limit: int) -> list[Record]:
        """Take the events that are due, so many at most."""
        looked = self._clock()
        if not self.paused:
            self._played += (looked - self._looked) * self.pace
        self._looked = looked
        records: list[Record] = []
        while self._next is not None and self._next[0] <= self._played and len(records) < limit:
            at, record = self._next
            self._before = at, record.time
            records.append(record)
            self._next = self._following(at)
        return records

    def change_pace(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        place = PACES.index(self.pace) + step
        self.pace = PACES[max(0, min(len(PACES) - 1, place))]

    def step(self) -> None:
        """Make the next event due, and pause."""
        self.paused = True
        if self._next is not None:
            self._played = max(self._played, self._next[0])

    def finish(self) -> None:
        self._played = float("inf")
        self.paused = False

    def _following(self, at: float) -> tuple[float, Record] | None:
        found = next(self._events, None)
        return None if found is None else (at + found[0], found[1])
