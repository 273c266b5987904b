"""Jobs for the thread that runs cells."""

from __future__ import annotations

import queue
from collections import deque

from ..link.frames import Frame


class JobQueue:
    """Jobs in the order in which they arrive. Any thread may add one; one thread takes them.

    A job stays in the queue until `finish`, so that none is lost if a signal handler of the user's
    raises while the thread waits or wakes up."""

    def __init__(self) -> None:
        self._jobs: deque[Frame | None] = deque()
        self._arrivals: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes the thread; may hold more than there are jobs."""

    def put(self, job: Frame | None) -> None:
        """Add a job; None is the last."""
        self._jobs.append(job)
        self._arrivals.put(None)

    def get(self) -> Frame | None:
        """Wait for the next job and return it. Does not remove it."""
        while not self._jobs:
            self._arrivals.get()
        return self._jobs[0]

    def finish(self) -> None:
        """Remove the job that `get` returned."""
        self._jobs.popleft()

    def empty(self) -> bool:
        """Return whether no job waits."""
        return not self._jobs
