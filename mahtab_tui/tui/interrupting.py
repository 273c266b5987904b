"""Stops the model or the running cell, and kills a kernel whose cell does not stop."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from mahtab_tui.tui.key_repeat import KeyRepeatFilter

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.navigation import Navigation
    from mahtab_tui.tui.terminal_app import TerminalApp

SECOND_STOP_S = 2.0
"""A second stop within this time asks whether to kill the kernel."""
KILL_OFFER_DELAY_S = 0.4
"""The time between a stop and the notice that the cell is still running."""


class Interrupter:
    """Stops the model or the running cell. A second stop asks whether to kill the kernel."""

    def __init__(self, app: TerminalApp[int], session: Session, navigation: Navigation) -> None:
        self._app = app
        self._session = session
        self._navigation = navigation
        self._key_repeats = KeyRepeatFilter()
        self._interrupted_cells: frozenset[int] = frozenset()
        """The cells that the last stop has interrupted."""
        self._second_stop_start_s = -math.inf
        """From when on a second stop counts, in seconds of the monotonic clock."""

    def stop(self) -> None:
        """Stop the model's turn, or else the running cell.

        If the cell was interrupted a moment ago and still runs, ask whether to kill the kernel.
        """
        is_repetition = self._key_repeats.is_repetition()
        passed_s = time.monotonic() - self._second_stop_start_s
        if self._interrupted_cell_runs() and passed_s < SECOND_STOP_S:
            # A key that is held down is not a second stop.
            if not is_repetition:
                self.ask_to_kill()
            return

        running_cells = self._session.cells.running_numbers
        model_cell_runs = self._session.cells.assistant_runs
        stopped_part = self._session.stop()
        # Stopping the model's turn interrupts a cell only if the cell is the model's.
        is_cell_interrupted = stopped_part == "cell" or (
            stopped_part == "model" and model_cell_runs
        )
        if not is_cell_interrupted:
            return
        self._interrupted_cells = running_cells
        self._second_stop_start_s = time.monotonic()
        self._app.set_timer(KILL_OFFER_DELAY_S, self._offer_to_kill)

    def ask_to_kill(self) -> None:
        """Ask whether to kill the kernel, and kill it if the user agrees."""
        question = "Kill the kernel? Variables that are not saved are lost; the transcript stays."
        kill = self._session.kernel_control.kill
        self._navigation.confirm(question, kill, yes="Kill", no="Wait")

    def _interrupted_cell_runs(self) -> bool:
        """Return whether a cell that the last stop has interrupted is still running."""
        return not self._interrupted_cells.isdisjoint(self._session.cells.running_numbers)

    def _offer_to_kill(self) -> None:
        """If the interrupted cell is still running, tell the user how to kill the kernel."""
        if not self._interrupted_cell_runs():
            return
        # The time for a second stop begins when the user can read about it.
        self._second_stop_start_s = time.monotonic()
        self._app.notify(
            f"The cell is still running. Stop it again within {SECOND_STOP_S:g} seconds to kill the"
            " kernel; you are asked first.",
            "warning",
        )
