"""When the garbage collector may hold the screen: in slices, between two keys.

What lives in reference cycles (widgets, messages, tasks) is freed by a collection only. Processor time on one core, in a session of 120 cells:
the youngest generation 3 ms, the youngest two 14 ms, all 17 ms; all with the agent's libraries that were just loaded 100 ms, or 60 ms with the
first picture's; nothing of either once they are frozen.
"""

from __future__ import annotations

import gc
import time

EVERY = 0.5
"""Seconds between two ticks."""
PAUSE = 0.1
"""Seconds after a key in which its echo is drawn."""
QUIET = 3.0
"""Seconds without a key after which a whole collection is not felt."""

SLICE = 10
"""Collections of the youngest that make a slice worth its time."""
OVERDUE = 4 * SLICE
"""As many make a slice due, though keys never pause."""
WORTH_IT = 5
"""Slices since the last whole collection that make another worth its time."""
LONG_OVERDUE = 10 * WORTH_IT
"""As many make one due, though it is never quiet."""

HEAVY = 0.03
"""Seconds of processor time of a whole collection after which what is left is taken for permanent, as libraries are that were loaded late."""

_YOUNG, _NEVER = 5_000, 1_000_000_000


class Collector:
    """For a process that is ours alone; nothing is collected until the first picture is there, and the youngest only by Python itself."""

    def __init__(self) -> None:
        self._last_key = time.monotonic()
        self._slices = 0
        gc.disable()

    def settle(self) -> None:
        """The first picture is there: what was loaded for it stays, and is not looked at again."""
        gc.freeze()
        gc.set_threshold(_YOUNG, _NEVER, _NEVER)
        gc.enable()

    def key(self) -> None:
        """The person typed something."""
        self._last_key = time.monotonic()

    def tick(self) -> None:
        """Collect what is worth it now. To be called every `EVERY` seconds."""
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
