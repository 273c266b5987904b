"""The interface to where an agent's code runs: the server's own worker, or the user's session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from mahtab_tui.kernel.base import KernelInfo
from mahtab_tui.kernel.code_help import Detail
from mahtab_tui.kernel.values import CellResult, Variable

Report = Callable[[float, str], Awaitable[None]]
"""Reports progress to the agent: seconds so far, and a sentence."""


class PlaceError(Exception):
    """A place cannot do what was asked; the message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a cell that has ended, or still runs after its timeout."""

    result: CellResult
    timed_out: bool = False
    running: bool = False
    """Whether it ignored its interrupt and still runs; the result has the output so far."""
    late: str = ""
    """Output between cells since the last one."""
    pictures: list[bytes] = field(default_factory=list)
    """PNG."""
    edited: str = ""
    """The code that ran, if the user had edited it; otherwise empty."""
    declined: str = ""
    """Why the user did not let it run; empty if it ran."""
    restores: bool = False
    """Whether saved variables come back if the worker has ended."""


@dataclass(frozen=True, slots=True)
class PlaceInfo:
    """What a place contains."""

    kernel: KernelInfo
    variables: list[Variable]
    cells: int
    """Cells run by this agent."""
    busy: float
    """Seconds that they took together."""
    alive: float
    """Seconds since the worker was started, or since the agent joined."""
    others: list[str] = field(default_factory=list)
    """Cells that others have run since the last request, a line each."""


class Place(Protocol):
    """A namespace in which code runs. All methods are called on the server's event loop, and raise `PlaceError`."""

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it."""

    async def reset(self, report: Report) -> tuple[int, int]:
        """Start a new worker in the same environment. Returns the process ids of the old worker and the new one."""

    async def undo(self, cell: int | None, report: Report) -> str:
        """Restore the namespace to before a cell; None: before what was run last. Returns a sentence."""

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        """Change interpreter and folder; None keeps the current one."""

    async def permit(self, action: str, report: Report) -> None:
        """Ask the user to allow an action on the environment, described in a line; raise `PlaceError` if they refuse."""

    async def renewed(self) -> None:
        """Make the worker notice that packages have changed."""

    async def contents(self, *, seen: bool) -> PlaceInfo:
        """Return what it contains. seen: whether to report the cells of others as seen, so that they are not listed again."""

    async def kernel(self) -> KernelInfo:
        """Return what it runs on; starts the worker if needed."""

    async def inspect(self, name: str) -> Detail:
        """Look inside one variable."""

    async def close(self) -> None:
        """End it."""
