"""Leaves at once if nothing is lost, else after a question."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.panes.screen import Panes
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.widgets.leave_row import LeaveRow

STOPS = "ctrl+s"
"""Answers the question before leaving: end the cell that could go on."""

HELD = 0.3
"""Seconds within which a second press counts as the key being held down."""


class QuitFlow:
    """Asks once before something is lost; the next key answers."""

    def __init__(
        self, app: TerminalApp[int], session: Session, panes: Panes, *, namespace_stays: bool
    ) -> None:
        """namespace_stays: whether the namespace outlives the screen, because it is the
        caller's."""
        self._app = app
        self._session = session
        self._panes = panes
        self._namespace_stays = namespace_stays
        self._pressed = -math.inf
        """When the user last wanted to leave."""
        self._confirmed = False
        """Whether the key that acts now follows the question."""
        self.row: LeaveRow | None = None
        """The question, while it stands."""

    def leave(self) -> None:
        """Leave; if something would be lost, ask first, and leave at the second call. A key that is
        held down counts once."""
        now = time.monotonic()
        held, self._pressed = now - self._pressed < HELD, now
        asked = self._confirmed or self.row is not None
        if (asked and not held) or not (self._lost() or self._goes_on()):
            self._exit()
        elif self.row is None:
            from mahtab_tui.tui.widgets.leave_row import LeaveRow

            quit_key = next(
                (
                    active.binding
                    for active in self._app.active_bindings.values()
                    if active.binding.id == "quit"
                ),
                None,
            )
            self.row = LeaveRow(
                self._lost,
                self._goes_on,
                self._app.get_key_display(quit_key) if quit_key else "The same key",
            )
            self._app.screen.mount(self.row)

    def go_to(self, session: str, *, back: str) -> None:
        """Ask whether to leave this session for another one, which opens in its place. back: the
        command that lists this one then."""
        from mahtab_tui.tui.screens.confirm import confirm

        lost = self._lost()
        losing = f" You would lose {', '.join(lost)}." if lost else ""
        going_on = " The running cell continues." if self._goes_on() else ""

        def go() -> None:
            self._app.next_session = session
            self._exit()

        question = f"Switch to session {session}? This session is saved, and {back} returns to it.{going_on}{losing}"
        confirm(self._app, question, go, yes="Switch", no="Stay")

    def leave_by_code(self) -> None:
        """Leave because a cell called `exit()`: at once for the user's cell, after a question for
        the model's."""
        if self._session.turn_runs:
            self.leave()
        else:
            self._app.exit(0)

    def take_key(self, key: str = "") -> bool:
        """Remove the question, which the next key answers. Returns whether that was all that the
        key is for."""
        self._confirmed = self.row is not None
        if self.row is not None:
            self.row.remove()
            self.row = None
        if self._confirmed and key == STOPS and self._goes_on():
            self._app.exit(0)
            return True
        return self._confirmed and key == "escape"

    def _exit(self) -> None:
        self._app.leaves_kernel = self._goes_on()
        self._app.exit(0)

    def _goes_on(self) -> bool:
        """Whether a cell runs that can go on without the screen."""
        return self._session.cells.running and self._session.kernel.outlives

    def _lost(self) -> list[str]:
        names = (
            0
            if self._namespace_stays
            else self._session.keeping.unsaved(self._panes.namespace.made)
        )
        queued, notebook = self._panes.queued, self._session.notebook
        return [
            *(["the running cell"] if self._session.cell_runs and not self._goes_on() else []),
            *(["the unfinished answer"] if self._session.turn_runs else []),
            *([f"{queued} queued {'input' if queued == 1 else 'inputs'}"] if queued else []),
            *(
                [f"the unsaved changes of {notebook.label}"]
                if notebook is not None and notebook.unsaved
                else []
            ),
            *(["the text in the editor"] if self._panes.editor.text.strip() else []),
            *([f"{names:,} {'name' if names == 1 else 'names'} of the namespace"] if names else []),
        ]
