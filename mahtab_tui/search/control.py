"""What a person can do to a search that runs, or has run."""

from __future__ import annotations

from collections.abc import Callable
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


class NoControl:
    """Where there is nothing to control, as in a recording: whoever tries is told so."""

    def __init__(self, tell: Callable[[str], None], why: str) -> None:
        self._tell = tell
        self._why = why

    def stop(self, tree: str, node: str) -> None:
        self._tell(self._why)

    def retry(self, tree: str, node: str, query: str | None = None) -> None:
        self._tell(self._why)

    def text(self, tree: str, start: int, end: int) -> str | None:
        return None

    def answer(self, request: str, run: bool) -> None:
        self._tell(self._why)
