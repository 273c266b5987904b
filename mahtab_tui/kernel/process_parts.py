"""The interface of a kernel's process, wherever it runs: its channel, its output, its signals, and
how it can outlive its screen."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mahtab_tui.kernel.messages import KernelReady

RELEASE_SIZE = 2**20
"""The file of stored output is shortened when it has this many bytes."""


class Output(Protocol):
    """What a kernel prints. `read` is called when its pipe is readable."""

    def read(self) -> bytes | None:
        """Return the next bytes; empty at the end, None if there are none now."""

    def available(self) -> Iterator[bytes]:
        """Yield what has been printed when this is called; a thread may go on printing for ever."""


class SeekableOutput(Output, Protocol):
    """Output that another host can read again. Offsets count bytes."""

    @property
    def position(self) -> int:
        """The offset of what is read next."""

    def go_to(self, offset: int) -> None:
        """Read from this offset on."""

    def until(self, end: int) -> Iterator[bytes]:
        """Yield what was printed before the offset `end`."""

    def release(self, offset: int) -> None:
        """Note that output before an offset is stored and no longer needed."""


class DetachHandle(Protocol):
    """Lets a process outlive its screen."""

    lifeline: socket.socket
    """Gets a byte if another host attaches to the process."""
    was_reattached: bool
    """Whether the process has outlived an earlier screen."""
    ready: KernelReady | None
    """The kernel's first message, if an earlier host has received it."""

    def leave(self) -> None:
        """Detach the process."""

    def ended(self) -> None:
        """Remove the files by which the process could be found, because it has ended."""


class Process(Protocol):
    """A kernel's process, on this machine or another one."""

    channel: socket.socket
    """The channel for frames in both directions."""
    output: int
    """The descriptor of the pipe for its output."""
    reader: Output
    """Reads that pipe."""
    token: bytes
    """Part of each frame that it sends, unknown to user code."""
    shares_clock: bool
    """Whether its monotonic clock is ours."""
    detach_handle: DetachHandle | None
    """None if it cannot outlive its screen."""

    def signal(self, number: int) -> None:
        """Send a signal to the process and its child processes."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""


class OwnedProcess(Protocol):
    """The part of `subprocess.Popen` that a local process needs."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...
