"""Notes which unapproved cells leave code running. What it changes later counts as changed by the cell
that runs then, so that names no longer mean what the user has given them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import thread as pool_threads
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any, Callable, NamedTuple

from ..cells.attribution import CellAttribution
from ..cells.awaiting import EventLoop
from ..undo.user_threads import running_threads
from ..values.objects import address_of, class_module, get_if_loaded, name_of
from .loop_work import LoopWork

_SIGNALS = tuple(map(int, signal.valid_signals()))
_getsignal: Callable[[int], object] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Reads the handler of a signal. Quicker than `signal.getsignal`, because it does not create enum
members."""
_POOL_WORKER_CODE = pool_threads._worker.__code__
"""The code of the threads of `concurrent.futures`. Read before the first unapproved cell."""
_PROGRESS_BAR_PACKAGE = "tqdm"
_SYSTEM_THREADS = "/proc/self/task"
"""The folder in which Linux lists the threads of a process."""
_ENDING_TIMEOUT_S = 0.1
"""How long threads may take to begin, to end, or to become idle, after their cell."""
_POLL_INTERVAL_S = 0.005


class _Running(NamedTuple):
    """What runs or waits at one time."""

    threads: list[object]
    """Threads of Python's `threading` that are not idle, and progress bars that a thread updates."""
    others: list[object]
    """Tasks, callbacks, handlers of signals."""
    unnamed_thread_count: int
    """How many threads run Python code that `threading` does not know."""
    unknown_thread_ids: frozenset[int]
    """The system's numbers of the threads that `threading` does not know: those of libraries, and those
    that Python has started, but that have not run yet."""

    def has_more_threads(self, before: _Running) -> bool:
        """Return whether threads run Python code that did not do so before."""
        if self.unnamed_thread_count > before.unnamed_thread_count:
            return True
        return _has_new(self.threads, before.threads)

    def has_unknown_threads(self, before: _Running) -> bool:
        """Return whether there are new threads that may still begin to run Python code."""
        return not self.unknown_thread_ids <= before.unknown_thread_ids


class LeftRunning:
    """Compares what runs or waits before and after unapproved cells: threads, tasks and callbacks of the
    event loop, signal handlers."""

    def __init__(self, event_loop: EventLoop, attribution: CellAttribution) -> None:
        """
        Args:
            event_loop: Runs the tasks and callbacks of all cells.
            attribution: Tells which cell they belong to.
        """
        self._event_loop = event_loop
        self._attribution = attribution
        self.last_cell = 0
        """The last cell that has left something; 0 if there is none."""

    @contextmanager
    def watch(self, cell: int) -> Iterator[None]:
        """Compare before and after an unapproved cell.

        A cell counts as one that has left something if what it has replaced keeps that from being
        known. Raises what a signal handler of the cell's raises.
        """
        # Kept meanwhile, so that nothing new gets an address of what runs.
        running_before = self._list_running(cell)
        try:
            yield
        finally:
            earlier_cell = self.last_cell
            # First, because a signal handler may end what follows.
            self.last_cell = cell
            if running_before is not None and not self._has_left(cell, running_before):
                self.last_cell = earlier_cell

    def _has_left(self, cell: int, running_before: _Running) -> bool:
        """Return whether a cell has left anything, once its threads have had the time to begin and to
        end."""
        deadline = time.monotonic() + _ENDING_TIMEOUT_S
        while True:
            running = self._list_running(cell)
            if running is None:
                has_left_threads = True
                may_change = True
            else:
                if _has_new(running.others, running_before.others):
                    return True
                has_left_threads = running.has_more_threads(running_before)
                may_change = has_left_threads or running.has_unknown_threads(running_before)
            if not may_change:
                return False
            # Threads that begin later than this are not waited for.
            if time.monotonic() > deadline:
                return has_left_threads
            time.sleep(_POLL_INTERVAL_S)

    def _list_running(self, cell: int) -> _Running | None:
        """Return what runs or waits, of the event loop only what may be of a cell; None if a cell has
        replaced parts that tell that."""
        frames = sys._current_frames()
        try:
            known_threads = threading.enumerate()
            threads = [
                runner
                for number, thread in running_threads().items()
                for runner in _find_runners(thread, frames.get(number))
            ]
            loop_work = LoopWork(self._event_loop, cell, self._attribution.cell_of_context)
            return _Running(
                threads,
                [*loop_work.list_items(), *map(_getsignal, _SIGNALS)],
                len(frames.keys() - {thread.ident for thread in known_threads}),
                _list_system_threads() - {thread.native_id for thread in known_threads},
            )
        except BaseException:  # SystemExit, too, of what a cell has put in the place of such a part
            return None
        finally:
            # Else this function's own frame keeps itself, and the variables of all threads.
            frames.clear()


def _has_new(runners: list[object], runners_before: list[object]) -> bool:
    """Return whether any of these objects is not among those before."""
    addresses_before = frozenset(map(address_of, runners_before))
    return any(address_of(runner) not in addresses_before for runner in runners)


def _list_system_threads() -> frozenset[int]:
    """Return the system's numbers of the threads; none if the system does not list them."""
    with suppress(OSError):
        return frozenset(map(int, os.listdir(_SYSTEM_THREADS)))
    return frozenset()


def _find_runners(thread: Any, frame: FrameType | None) -> list[object]:
    """Return a thread if it runs code; nothing for a worker of `concurrent.futures` that waits, and
    for the monitor of tqdm the progress bars that it updates.

    Args:
        frame: Where the thread is.
    """
    if frame is not None and frame.f_code is _POOL_WORKER_CODE:
        # While it runs a function, its innermost frame is in that.
        parts = frame.f_locals
        queue = parts["work_queue"]
        has_work = "work_item" in parts or type(queue) is not SimpleQueue or not queue.empty()
        return [thread] if has_work else []
    if type(thread) is get_if_loaded("tqdm._monitor", "TMonitor"):
        bar_class = thread.tqdm_cls
        if _is_of_tqdm(bar_class):
            return list(bar_class._instances)
    return [thread]


def _is_of_tqdm(cls: type) -> bool:
    """Return whether a class is one of tqdm's own."""
    module = class_module(cls)
    is_listed = get_if_loaded(module, name_of(cls)) is cls
    return is_listed and module.partition(".")[0] == _PROGRESS_BAR_PACKAGE
