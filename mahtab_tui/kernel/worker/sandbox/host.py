"""The interface through which the sandbox's functions reach the engine."""

from __future__ import annotations

from typing import Any, Protocol


class CallError(Exception):
    """The engine refused a call; the message is a sentence for the author of the code."""


class EngineHost(Protocol):
    """Any thread of the sandboxed code may call both methods."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallError`."""

    def tell(self, name: str, args: dict[str, Any]) -> None:
        """Send a message that has no answer."""
