"""A kernel's process that an earlier screen started."""

from __future__ import annotations

import os
import subprocess

from mahtab_tui.worker.link.descriptors import is_readable


class ForeignProcess:
    """A process that another program started, which alone learns its exit code.

    It has the methods of `subprocess.Popen` that a kernel needs.
    """

    def __init__(self, pid: int) -> None:
        """Watch a process. Raises `ProcessLookupError` if it has ended."""
        self.pid = pid
        self._pid_descriptor = os.pidfd_open(pid)
        """Readable once the process has ended; the number may mean another process then."""

    def poll(self) -> int | None:
        """Return 0 if it has ended, whatever its exit code was; None otherwise."""
        if is_readable(self._pid_descriptor):
            return 0
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return 0.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            subprocess.TimeoutExpired: It runs longer.
        """
        if not is_readable(self._pid_descriptor, timeout):
            raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
        return 0
