"""How far a forked process is, for the process that waits for it."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator

from .data_pieces import split_pieces

_BEATS_PER_UPDATE = 4096
"""Calls of `beat` between two changes of the counter, which take longer."""


class ProgressCounter:
    """A counter in memory that a process shares with its forks: while it grows, the fork works."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)
        self._beats = 0

    def count(self) -> int:
        """Return a number that is larger whenever there was progress."""
        return int.from_bytes(self._shared[:], "little")

    def beat(self) -> None:
        """Note that a small step was made."""
        self._beats += 1
        if not self._beats % _BEATS_PER_UPDATE:
            self._publish()

    def track(self, parts: Iterable[object]) -> Iterator[memoryview]:
        """Yield data in pieces, and note that each was reached."""
        for part in parts:
            for piece in split_pieces(part):
                self._publish()
                yield piece

    def _publish(self) -> None:
        self._shared[:] = (self.count() + 1).to_bytes(8, "little")
