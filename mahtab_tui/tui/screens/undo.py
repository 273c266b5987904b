"""The screen that shows what undoing cells would change, and undoes them after a yes.

The kernel compares the present with the state before the cells. Until it has, there is nothing to answer
with but no.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.restorations import outside_note, undo_question
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.screens.dialog import Confirm
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session


class UndoScreen(Confirm):
    """Shows what undoing cells would change, and asks whether to do it."""

    def __init__(self, cells: Sequence[int], session: Session) -> None:
        """
        Args:
            cells: The cells to undo, in order; empty for what ran last, which the kernel knows.
            session: The session of these cells.
        """
        self._changes = Static("Comparing with the state before …", id="undo-changes", markup=False)
        details = VerticalScroll(self._changes, can_focus=False)
        super().__init__(undo_question(cells), yes="Undo", no="Keep", details=details)
        self._yes.disabled = True
        self._cells = cells
        self._session = session
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        if self._cells:
            self._ask_for_preview(self._cells)
        else:
            # On a thread, because a busy kernel answers late.
            self._fetcher.run("undo", self._last_cells, self._ask_for_preview, self._give_up)

    def _last_cells(self) -> Sequence[int]:
        """Return the cells that ran last. Called on a thread. Raises `KernelError`."""
        undo = self._session.undo
        return undo.cells_from(undo.last_step())

    def _give_up(self, sentence: str) -> None:
        """Close, because nothing can be undone."""
        self.action_leave()
        self.app.notify(sentence)

    def _ask_for_preview(self, cells: Sequence[int]) -> None:
        """Ask the kernel what undoing cells would change."""
        self._cells = cells
        self.query_one("#question", Static).update(undo_question(cells))
        preview = partial(self._session.kernel.preview_undo, cells[0])
        self._fetcher.run("undo", preview, self._show_preview, self._show_failure)

    def _show_preview(self, restoration: Restoration) -> None:
        """Show what would change, and let the user say yes."""
        lines = change_lines(restoration.changes, restoration.not_restored, restoration.files)
        outside = Content.styled(outside_note(restoration), "$muted")
        self._changes.update(Content("\n").join([*lines, Content(""), outside]))
        self._yes.disabled = False

    def _show_failure(self, sentence: str) -> None:
        """Say why the kernel could not compare, or not undo."""
        self._changes.update(Content.styled(one_line(sentence), "$bad"))
        self._yes.disabled = True

    def action_answer(self, yes: bool) -> None:
        if not yes:
            self.action_leave()
        elif not self._yes.disabled:
            self._undo()

    def _undo(self) -> None:
        """Undo the cells, and close."""
        self._yes.disabled = True
        self._changes.update("Undoing …")
        undo = partial(self._session.undo.undo, self._cells[0])
        self._fetcher.run("undo", undo, lambda _: self.action_leave(), self._show_failure)
