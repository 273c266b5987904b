"""A cell that may be stopped: by a time limit, or by whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mahtab_tui.kernel.base import CellResult, Kernel

GRACE = 2.0
"""Seconds that a cell has to end after it was interrupted."""

_AGAIN = 0.01
"""Seconds until an interrupt that found no cell yet is tried again."""


class BoundedCell:
    """One run of a cell, interrupted at the end of its time; what became of it stands in the attributes afterwards."""

    def __init__(
        self, kernel: Kernel, timeout: float | None, *, may_kill: bool, grace: float = GRACE, on_unresponsive: Callable[[], None] = lambda: None
    ) -> None:
        """timeout: seconds from the start of `run`, or None.

        may_kill: whether the kernel is killed when the cell does not end within `grace` seconds after its interrupt; else `on_unresponsive` is
        called.
        """
        self._kernel = kernel
        self._timeout = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        self._may_kill = may_kill
        self._grace = grace
        self._lock = threading.Lock()
        self._watched = False
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._stop = threading.Event()
        self.timed_out = False
        self._on_unresponsive = on_unresponsive

    def run(self, execute: Callable[[], CellResult]) -> CellResult:
        """Run `execute` to its end. The time counts from here."""
        self._begun.set()
        if self._timeout is not None or self._stop.is_set():
            self._watch()
        try:
            return execute()
        finally:
            with self._lock:
                self._ended.set()
            self._stop.set()

    def stop(self) -> None:
        """Interrupt it, from any thread; returns at once. What was not yet begun is interrupted when it begins."""
        self._stop.set()
        if self._begun.is_set():
            self._watch()

    def _watch(self) -> None:
        with self._lock:
            if self._watched or self._ended.is_set():
                return
            self._watched = True
        threading.Thread(target=self._bound, name="cell-limit", daemon=True).start()

    def _bound(self) -> None:
        timed_out = not self._stop.wait(self._timeout)
        if not self._interrupt(timed_out) or self._ended.wait(self._grace):
            return
        if not self._may_kill:
            self._on_unresponsive()
            return
        if not self._ended.is_set():
            self._kernel.kill()

    def _interrupt(self, timed_out: bool) -> bool:
        """Whether it still ran. One that the kernel has not begun cannot be interrupted yet."""
        while True:
            with self._lock:
                if self._ended.is_set():
                    return False
                self.timed_out = timed_out
                if self._kernel.interrupt():
                    return True
            self._ended.wait(_AGAIN)
