"""Stops what runs, and leaves the screen without losing something unasked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mahtab_tui.session.open_session import cell_can_detach, unsaved_items

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.main_screen import Panes
    from mahtab_tui.tui.navigation import Navigation
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.widgets.leave_row import LeaveRow

SECOND_STOP_S = 2.0
"""Within this time, a second stop offers to kill the kernel. `_offer_kill` names it to the user."""
KILL_OFFER_DELAY_S = 0.4
"""After a stop, the user is told how to kill a cell that still runs."""
STOP_KEY = "ctrl+s"
"""Stops the cell instead of detaching it."""
KEY_REPEAT_S = 0.3
"""Within this time, the same key counts as held down."""


class Interrupter:
    """Stops what runs, and offers to kill a kernel that does not stop."""

    def __init__(self, app: TerminalApp[int], session: Session, navigation: Navigation) -> None:
        self._app = app
        self._navigation = navigation
        self._session = session
        self._last_stop_time = -math.inf

    def stop(self) -> None:
        """Stop what runs; called again soon, offer to kill the kernel."""
        since_last_stop_s = time.monotonic() - self._last_stop_time
        if self._session.cells.running and since_last_stop_s < SECOND_STOP_S:
            self.ask_to_kill()
            return
        stopped_part = self._session.stop()
        if stopped_part is None:
            return
        self._last_stop_time = time.monotonic()
        if stopped_part == "cell":
            self._app.set_timer(KILL_OFFER_DELAY_S, self._offer_kill)

    def ask_to_kill(self) -> None:
        """Ask whether to kill the kernel, and do so."""
        question = "Kill the kernel? Variables that are not saved are lost; the transcript stays."
        kill = self._session.kernel_control.kill
        self._navigation.confirm(question, kill, yes="Kill", no="Wait")

    def _offer_kill(self) -> None:
        """Say how to kill the kernel, if the stopped cell still runs."""
        if not self._session.cells.running:
            return
        # The two seconds begin when the user reads of them.
        self._last_stop_time = time.monotonic()
        self._app.notify(
            "The cell is still running. Stop it again within two seconds to kill the kernel;"
            " you are asked first.",
            "warning",
        )


class QuitFlow:
    """Asks once before quitting would lose something; the next key answers."""

    def __init__(
        self,
        app: TerminalApp[int],
        session: Session,
        panes: Panes,
        navigation: Navigation,
        *,
        keeps_namespace: bool,
        forget_draft: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            app: The application to leave.
            session: What runs in it may be lost.
            panes: They hold the text and the inputs that may be lost.
            navigation: Asks before another session is opened.
            keeps_namespace: Whether the variables are saved with the session.
            forget_draft: Called when the user leaves.
        """
        self._app = app
        self._forget_draft = forget_draft
        self._session = session
        self._panes = panes
        self._navigation = navigation
        self._keeps_namespace = keeps_namespace
        self._last_press_time = -math.inf
        self._key_answers = False
        """Whether the key that is being handled was pressed while the question was open."""
        self.row: LeaveRow | None = None
        """The question; None if it is not open."""

    def leave(self) -> None:
        """Leave, or first ask whether to lose something; the second call leaves."""
        now = time.monotonic()
        is_repeat = now - self._last_press_time < KEY_REPEAT_S
        self._last_press_time = now
        # A key that is held down must not answer the question that it has raised.
        is_confirmed = (self._key_answers or self.row is not None) and not is_repeat
        if is_confirmed:
            self._exit()
            return

        unsaved_items = self._unsaved_items()
        can_detach = self._cell_can_detach()
        if not unsaved_items and not can_detach:
            self._exit()
        elif self.row is None:
            from mahtab_tui.tui.widgets.leave_row import LeaveRow

            self.row = LeaveRow(unsaved_items, can_detach, self._quit_key())
            self._app.screen.mount(self.row)

    def switch_to(self, session: str) -> None:
        """Ask whether to leave this session for another one.

        Args:
            session: The id of the other session.
        """

        def switch() -> None:
            self._app.next_session = session
            self._exit()

        question = (
            f"Switch to session {session}? This session is saved, and /sessions returns to it."
        )
        if self._cell_can_detach():
            question += " The running cell continues."
        unsaved_items = self._unsaved_items()
        if unsaved_items:
            question += f" You would lose {', '.join(unsaved_items)}."
        self._navigation.confirm(question, switch, yes="Switch", no="Stay")

    def quit_from_cell(self) -> None:
        """Leave because a cell has called `exit()`; ask first if the model is still answering."""
        if self._session.agent.in_turn:
            self.leave()
        else:
            self._app.exit(0)

    def answer_key(self, key: str = "") -> bool:
        """Close the question, if it is open: any key does.

        Args:
            key: The key that was pressed, as Textual calls it.

        Returns:
            Whether the key must do nothing else.
        """
        self._key_answers = self.row is not None
        if self.row is None:
            return False
        self.row.remove()
        self.row = None
        # Leaving without `leaves_kernel` stops the cell.
        if key == STOP_KEY and self._cell_can_detach():
            self._app.exit(0)
            return True
        return key == "escape"

    def _exit(self) -> None:
        self._forget_draft()
        self._app.leaves_kernel = self._cell_can_detach()
        self._app.exit(0)

    def _quit_key(self) -> str:
        """Return the key that leaves, as the user reads it."""
        for active in self._app.active_bindings.values():
            if active.binding.id == "quit":
                return self._app.get_key_display(active.binding)
        return "The same key"

    def _cell_can_detach(self) -> bool:
        """Return whether a cell runs that can go on without a screen."""
        return cell_can_detach(self._session)

    def _unsaved_items(self) -> list[str]:
        """Return what leaving would lose, as parts of a sentence."""
        created_count = 0
        if not self._keeps_namespace:
            created_count = self._panes.namespace.variables.created_count
        items = unsaved_items(self._session, created_count)
        queued_count = self._panes.queued_input_count
        if queued_count:
            noun = "input" if queued_count == 1 else "inputs"
            items.append(f"{queued_count:,} queued {noun}")
        if self._panes.editor.text.strip():
            items.append("the text in the editor")
        return items
