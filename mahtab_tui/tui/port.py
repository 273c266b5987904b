"""What the panes ask of the session, the editor and the screens over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mahtab_tui.session.inbox import Mode

if TYPE_CHECKING:
    from mahtab_tui.tui.panes.transcript.entries import Cell


class TranscriptPort(Protocol):
    """What can be done to an entry beyond the transcript itself."""

    def enter(self, mode: Mode, text: str) -> None:
        """Run code, or ask a question."""

    def edit(self, mode: Mode, text: str) -> None:
        """Bring code or a question into the editor."""

    def replace(self, mode: Mode, text: str, entry: str) -> None:
        """Have an entry of the user's edited, to be entered in its own place."""

    def mention(self, what: str) -> None:
        """Have the question that is being written point at something."""

    def hide(self, entry: str, hidden: bool) -> None:
        """Tell the model of an entry no longer, or again."""

    def undo(self, cell: int) -> None:
        """Show what an undo of a cell and of those after it would do, and ask."""

    def pin(self, entry: str, pinned: bool) -> None:
        """Keep an entry at the top of the transcript, or no longer."""

    def open_output(self, cell: int) -> None:
        """Show all that a cell has printed."""

    def open_pictures(self, cell: int, pictures: Sequence[tuple[str, str]]) -> None:
        """Show pictures of a cell: their types and data (base64)."""

    def open_frames(self, cell: Cell, at: int) -> None:
        """Show where the error of a cell was; at: the frame to begin with."""

    def find(self) -> None:
        """Open the line to search the transcript with."""


class NamespacePort(Protocol):
    """What can be done to a variable."""

    def look_inside(self, name: str) -> None:
        """Open the inspector."""

    def run(self, code: str) -> None:
        """Run code as a cell of the user's, so that it is seen where all else is."""


class PanePort(TranscriptPort, NamespacePort, Protocol):
    """What the panes ask for, taken together."""
