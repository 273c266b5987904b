"""Cancels work that several threads take part in."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancellation:
    """Cancels something that several threads work on. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel it, once and for all. Calls the function that `on_cancel` has set."""
        with self._lock:
            self.cancelled = True
            stop = self._stop
        # Called without the lock, because it may cancel something else or wait.
        if stop is not None:
            stop()

    def on_cancel(self, stop: Callable[[], object] | None) -> None:
        """Set the function that `cancel` calls.

        The function is called at once if `cancel` was called before.
        """
        with self._lock:
            self._stop = stop
            is_cancelled = self.cancelled
        if is_cancelled and stop is not None:
            stop()
