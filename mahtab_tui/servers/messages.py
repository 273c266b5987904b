"""What a server writes to stderr and logs: kept for the user, up to a limit."""

from __future__ import annotations

import threading
from collections import deque

_KEPT = 200_000
"""Characters, at least."""


class ServerMessages:
    """The newest messages of one server. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        """Add a text as it came."""
        with self._lock:
            self._pieces.append(text[-_KEPT:])
            self._size += len(self._pieces[-1])
            while self._size - len(self._pieces[0]) >= _KEPT:
                self._size -= len(self._pieces.popleft())

    def add_line(self, line: str) -> None:
        """Add a line of our own."""
        self.add(f"{line}\n" if not self._pieces or self._pieces[-1].endswith("\n") else f"\n{line}\n")

    @property
    def text(self) -> str:
        with self._lock:
            return "".join(self._pieces)

    @property
    def last_line(self) -> str:
        return next((line.strip()[:300] for line in reversed(self.text[-10_000:].splitlines()) if line.strip()), "")
