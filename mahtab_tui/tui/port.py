"""Interfaces that the panes use to reach the session, the editor and the screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mahtab_tui.session.inbox import Mode

if TYPE_CHECKING:
    from mahtab_tui.bus.conversation import Cell
    from mahtab_tui.tui.namespace.rows import Preview


class TranscriptPort(Protocol):
    """The transcript's interface."""

    def enter(self, mode: Mode, text: str) -> None:
        """Run code, or ask a question."""

    def edit(self, mode: Mode, text: str) -> None:
        """Put code or a question into the editor."""

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        """Let the user edit one of their entries, or a cell of the notebook; the new version
        replaces it."""

    def run_notebook_cell(self, number: int, code: str) -> None:
        """Run a cell of the notebook, with this code."""

    def run_up_to(self, number: int | None) -> None:
        """Run the notebook's cells up to a number, or all."""

    def mention(self, what: str) -> None:
        """Add a mention to the question being written."""

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model, or show it again."""

    def undo(self, cell: int) -> None:
        """Show what undoing a cell and those after it would do, and ask for confirmation."""

    def pin(self, entry: str, pinned: bool) -> None:
        """Pin an entry to the top of the transcript, or unpin it."""

    def open_output(self, cell: int) -> None:
        """Show the whole output of a cell."""

    def open_stored_output(self, number: int) -> None:
        """Show the whole stored output of a notebook cell."""

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        """Show pictures of a cell, given as types and base64 data."""

    def open_value(self, key: str) -> None:
        """Open the value of a table. key: identifies the value in the kernel."""

    def open_frames(self, cell: Cell, at: int) -> None:
        """Show the frames of a cell's error. at: the frame to select."""

    def find(self) -> None:
        """Open the transcript's search field."""


class NamespacePort(Protocol):
    """The namespace's interface."""

    def inspect_variable(self, name: str) -> None:
        """Inspect a variable."""

    def preview(self, name: str, height: int, width: int) -> Preview:
        """Fetch the start of a variable's value. Waits for the kernel; called on a thread."""

    def rebuild(self, name: str, why: str) -> None:
        """Put the cells that made a missing variable into the editor. why: a sentence that says why
        it is missing."""

    def mark_private(self, name: str, private: bool) -> None:
        """Mark a variable as private, so that no model gets its value, or remove the mark."""

    def run(self, code: str) -> None:
        """Run code as a cell of the user's, which appears in the transcript."""


class PanePort(TranscriptPort, NamespacePort, Protocol):
    """The interface of all panes."""
