"""When the garbage collector may hold the screen: a whole collection stops the process for a tenth of a second."""

from __future__ import annotations

import gc
import time

QUIET = 3.0
"""Seconds without a key after which a whole collection is not felt."""
WORTH_IT = 50
"""Collections of the young since the last whole one that make another worth its time."""

_YOUNG, _NEVER = 5_000, 1_000_000_000


class Collector:
    """For a process that is ours alone; nothing is collected until the first picture is there, and the old only in quiet moments."""

    def __init__(self) -> None:
        self._last_key = time.monotonic()
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
        """Collect everything if nobody would feel it. To be called every few seconds."""
        if time.monotonic() - self._last_key >= QUIET and gc.get_count()[1] >= WORTH_IT:
            gc.collect()
