"""The interfaces between the engine of a search and its sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool
from mahtab_tui.worker.sandbox.functions import MAX_ANSWER_CHARS

TurnStatus = Literal["ok", "error", "final", "timed out", "killed", "died"]
"""How a turn's code ended. After "killed" (an interrupt did not stop it) and "died" its variables
are gone."""


class SandboxError(Exception):
    """No sandbox is available; the message is a sentence saying why and what to do."""


class CallRefusedError(Exception):
    """The engine refused a call; the message becomes the code's exception."""


@dataclass(frozen=True)
class TurnResult:
    status: TurnStatus
    output: str
    """Its output and its traceback; both ends if it is long."""
    chars: int
    duration: float
    """Seconds, waiting for sub-calls included."""


class SandboxHost(Protocol):
    """The node behind a sandbox. Both methods run in the engine's loop; arguments may be forged."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Return a JSON value to the code, which may call from several threads.

        Raises `CallRefusedError`.
        """

    def send(self, name: str, args: dict[str, Any]) -> None:
        """Handle a message that has no answer."""


class Sandbox(Protocol):
    """One node's Python. Call all methods in the engine's loop."""

    async def run(self, code: str, seconds: float) -> TurnResult:
        """Run a turn's code, one turn at a time.

        Args:
            seconds: Run time without sub-calls, after which the code is interrupted, and killed a
                second later. Cancelling kills the process.
        """

    async def close(self) -> None:
        """Kill the process and release everything."""


class Sandboxes(Protocol):
    """Makes sandboxes; one object for an engine."""

    name: str
    unsupported_features: str
    """Features that its Python lacks and the model must know; empty if none."""

    async def start(
        self,
        text: SearchedText,
        host: SandboxHost,
        max_answer_chars: int = MAX_ANSWER_CHARS,
        tools: Sequence[DescribedTool] = (),
    ) -> Sandbox:
        """Start a sandbox that holds a text.

        Args:
            text: What the code searches.
            host: Answers the calls of the code.
            max_answer_chars: Maximum characters of the answer.
            tools: Functions of the caller's that the code may call.

        Raises:
            SandboxError: It cannot be started.
        """

    async def close(self) -> None:
        """End all sandboxes and the processes that make them."""
