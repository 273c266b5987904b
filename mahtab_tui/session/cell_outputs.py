"""What cells have printed, for the cells that read it."""

from __future__ import annotations

import threading

MAX_REMEMBERED_CHARS = 50_000_000
"""Characters of output to remember for `_out()`."""


class RememberedOutputs:
    """What the newest cells of this session printed, by cell number. Any thread may use it."""

    def __init__(self, max_chars: int = MAX_REMEMBERED_CHARS) -> None:
        self._max_chars = max_chars
        self._lock = threading.Lock()
        self._outputs: dict[int, str] = {}
        """Oldest first."""
        self._chars = 0
        """Characters of all outputs."""

    def add(self, cell: int, output: str) -> None:
        """Remember the output of a cell, and forget the oldest ones for it."""
        with self._lock:
            self._outputs[cell] = output
            self._chars += len(output)
            # The newest output stays, however long it is.
            while self._chars > self._max_chars and len(self._outputs) > 1:
                oldest_cell = next(iter(self._outputs))
                self._chars -= len(self._outputs.pop(oldest_cell))

    def get(self, cell: int) -> str | None:
        """Return the output of a cell; None if it is not remembered."""
        with self._lock:
            return self._outputs.get(cell)
