"""Which cell the code belongs to that runs now, also if it goes on after its cell: in a thread or a
task."""

from __future__ import annotations

import contextvars
import threading
import weakref


class CellAttribution:
    """Knows of each thread and task in which cell it was started. Cells begin and end on the
    kernel's main thread."""

    def __init__(self) -> None:
        self._cell: contextvars.ContextVar[int | None] = contextvars.ContextVar(
            "cell", default=None
        )
        """Tasks and `asyncio.to_thread` copy it."""
        self._threads: weakref.WeakKeyDictionary[threading.Thread, int | None] = (
            weakref.WeakKeyDictionary()
        )
        """The cells of threads, but for those that the running cell has started."""
        self._running: list[tuple[int, contextvars.Token[int | None]]] = []

    def begin(self, cell: int) -> None:
        """A cell begins, perhaps inside another one: threads that nobody knows yet are of that
        one."""
        self._note(self._running[-1][0] if self._running else None)
        self._running.append((cell, self._cell.set(cell)))

    def end(self) -> None:
        """The innermost cell has ended."""
        cell, before = self._running.pop()
        self._note(cell)
        self._cell.reset(before)

    def of_caller(self) -> int | None:
        """The cell of the code that calls this; None if it is not known."""
        cell = self._cell.get()
        if cell is not None:
            return cell
        thread = threading.current_thread()
        if thread in self._threads:
            return self._threads[thread]
        running = self._running[-1:]
        return running[0][0] if running else None

    def _note(self, cell: int | None) -> None:
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and thread not in self._threads:
                self._threads[thread] = cell
