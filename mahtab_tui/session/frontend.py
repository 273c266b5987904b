"""The interface between a session and what displays it (a full screen, or nothing)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Frontend(Protocol):
    """Called from the session's threads, never from the face's own."""

    can_ask: bool
    """Whether a user sees the questions on the bus and can answer them."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program until it ends; returns its exit code. Raises
        `RuntimeError` if there is no terminal."""

    def leave(self) -> None:
        """Leave, because code called `exit()`. Confirm first if it was the model's code."""


class HeadlessFrontend:
    """A session without a screen: no terminal to lend, nobody to ask."""

    can_ask = False

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        raise RuntimeError("This needs a terminal, and the session has no screen.")

    def leave(self) -> None:
        """Do nothing: there is no screen to close."""
