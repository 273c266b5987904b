"""Tells which cell the running code belongs to."""

from __future__ import annotations

import contextvars
import threading
import weakref
from typing import Optional


class CellAttribution:
    """Remembers which cell started each thread and task."""

    def __init__(self) -> None:
        self._cell = contextvars.ContextVar[Optional[int]]("cell", default=None)
        self._threads = weakref.WeakKeyDictionary[threading.Thread, Optional[int]]()
        """Cells of threads, except those of the running cell."""
        self._running: list[tuple[int, contextvars.Token[int | None]]] = []
        """The cells that run, the innermost last, and what resets `_cell` at their end."""

    def begin(self, cell: int) -> None:
        """Note that a cell begins on this thread, perhaps within another one."""
        self._note_threads(self._running_cell())
        self._running.append((cell, self._cell.set(cell)))

    def end(self) -> None:
        """Note that the innermost cell ends."""
        cell, context_before = self._running.pop()
        self._note_threads(cell)
        self._cell.reset(context_before)

    def caller_cell(self) -> int | None:
        """Return the cell whose code calls; None if it is no cell's."""
        cell = self._cell.get()
        if cell is not None:
            return cell
        return self._threads.get(threading.current_thread(), self._running_cell())

    def cell_of_context(self, context: contextvars.Context) -> int | None:
        """Return the cell whose code made a context, or a copy of which it is; None if no cell did."""
        return context.get(self._cell)

    def _running_cell(self) -> int | None:
        """Return the innermost cell that runs."""
        return self._running[-1][0] if self._running else None

    def _note_threads(self, cell: int | None) -> None:
        """Note that the threads that are new belong to a cell."""
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                self._threads.setdefault(thread, cell)
