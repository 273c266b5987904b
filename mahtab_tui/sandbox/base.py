"""What the engine asks of a sandbox, and a sandbox of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mahtab_tui.sandbox.text import Text

TurnStatus = Literal["ok", "error", "final", "interrupted", "timed out", "killed", "died"]
"""How a turn's code ended. After "killed" (by us, since an interrupt did not help) and "died" its variables are gone."""


class SandboxError(Exception):
    """There is no sandbox to be had; the message is a sentence that says why and what to do."""


class CallRefused(Exception):
    """The engine does not do what the code called for; the message becomes the code's exception."""


@dataclass(frozen=True)
class TurnResult:
    """What came of a turn's code."""

    status: TurnStatus
    output: str
    """What it printed, and its traceback: the ends of it where it is long."""
    chars: int
    """How many characters there were."""
    duration: float
    """Seconds, with the waiting for sub-calls."""


class SandboxHost(Protocol):
    """The node behind a sandbox. Both are called in the engine's loop, with what hostile code may have made up."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Do something for the code, which waits (several threads of it may). Returns a JSON value. Raises `CallRefused`."""

    def tell(self, name: str, args: dict[str, Any]) -> None:
        """Take note of something."""


class Sandbox(Protocol):
    """One node's Python. All methods belong to the engine's loop."""

    async def run(self, code: str, seconds: float) -> TurnResult:
        """Run a turn's code: one turn at a time; never raises for what the code does.

        seconds: own running time, without the waiting for sub-calls, after which it is interrupted, and a second later killed.
        Where the process is gone the next turn gets a new one, with the text and without variables.
        Cancelling the task kills the process at once.
        """

    def interrupt(self) -> None:
        """Stop what runs: SIGINT, and SIGKILL 0.3 s later where that did not help."""

    async def close(self) -> None:
        """Kill the process, if there is one, and free everything."""


class Sandboxes(Protocol):
    """Makes sandboxes; one object for an engine."""

    name: str
    """For `doctor`: "a process under Landlock and seccomp"."""
    gaps: str
    """What the model must know is missing from its Python; empty where nothing is."""

    async def start(self, text: Text, host: SandboxHost) -> Sandbox:
        """A new sandbox that holds a text. Raises `SandboxError`."""

    async def close(self) -> None:
        """End the processes that make sandboxes, and all sandboxes."""
