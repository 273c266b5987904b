"""The output of kernels on this machine that can outlive their screen, and how they are left.

`detached` makes both objects for each such kernel, whether it is new or was found again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.kernel.holder_connection import remove_files
from mahtab_tui.kernel.messages import KernelReady
from mahtab_tui.kernel.process_parts import RELEASE_SIZE
from mahtab_tui.worker.link.spool import PIECE_BYTES, Spool, format_omission


class SpooledOutput:
    """The `SeekableOutput` of a kernel on this machine.

    What the kernel writes to its pipe is moved to the spool, a file, from which a later screen can
    read it again.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.position = 0
        """The offset of the next byte to return."""

    def go_to(self, offset: int) -> None:
        """Continue at an offset, if it was not reached yet."""
        self.position = max(self.position, offset)

    def read(self, max_bytes: int = PIECE_BYTES) -> bytes | None:
        """Return the next output.

        Args:
            max_bytes: How much to return at most.

        Returns:
            Empty at the end of the output; None if there is nothing yet. In place of output that the
            spool has dropped, a note of how much it was.
        """
        # What is in the pipe is moved only when everything in the spool was read: a kernel that
        # prints faster than its screen reads then waits, and does not fill the disk.
        try:
            if self.position >= self._spool.size and self._spool.move() == 0:
                return b""
        except BlockingIOError:
            return None

        data = self._spool.read(self.position, max_bytes)
        if data:
            self.position += len(data)
            return data
        return self._skip_dropped_output()

    def available(self) -> Iterator[bytes]:
        """Yield what the kernel has printed up to now."""
        return self.until(self._spool.printed_size())

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the output before an offset."""
        while self.position < end:
            data = self.read(min(end - self.position, PIECE_BYTES))
            if not data:
                return
            yield data

    def release(self, offset: int) -> None:
        """Let the spool drop the output before an offset, once that is worth a system call."""
        if offset - self._spool.start >= RELEASE_SIZE:
            self._spool.release(offset)

    def _skip_dropped_output(self) -> bytes:
        """Go to the next byte that the spool still has, and return a note of what is missing."""
        start = self.position
        self.position = max(start, self._spool.next_byte(start))
        return format_omission(self.position - start)


class SpoolHandle:
    """The `DetachHandle` of a kernel on this machine."""

    def __init__(
        self,
        spool: Spool,
        lifeline: socket.socket,
        path: Path,
        *,
        ready: KernelReady | None = None,
        was_reattached: bool = False,
    ) -> None:
        """
        Args:
            spool: The kernel's output.
            lifeline: The connection with the holder, which keeps the kernel when it closes.
            path: The holder's socket.
            ready: The kernel's first message, if an earlier screen has received it.
            was_reattached: Whether the kernel has outlived an earlier screen.
        """
        self.lifeline = lifeline
        self.ready = ready
        self.was_reattached = was_reattached
        self._spool = spool
        self._path = path

    def leave(self) -> None:
        """Leave the kernel to its holder."""
        self._close()

    def ended(self) -> None:
        """Remove the holder's files, because the kernel has ended."""
        self._close()
        remove_files(self._path)

    def _close(self) -> None:
        self.lifeline.close()
        os.close(self._spool.file)
