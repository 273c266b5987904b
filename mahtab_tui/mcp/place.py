"""Where an agent's code runs: a worker of the server's own, or a person's session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from mahtab_tui.kernel.base import CellResult

Report = Callable[[float, str], Awaitable[None]]
"""Tells the agent that its call goes on: seconds so far, and a sentence."""


class PlaceError(Exception):
    """It cannot be done here; the message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class Done:
    """A cell that has ended, or was left to itself."""

    result: CellResult
    worker: int
    """Process id."""
    timed_out: bool = False
    running: bool = False
    """It did not react to its interrupt and goes on; the result holds what was printed so far."""
    late: str = ""
    """What was printed between cells since the last one."""
    pictures: list[bytes] = field(default_factory=list)
    """PNG."""


class Place(Protocol):
    """A namespace and the means to run code in it. All methods are called on the server's event loop."""

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Done:
        """Run a cell. Cancelling this interrupts the cell. Raises `PlaceError`."""

    async def close(self) -> None:
        """End it for good."""
