"""Interrupts a cell when the host asks for it."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Callable

from ..link.frames import Frame

if TYPE_CHECKING:
    from ..link.interrupts import Interrupts

HOST_SIGNAL_DELAY_S = 0.75
"""Seconds after which the host, which got no answer, may have sent the signal itself."""
HANDLER_GRACE_S = 0.05
"""Seconds for a signal of the host's to be handled."""
REPEAT_SIGNAL_AFTER_S = 1.0
"""Seconds after which an interrupt that nobody handled is sent again."""


class CellInterrupter:
    """Sends the signal that interrupts a cell, from the control thread."""

    def __init__(
        self,
        interrupts: Interrupts,
        open_cells: Collection[int],
        is_executing: Callable[[], bool],
    ) -> None:
        """
        Args:
            interrupts: Handles the signal, on the main thread.
            open_cells: The numbers of the cells that have begun and not ended; may change.
            is_executing: Returns whether code of a cell runs.
        """
        self._interrupts = interrupts
        self._open_cells = open_cells
        self._is_executing = is_executing

    def on_request(self, frame: Frame) -> None:
        """Interrupt a cell, unless a signal of the host's has done so since it asked."""
        requested_at = frame["asked"]
        if requested_at is None:
            # The host is on another machine, whose clock is different.
            requested_at = time.monotonic()
        elif time.monotonic() - requested_at > HOST_SIGNAL_DELAY_S:
            time.sleep(HANDLER_GRACE_S)
        self._interrupt(frame["cell"], requested_at)

    def interrupt_innermost(self) -> None:
        """Interrupt the cell that runs, the innermost of nested ones."""
        innermost_cell = max(self._open_cells, default=None)
        if innermost_cell is not None:
            self._interrupt(innermost_cell, time.monotonic())

    def _interrupt(self, cell: int, requested_at: float) -> None:
        """Interrupt a cell and its child processes.

        Args:
            cell: The number of the cell.
            requested_at: When that was requested, as monotonic time.
        """
        if not self._is_unhandled(cell, requested_at):
            return
        # Sent to the whole process group, like Ctrl+C in a terminal, so that child processes that a
        # cell waits for end too.
        self._interrupts.requested = cell
        os.killpg(0, signal.SIGINT)
        # `os.system` makes the process ignore the signal while it waits; this flag cannot be
        # ignored.
        if self._is_unhandled(cell, requested_at):
            _thread.interrupt_main()
        repetition = threading.Thread(target=self._repeat, args=(cell, requested_at), daemon=True)
        repetition.start()

    def _repeat(self, cell: int, requested_at: float) -> None:
        """Send the signal again after a while, if nobody has handled it."""
        time.sleep(REPEAT_SIGNAL_AFTER_S)
        if self._is_unhandled(cell, requested_at) and self._is_executing():
            os.killpg(0, signal.SIGINT)

    def _is_unhandled(self, cell: int, requested_at: float) -> bool:
        """Return whether a cell runs to whose interrupt nobody has reacted."""
        return cell in self._open_cells and self._interrupts.handled_at < requested_at
