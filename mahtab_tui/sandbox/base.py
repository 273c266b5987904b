"""The interfaces between the engine and its sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mahtab_tui.kernel.worker.sandbox.names import ANSWER_LIMIT
from mahtab_tui.kernel.worker.sandbox.tools import DescribedTool
from mahtab_tui.sandbox.text import Text

TurnStatus = Literal["ok", "error", "final", "interrupted", "timed out", "killed", "died"]
"""How a turn's code ended. After "killed" (by us, since an interrupt did not help) and "died" its
variables are gone."""


class SandboxError(Exception):
    """No sandbox is available; the message is a sentence saying why and what to do."""


class CallRefusedError(Exception):
    """The engine refused a call; the message becomes the code's exception."""


@dataclass(frozen=True)
class TurnResult:
    """The result of a turn's code."""

    status: TurnStatus
    output: str
    """Its output and its traceback; both ends if it is long."""
    chars: int
    """Length of the whole output."""
    duration: float
    """Seconds, waiting for sub-calls included."""


class SandboxHost(Protocol):
    """The node behind a sandbox. Both methods are called in the engine's loop with arguments that
    hostile code may have made up."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Handle a call that the code waits for, possibly in several threads. Returns a JSON value.
        Raises `CallRefusedError`."""

    def tell(self, name: str, args: dict[str, Any]) -> None:
        """Handle a message that has no answer."""


class Sandbox(Protocol):
    """One node's Python. Call all methods in the engine's loop."""

    async def run(self, code: str, seconds: float) -> TurnResult:
        """Run a turn's code, one turn at a time. Errors of the code are results, not exceptions.

        seconds: run time without waiting for sub-calls, after which the code is interrupted, and a
        second later killed. If the process is gone, the next turn gets a new one with the text and
        without variables. Cancelling the task kills the process at once.
        """

    def interrupt(self) -> None:
        """Stop the running code by SIGINT, and by SIGKILL after 0.3 s if it still runs."""

    async def close(self) -> None:
        """Kill the process and release everything."""


class Sandboxes(Protocol):
    """Makes sandboxes; one object for an engine."""

    name: str
    """For `doctor`: "a process under Landlock and seccomp"."""
    gaps: str
    """Features that its Python lacks and the model must know; empty if none."""

    async def start(
        self,
        text: Text,
        host: SandboxHost,
        longest_answer: int = ANSWER_LIMIT,
        tools: Sequence[DescribedTool] = (),
    ) -> Sandbox:
        """Start a sandbox that holds a text. longest_answer: in characters. tools: functions that
        the host answers. Raises `SandboxError`."""

    async def close(self) -> None:
        """End all sandboxes and the processes that make them."""
