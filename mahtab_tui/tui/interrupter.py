"""Stops what runs: the first time it interrupts, the second time it offers to kill the kernel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.terminal_app import TerminalApp

SECOND_STOP = 2.0
"""Seconds within which stopping again offers to kill the kernel."""

REACTION = 0.4
"""Seconds that a cell has to end before the user learns how to kill the kernel."""


class Interrupter:
    """Remembers when the user last stopped something."""

    def __init__(self, app: TerminalApp[int], session: Session) -> None:
        self._app = app
        self._session = session
        self._stopped_at = 0.0

    def stop(self) -> None:
        """Stop the model or the cell; a second call within two seconds offers to kill the
        kernel."""
        if self._session.cell_runs and time.monotonic() - self._stopped_at < SECOND_STOP:
            self.ask_to_kill()
            return
        if (stopped := self._session.stop()) is not None:
            self._stopped_at = time.monotonic()
            if stopped == "cell":
                self._app.set_timer(REACTION, self._tell_of_kill)

    def ask_to_kill(self) -> None:
        from mahtab_tui.tui.screens.confirm import confirm

        question = "Kill the kernel? Variables that are not saved are lost; the transcript stays."
        confirm(self._app, question, self._session.kernel_control.kill, yes="Kill", no="Wait")

    def _tell_of_kill(self) -> None:
        """Say how to kill the kernel, if the cell is still running."""
        if self._session.cell_runs:
            self._stopped_at = time.monotonic()
            self._app.tell(
                "The cell is still running. Stop it again within two seconds to kill the kernel; you are asked first.",
                "warning",
            )
