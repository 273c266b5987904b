"""What a session calls of its user interface, and the interface of one without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Frontend(Protocol):
    """The user interface. Called from the session's threads, never from its own."""

    can_ask: bool
    """Whether a user can answer requests on the bus."""
    belongs_to_agent: bool
    """Whether the session is an agent's own: nobody watches it or asks a model in it, and the agent's
    code may end it."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program; returns its exit code.

        Raises `RuntimeError` if there is no terminal.
        """

    def leave(self) -> None:
        """Quit, because code called `exit()`."""


class HeadlessFrontend:
    """The frontend of a session without a screen."""

    can_ask = False
    belongs_to_agent = False

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        raise RuntimeError("This needs a terminal, and the session has no screen.")

    def leave(self) -> None:
        """Do nothing: there is no screen to close."""
