"""Distinguishes a second press of a key from the repetition of a key that is held down."""

from __future__ import annotations

import math
import time

REPEAT_INTERVAL_S = 0.3
"""The longest time between two repetitions of a held key."""
FIRST_REPEAT_S = 0.7
"""The longest time between the press of a key and its first repetition. X11 waits 0.66 seconds."""


class KeyRepeatFilter:
    """Receives the presses of a key.

    A terminal reports a repetition like a press, so only the time between two presses shows which
    of them the user made.
    """

    def __init__(self) -> None:
        self._first_press_time = -math.inf
        """The time of the last press that was not a repetition."""
        self._last_press_time = -math.inf

    def is_repetition(self) -> bool:
        """Note that the key was reported now, and return whether the key may only be held down."""
        now = time.monotonic()
        is_repetition = (
            now - self._last_press_time < REPEAT_INTERVAL_S
            or now - self._first_press_time < FIRST_REPEAT_S
        )
        self._last_press_time = now
        if not is_repetition:
            self._first_press_time = now
        return is_repetition
