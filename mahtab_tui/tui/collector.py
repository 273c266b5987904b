"""Runs the garbage collector in slices between two keys, so that the screen does not hang.

Reference cycles (widgets, messages, tasks) are freed only by a collection. Processor time on one
core, in a session of 120 cells: the youngest generation 3 ms, the youngest two 14 ms, all 17 ms;
all with the agent's libraries that were just loaded 100 ms, or 60 ms with the first picture's;
nothing of either once they are frozen.
"""

from __future__ import annotations

import gc
import time

EVERY = 0.5
"""Seconds between two ticks."""
PAUSE = 0.1
"""Seconds that a key's echo takes to draw."""
QUIET = 3.0
"""Seconds without a key after which the user does not notice a full collection."""

SLICE = 10
"""Collections of the youngest generation after which a slice is worth its time."""
OVERDUE = 4 * SLICE
"""As many make a slice necessary even if keys never pause."""
WORTH_IT = 5
"""Slices after which a full collection is worth its time."""
LONG_OVERDUE = 10 * WORTH_IT
"""As many make a full collection necessary even if it is never quiet."""

HEAVY = 0.03
"""Seconds of processor time of a full collection after which the remaining objects are frozen, such
as those of libraries that were loaded late."""

_YOUNG, _NEVER = 5_000, 1_000_000_000


class Collector:
    """For a process of our own. Nothing is collected before the first picture; afterwards Python
    itself collects only the youngest generation."""

    def __init__(self) -> None:
        self._last_key = time.monotonic()
        self._slices = 0
        gc.disable()

    def settle(self) -> None:
        """Freeze what was loaded for the first picture, and begin to collect."""
        gc.freeze()
        gc.set_threshold(_YOUNG, _NEVER, _NEVER)
        gc.enable()

    def key(self) -> None:
        self._last_key = time.monotonic()

    def tick(self) -> None:
        """Collect if it is worth it now. Call it every `EVERY` seconds."""
        idle, young = time.monotonic() - self._last_key, gc.get_count()[1]
        if young >= (SLICE if idle >= PAUSE else OVERDUE):
            gc.collect(1)
            self._slices += 1
        if self._slices >= (WORTH_IT if idle >= QUIET else LONG_OVERDUE):
            self._collect_all()

    def _collect_all(self) -> None:
        start = time.thread_time()
        gc.collect()
        self._slices = 0
        if time.thread_time() - start >= HEAVY:
            gc.freeze()
