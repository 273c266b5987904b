"""Notes which cells that the user has not approved leave code running. What it changes later counts as
changed by the cell that runs then, so that names no longer mean what the user has given them."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Callable, NamedTuple

from ..undo.kinds import is_of_library
from ..undo.side_state import running_threads
from ..values.objects import address_of, class_module

_SIGNALS = tuple(map(int, signal.valid_signals()))
_getsignal: Callable[[int], object] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Reads the handler of a signal. Quicker than `signal.getsignal`, because it does not create enum
members."""
_POOL_FILE = "concurrent/futures/thread.py"
_PROGRESS_BAR_MODULE = "tqdm._monitor"
_ENDING_SECONDS = 0.1
"""How long threads may take to end, or to become idle, after their cell."""
_POLL_SECONDS = 0.005


class _Running(NamedTuple):
    """What runs or waits at one time."""

    runners: list[object]
    """Threads, tasks, callbacks, handlers of signals."""
    unnamed_thread_count: int
    """How many threads Python's `threading` does not know."""


class LeftRunning:
    """Compares what runs or waits before and after such cells: threads, tasks and callbacks of the event
    loop, signal handlers."""

    def __init__(self, list_runnable: Callable[[], Sequence[Any]]) -> None:
        """list_runnable: Returns the tasks and callbacks of the event loop that may run later."""
        self._list_runnable = list_runnable
        self.last_cell = 0
        """The last cell that has left something; 0 if there is none."""

    @contextmanager
    def watch(self, cell: int) -> Iterator[None]:
        """Compare before and after a cell that the user has not approved. A cell counts as one that has
        left something if what it has replaced keeps that from being known."""
        # Kept meanwhile, so that nothing new gets an address of its runners.
        running_before = self._try_list()
        try:
            yield
        finally:
            if running_before is None or self._has_left(running_before):
                self.last_cell = cell

    def _has_left(self, running_before: _Running) -> bool:
        """Return whether anything runs or waits that did not before."""
        deadline = time.monotonic() + _ENDING_SECONDS
        while True:
            running = self._try_list()
            if running is not None and not _has_more(running, running_before):
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(_POLL_SECONDS)

    def _try_list(self) -> _Running | None:
        """Return what runs or waits; None if a cell has replaced parts that tell that."""
        try:
            frames = sys._current_frames()
            known_threads = {thread.ident for thread in threading.enumerate()}
            threads = [
                thread
                for number, thread in running_threads().items()
                if not _is_idle(thread, frames.get(number))
            ]
            runners = [*threads, *self._list_runnable(), *map(_getsignal, _SIGNALS)]
            return _Running(runners, len(frames.keys() - known_threads))
        except Exception:
            return None


def _has_more(running: _Running, running_before: _Running) -> bool:
    """Return whether something runs or waits that did not before."""
    addresses_before = frozenset(map(address_of, running_before.runners))
    has_new_runner = any(address_of(runner) not in addresses_before for runner in running.runners)
    return has_new_runner or running.unnamed_thread_count > running_before.unnamed_thread_count


def _is_idle(thread: Any, frame: FrameType | None) -> bool:
    """Return whether a thread of a library has nothing to do until other code gives it something: a
    worker of `concurrent.futures`, or the monitor of tqdm's progress bars. frame: where it is."""
    if frame is None:
        return False
    code = frame.f_code
    if code.co_filename.endswith(_POOL_FILE) and code.co_name == "_worker":
        # While it runs a function, its innermost frame is in that.
        parts = frame.f_locals
        has_work = "work_item" in parts or not parts["work_queue"].empty()
        return is_of_library(code.co_filename) and not has_work
    if class_module(type(thread)) == _PROGRESS_BAR_MODULE:
        run_code = type(thread).run.__code__
        packages = {class_module(type(bar)).partition(".")[0] for bar in thread.tqdm_cls._instances}
        return is_of_library(run_code.co_filename) and packages <= {"tqdm"}
    return False
