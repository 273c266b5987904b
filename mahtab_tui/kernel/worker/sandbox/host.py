"""What the names of a sandbox ask of the process that they live in."""

from __future__ import annotations

from typing import Any, Protocol


class CallFailed(Exception):
    """The engine refused a call; the message is a sentence for the one who wrote the code."""


class Host(Protocol):
    """Any thread of the sandboxed code may call both."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallFailed`."""

    def tell(self, name: str, args: dict[str, Any]) -> None:
        """Send a message that has no answer."""
