"""The messages of a Jupyter kernel, whichever library carries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from mahtab_tui.kernel.base import KernelError

Channel = Literal["shell", "iopub", "stdin", "control"]
Message = Mapping[str, Any]
"""With ``header``, ``parent_header`` and ``content``, as the messaging protocol has them."""

OnMessage = Callable[[Channel, Message], None]


class NotConnected(KernelError):
    """The connection to the kernel is lost, and is tried again."""


class Wire(Protocol):
    """The way to one kernel. Any thread may call it."""

    label: str
    """For the header."""
    address: str
    """For ``--kernel``, without a token."""
    ours: bool
    """Whether we have started the kernel, and end it."""
    next_try: float
    """While the connection is lost and tried again: when, in seconds since the epoch; otherwise
    0."""

    def open(self, on_message: OnMessage) -> None:
        """Start the kernel, or join it, and begin to hand on what it sends. Raises
        `KernelError`."""

    @property
    def session(self) -> Any:
        """The library's session: `msg` makes messages, in whose headers is our `session`."""

    def send(self, channel: Channel, message: Mapping[str, Any]) -> None:
        """Send a message. Raises `NotConnected` if it can be sent later, `KernelError`."""

    def ended(self) -> str:
        """Why the kernel can no longer be reached, as a sentence; empty while it can, or may come
        back. It may ask a server."""

    def interrupt(self) -> None:
        """Interrupt it. Raises `KernelError`."""

    def restart(self) -> None:
        """Start it anew, with an empty namespace. Raises `KernelError`."""

    def close(self) -> None:
        """End the kernel if we have started it, and the connection."""
