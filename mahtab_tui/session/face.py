"""What a session asks of the face it is shown by (full screen, or none)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Face(Protocol):
    """Called from threads of the session's, never from the face's own."""

    can_ask: bool
    """Whether somebody is there who sees questions on the bus and can answer them."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program until it ends; returns its exit code. Raises `RuntimeError` where there is no terminal."""

    def leave(self) -> None:
        """Code called `exit()`: leave. A question comes first where it was the model's code."""


class NoFace:
    """A session without a screen: no terminal to lend, nobody to ask."""

    can_ask = False

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        raise RuntimeError("This needs a terminal, and the session has no screen.")

    def leave(self) -> None:
        """The code that called `exit()` has ended; there is nothing to close."""
