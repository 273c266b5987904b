"""Leaves the screen, and asks first if something would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mahtab_tui.session.open_session import cell_can_detach, unsaved_items
from mahtab_tui.tui.key_repeat import KeyRepeatFilter

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.main_screen import Panes
    from mahtab_tui.tui.navigation import Navigation
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.widgets.leave_row import LeaveRow

STOP_KEY = "ctrl+s"
"""While the question is open, this key stops the running cell and leaves."""


class QuitFlow:
    """Leaves the screen. If something would be lost, a row asks first, and the next key answers."""

    def __init__(
        self,
        app: TerminalApp[int],
        session: Session,
        panes: Panes,
        navigation: Navigation,
        *,
        keeps_namespace: bool,
        forget_draft: Callable[[], None],
    ) -> None:
        """
        Args:
            app: The application, which ends.
            session: The session, which may have a running cell or an unfinished answer.
            panes: The panes, which may have queued inputs or a text in the editor.
            navigation: Opens the question before another session is opened.
            keeps_namespace: Whether the variables are saved with the session.
            forget_draft: Removes the saved copy of the text in the editor. Called when the user
                has been asked, or had nothing to lose.
        """
        self._app = app
        self._session = session
        self._panes = panes
        self._navigation = navigation
        self._keeps_namespace = keeps_namespace
        self._forget_draft = forget_draft
        self._key_repeats = KeyRepeatFilter()
        """The presses of the key that leaves."""
        self._key_closed_question = False
        """Whether the key that is being handled was pressed while the question was open."""
        self.row: LeaveRow | None = None
        """The question; None if it is not open."""

    def leave(self) -> None:
        """Leave, or ask first if something would be lost.

        Leave also if the question is open already.
        """
        is_repetition = self._key_repeats.is_repetition()
        is_second_request = self._key_closed_question or self.row is not None
        # A key that is held down must not answer the question that it has opened.
        if is_second_request and not is_repetition:
            self._exit(leaves_kernel=self._cell_can_detach())
        else:
            self._leave_or_ask()

    def switch_to(self, session_id: str) -> None:
        """Ask whether to leave this session for another one."""

        def switch() -> None:
            self._app.next_session = session_id
            self._exit(leaves_kernel=self._cell_can_detach())

        question = (
            f"Switch to session {session_id}? This session is saved, and /sessions returns to it."
        )
        if self._cell_can_detach():
            question += " The running cell continues."
        items_at_risk = self._items_at_risk()
        if items_at_risk:
            question += f" You would lose {', '.join(items_at_risk)}."
        self._navigation.confirm(question, switch, yes="Switch", no="Stay")

    def quit_from_cell(self) -> None:
        """Leave because a cell has called `exit()`. Ask first if the model is still answering."""
        if self._session.agent.in_turn:
            self._leave_or_ask()
        else:
            # The draft stays saved, because the user was not asked whether to lose it.
            self._app.exit(0)

    def begin_key(self, key: str) -> bool:
        """Close the question before a key is handled. Every key closes it.

        Args:
            key: The key as Textual calls it; empty for a paste.

        Returns:
            Whether the key must do nothing else.
        """
        if self.row is None:
            return False
        self._key_closed_question = True
        self.row.remove()
        self.row = None
        if key == STOP_KEY and self._cell_can_detach():
            self._exit(leaves_kernel=False)
            return True
        return key == "escape"

    def end_key(self) -> None:
        """Note that a key has been handled. The next request to leave is a new one."""
        self._key_closed_question = False

    def _leave_or_ask(self) -> None:
        """Leave if nothing would be lost; otherwise open the question."""
        items_at_risk = self._items_at_risk()
        can_detach = self._cell_can_detach()
        if not items_at_risk and not can_detach:
            self._exit(leaves_kernel=False)
        elif self.row is None:
            from mahtab_tui.tui.widgets.leave_row import LeaveRow

            self.row = LeaveRow(items_at_risk, can_detach, self._quit_key())
            self._app.screen.mount(self.row)

    def _exit(self, *, leaves_kernel: bool) -> None:
        """End the application.

        Args:
            leaves_kernel: Whether the running cell continues without a screen.
        """
        self._forget_draft()
        self._app.leaves_kernel = leaves_kernel
        self._app.exit(0)

    def _quit_key(self) -> str:
        """Return the name of the key that leaves, as the footer shows it."""
        for active in self._app.active_bindings.values():
            if active.binding.id == "quit":
                return self._app.get_key_display(active.binding)
        return "The same key"

    def _cell_can_detach(self) -> bool:
        """Return whether a cell is running that can continue without a screen."""
        return cell_can_detach(self._session)

    def _items_at_risk(self) -> list[str]:
        """Return what leaving would lose, as noun phrases for a sentence."""
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
