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

    def begin(self, cell: int) -> None:
        self._note(self._running[-1][0] if self._running else None)
        self._running.append((cell, self._cell.set(cell)))

    def end(self) -> None:
        cell, before = self._running.pop()
        self._note(cell)
        self._cell.reset(before)

    def caller_cell(self) -> int | None:
        cell = self._cell.get()
        if cell is not None:
            return cell
        running = self._running[-1][0] if self._running else None
        return self._threads.get(threading.current_thread(), running)

    def _note(self, cell: int | None) -> None:
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                self._threads.setdefault(thread, cell)
