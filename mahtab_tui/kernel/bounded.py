"""Runs a cell with a time limit; it can also be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.values import CellResult

GRACE = 2.0
"""Seconds that a cell gets to end after its interrupt."""

_AGAIN = 0.01
"""Seconds before an interrupt is repeated that came before the cell had started."""


class BoundedCell:
    """One run of a cell, interrupted after its time limit; `timed_out` tells whether that
    happened."""

    def __init__(
        self,
        kernel: Kernel,
        timeout: float | None,
        *,
        may_kill: bool,
        grace: float = GRACE,
        on_unresponsive: Callable[[], None] = lambda: None,
    ) -> None:
        """timeout: seconds from the start of `run`, or None.

        may_kill: whether to kill the kernel if the cell does not end within `grace` seconds after
        its interrupt; otherwise `on_unresponsive` is called.
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
        """Run `execute` to its end. The time limit starts here."""
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
        """Interrupt the cell, from any thread, and return at once. A cell that has not started is
        interrupted when it does."""
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
        """Interrupt the cell, repeatedly until the kernel has started it. False if it has already
        ended."""
        while True:
            with self._lock:
                if self._ended.is_set():
                    return False
                self.timed_out = timed_out
                if self._kernel.interrupt():
                    return True
            self._ended.wait(_AGAIN)
