"""Notes which cells that the user has not approved leave code running. What it changes later counts as
changed by the cell that runs then, so that names no longer mean what the user has given them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable

from ..stdlib import late_import
from ..undo.side_state import running_threads
from ..values.objects import address_of

_SIGNALS = tuple(map(int, signal.valid_signals()))
_getsignal: Callable[[int], object] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Quicker, because it does not create enum members."""


class LeftRunning:
    """Compares what runs or waits before and after such cells: threads, tasks and callbacks of the event
    loop, signal handlers."""

    def __init__(self, list_scheduled: Callable[[], Sequence[Any]]) -> None:
        """list_scheduled: Returns the tasks and callbacks of the event loop that wait."""
        self._list_scheduled = list_scheduled
        self.last_cell = 0
        """The last cell that has left something; 0 if there is none."""

    @contextmanager
    def watch(self, cell: int) -> Iterator[None]:
        """Compare before and after a cell that the user has not approved."""
        # Kept meanwhile, so that nothing new gets an address of these.
        runners_before = self._list_runners()
        thread_count = _count_unnamed_threads()
        try:
            yield
        finally:
            addresses_before = frozenset(map(address_of, runners_before))
            runners = self._list_runners()
            is_new = any(address_of(runner) not in addresses_before for runner in runners)
            if is_new or _count_unnamed_threads() > thread_count:
                self.last_cell = cell

    def _list_runners(self) -> list[object]:
        """Return what runs or may run later: threads, tasks, callbacks, handlers of signals."""
        return [
            *running_threads().values(),
            *self._list_scheduled(),
            *map(_getsignal, _SIGNALS),
        ]


def _count_unnamed_threads() -> int:
    """Return how many threads Python's `threading` does not know."""
    threading = late_import("threading")
    return len(sys._current_frames().keys() - {thread.ident for thread in threading.enumerate()})
