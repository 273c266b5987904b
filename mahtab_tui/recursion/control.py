"""What a person can do to a search that runs, or has run."""

from __future__ import annotations

from typing import Protocol


class Control(Protocol):
    """Methods may be called from any thread, and return at once. Trees and nodes are named as in the events; unknown ones do nothing."""

    def stop(self, tree: str, node: str) -> None:
        """Stop a node: its code, its model calls and its descendants. Its siblings go on; its parent gets a marked value."""

    def retry(self, tree: str, node: str, query: str | None = None) -> None:
        """Run a node again, with another query where one is given.

        Its answer reaches the parent where that still waits, and is else kept beside the old one.
        """

    def text(self, tree: str, start: int, end: int) -> str | None:
        """A part of the root's text; None where it is not held any more."""

    def answer(self, request: str, run: bool) -> None:
        """Answer the question before a large fan-out."""
