"""Limits the time of work, and ends work that nobody waits for."""

from __future__ import annotations

import time
from typing import Callable


class LookError(Exception):
    """Something cannot be shown; the message is a sentence for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer."""


class Pace:
    """Checked regularly by work on many items."""

    def __init__(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """over: tells whether the user has moved on."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._over = over

    def check(self) -> None:
        """Raise `AbandonedError` if nobody waits, or `LookError` after the time limit."""
        if self._over():
            raise AbandonedError("No one is waiting for this answer.")
        if time.monotonic() > self._end:
            raise LookError(f"This took longer than {self.seconds:g} s and was stopped.")
