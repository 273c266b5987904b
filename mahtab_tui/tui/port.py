"""Interfaces of the panes to the session, the editor and the screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mahtab_tui.session.inbox import Mode

if TYPE_CHECKING:
    from mahtab_tui.tui.namespace.rows import Preview
    from mahtab_tui.tui.transcript.entries import Cell


class TranscriptPort(Protocol):
    """Interface of the transcript."""

    def enter(self, mode: Mode, text: str) -> None:
        """Run code, or ask a question."""

    def edit(self, mode: Mode, text: str) -> None:
        """Bring code or a question into the editor."""

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        """Let the user edit one of their entries or a cell of the notebook, which replaces it when
        entered."""

    def run_notebook_cell(self, number: int, code: str) -> None:
        """Run a cell of the notebook with this code."""

    def run_up_to(self, number: int | None) -> None:
        """Run the cells of the notebook up to a place, or all."""

    def mention(self, what: str) -> None:
        """Mention something in the question that is being written."""

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model, or show it again."""

    def undo(self, cell: int) -> None:
        """Show what an undo of a cell and of those after it would do, and ask."""

    def pin(self, entry: str, pinned: bool) -> None:
        """Pin an entry at the top of the transcript, or unpin it."""

    def open_output(self, cell: int) -> None:
        """Show all output of a cell."""

    def open_stored_output(self, number: int) -> None:
        """Show all output that a cell of the notebook has in the file."""

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        """Show pictures of a cell: their types and data (base64)."""

    def open_value(self, key: str) -> None:
        """Look inside the value of a table. key: with which the kernel opens it."""

    def open_frames(self, cell: Cell, at: int) -> None:
        """Show the frames of a cell's error. at: the first frame to show."""

    def find(self) -> None:
        """Open the line that searches the transcript."""


class NamespacePort(Protocol):
    """Interface of the namespace."""

    def inspect_variable(self, name: str) -> None:
        """Inspect a variable."""

    def preview(self, name: str, height: int, width: int) -> Preview:
        """Fetch the beginning of a variable's value; waits for the kernel, so it is called on a
        thread."""

    def rebuild(self, name: str, why: str) -> None:
        """Bring the cells into the editor that made a variable which is not there. why: a sentence
        that says why it is not."""

    def mark_private(self, name: str, private: bool) -> None:
        """Mark a variable as private, so that no model gets its value, or take the mark
        away."""

    def run(self, code: str) -> None:
        """Run code as a cell of the user's, so that it appears in the transcript."""


class PanePort(TranscriptPort, NamespacePort, Protocol):
    """Interface of all panes."""
