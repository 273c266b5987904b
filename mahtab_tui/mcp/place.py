"""Where an agent's code runs: a worker of the server's own, or a person's session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from mahtab_tui.kernel.base import CellResult, Detail, KernelInfo, Variable

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
    edited: str = ""
    """The code that ran, where the person had changed it before; empty where it ran as it was."""
    declined: str = ""
    """Why the person did not let it run; empty where it ran."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What a place holds."""

    kernel: KernelInfo
    variables: list[Variable]
    cells: int
    """Cells that have run for this agent."""
    busy: float
    """Seconds that they took."""
    alive: float
    """Seconds since the worker was started."""
    others: list[str] = field(default_factory=list)
    """What others have run since this was last asked, a line for each cell."""


class Place(Protocol):
    """A namespace and the means to run code in it. All methods are called on the server's event loop, and raise `PlaceError`."""

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Done:
        """Run a cell. Cancelling this interrupts the cell."""

    async def reset(self, report: Report) -> tuple[int, int]:
        """An empty namespace in a new worker, of the same environment; the old worker's id and the new one's."""

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        """Go on with another interpreter, in another folder; None leaves either as it is."""

    async def permit(self, action: str, report: Report) -> None:
        """Raises `PlaceError` where the person does not allow an action on the environment; `action` is a line of text."""

    async def renewed(self) -> None:
        """Packages have changed: let the worker find what is new."""

    async def inside(self, *, seen: bool) -> Inside:
        """What it holds. seen: what others have run is told to the agent by this, and not again."""

    async def kernel(self) -> KernelInfo:
        """What it runs on; starts it where that has not happened."""

    async def inspect(self, name: str) -> Detail:
        """A look inside one variable."""

    async def close(self) -> None:
        """End it for good."""
