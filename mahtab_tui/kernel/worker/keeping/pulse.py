"""Shows that a forked process makes progress: what takes long is told from what hangs."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

from .folder import pieces

_OFTEN = 4096
"""Beats after which one is shown: each costs little."""


class Pulse:
    """A counter in memory that a process and those that it forks share."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)
        self._beats = 0

    def count(self) -> int:
        """Return the value of the counter."""
        return int.from_bytes(self._shared[:], "little")

    def beat(self) -> None:
        """Something small is done."""
        self._beats += 1
        if not self._beats % _OFTEN:
            self._show()

    def along(self, parts: Iterable[Any]) -> Iterator[memoryview]:
        """Memory in pieces; each is progress."""
        for part in parts:
            for piece in pieces(part):
                self._show()
                yield piece

    def _show(self) -> None:
        self._shared[:] = (self.count() + 1).to_bytes(8, "little")
