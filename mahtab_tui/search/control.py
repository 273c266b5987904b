"""Actions of the user on a search that runs or has ended."""

from __future__ import annotations

from typing import Protocol


class SearchControl(Protocol):
    """Methods may be called from any thread and return at once. Trees and nodes have the ids of the
    events; unknown ids are ignored."""

    def stop(self, tree: str, node: str) -> None:
        """Stop a node: its code, its model calls and its descendants. Siblings go on; the parent
        gets a value marked as failed."""

    def retry(self, tree: str, node: str, query: str | None = None) -> None:
        """Run a node again, perhaps with another query. If its parent no longer waits, the new
        answer is kept beside the old one."""

    def make_variable(self, answer: str) -> None:
        """Make an answer a variable of the namespace, by a cell of the user's."""

    def text(self, tree: str, start: int, end: int) -> str | None:
        """Return a part of the root's text, or None if it is no longer in memory."""

    def answer(self, request: str, run: bool) -> None:
        """Answer the question before a large fan-out."""
