"""What a server writes to stderr and logs: kept for the user, up to a limit."""

from __future__ import annotations

import threading

_KEPT = 200_000
"""Characters."""


class ServerMessages:
    """The newest messages of one server. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def add(self, text: str) -> None:
        """Add a text as it came."""
        with self._lock:
            self._text = (self._text + text)[-_KEPT:]

    def add_line(self, line: str) -> None:
        """Add a line of our own."""
        with self._lock:
            start = "" if not self._text or self._text.endswith("\n") else "\n"
            self._text = f"{self._text}{start}{line}\n"[-_KEPT:]

    @property
    def text(self) -> str:
        with self._lock:
            return self._text

    @property
    def last_line(self) -> str:
        return next((line.strip()[:300] for line in reversed(self.text[-10_000:].splitlines()) if line.strip()), "")
