"""What an editor asks about its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completions, Explanation
    from mahtab_tui.session.mentions import MentionChip


class InputHelp(Protocol):
    """What the editor asks about its text. Cursors are offsets in characters.

    Any thread may call these methods; all but `complete_command` wait, so the editor calls them
    on threads.
    """

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete code. Raises `KernelError`."""

    def complete_question(self, question: str, cursor: int) -> Completions:
        """Complete what a question mentions. Raises `KernelError`."""

    def complete_command(self, text: str, cursor: int) -> Completions | None:
        """Complete the name of a command; None if there is none at the cursor."""

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the name at the cursor. Raises `KernelError`."""

    def mention_chips(self, question: str) -> Sequence[MentionChip]:
        """Return what a question mentions, and how much of it there is."""
