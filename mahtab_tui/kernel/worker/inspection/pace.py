"""How long a piece of work may take, and whether anybody still waits for it."""

from __future__ import annotations

import time
from typing import Callable


class LookError(Exception):
    """It cannot be shown; the message is a sentence for the person."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class Pace:
    """Asked now and then by work that goes through many items."""

    def __init__(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """over: whether the person has moved on."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._over = over

    def check(self) -> None:
        """Raises `AbandonedError`, or `LookError` after the time limit."""
        if self._over():
            raise AbandonedError("It is not wanted any more.")
        if time.monotonic() > self._end:
            raise LookError(f"It was given up after {self.seconds:g} s.")
