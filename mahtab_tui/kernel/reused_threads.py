"""Threads that do one work after another, for the many short calls of a kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any

from mahtab_tui.system import start_thread

IDLE_THREAD_S = 5.0
"""Seconds for which an idle thread waits for more work."""

Work = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments."""


class ReusedThreads:
    """Runs each function on a thread that nothing else uses meanwhile.

    A thread that has done its work does the next, because starting one takes longer than a short
    call. Any thread may call this.
    """

    def __init__(self, name: str) -> None:
        """Create it without threads.

        Args:
            name: The name of a thread while it works.
        """
        self._name = name
        self._lock = threading.Lock()
        self._idle_queues: list[SimpleQueue[Work]] = []
        """The queues of the threads that wait for work; that of the thread that has worked last is
        at the end."""

    def run(self, work: Callable[..., object], *args: object) -> None:
        """Run a function on a daemon thread, at once."""
        with self._lock:
            queue = self._idle_queues.pop() if self._idle_queues else None
        if queue is None:
            queue = SimpleQueue()
            # Work goes through the queue, because a thread keeps its arguments until it ends.
            start_thread(self._name, self._serve, queue)
        queue.put((work, args))

    def _serve(self, queue: SimpleQueue[Work]) -> None:
        """Do the work that comes. Runs on a thread."""
        thread = threading.current_thread()
        while (next_work := self._next_work(queue)) is not None:
            thread.name = self._name
            work, args = next_work
            # In a context of its own, as on a new thread.
            Context().run(work, *args)
            # An idle thread keeps no values alive.
            del work, args, next_work
            with self._lock:
                self._idle_queues.append(queue)
            thread.name = f"{self._name}-idle"

    def _next_work(self, queue: SimpleQueue[Work]) -> Work | None:
        """Wait for work; None if none has come for a while."""
        try:
            return queue.get(timeout=IDLE_THREAD_S)
        except Empty:
            with self._lock:
                if queue in self._idle_queues:
                    self._idle_queues.remove(queue)
                    return None
            # It was chosen for work just now.
            return queue.get()
