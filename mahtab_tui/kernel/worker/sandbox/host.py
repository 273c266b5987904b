"""The interface through which the sandbox's functions reach the engine."""

from __future__ import annotations

from typing import Any, Protocol


class CallFailed(Exception):
    """The engine refused a call; the message is a sentence for the author of the code."""


class Host(Protocol):
    """Any thread of the sandboxed code may call both methods."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallFailed`."""

    def tell(self, name: str, args: dict[str, Any]) -> None:
        """Send a message that has no answer."""
