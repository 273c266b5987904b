"""The kernel process beside which there is a holder, as its host sees it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress

from mahtab_tui.kernel.held.held import Held
from mahtab_tui.kernel.held.waiting import Connections
from mahtab_tui.kernel.launch import LocalProcess
from mahtab_tui.kernel.reading import SpooledOutput
from mahtab_tui.kernel.worker.holding.spool import Spool

UNKNOWN_END = 0
"""The exit code of a kernel that another program has started: only that one is told."""


class HeldProcess:
    """A `launch.Process` that this host has started."""

    has_our_clock = True

    def __init__(self, process: LocalProcess, spool: Spool, held: Held) -> None:
        self._process = process
        self.channel, self.output, self.token = process.channel, process.output, process.token
        self.held = held
        self.reader = SpooledOutput(spool)
        self.signal, self.wait = process.signal, process.wait


class AttachedProcess:
    """A `launch.Process` that another host has started."""

    has_our_clock = True

    def __init__(self, connections: Connections) -> None:
        self.channel, self.output, self.token = connections.channel, connections.output, connections.token
        kernel = connections.kernel
        spool = Spool(connections.output, connections.spool)
        self.reader = SpooledOutput(spool)
        self.held = Held(spool, connections.lifeline, kernel.path, kernel)
        self._pid = kernel.pid
        self._watched = os.pidfd_open(kernel.pid)

    def signal(self, number: int) -> None:
        """Not sent once it has ended, as its number may be another's."""
        with suppress(ProcessLookupError):
            if number != signal.SIGKILL and select.select([self._watched], [], [], 0)[0]:
                return
            os.killpg(self._pid, number)

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._watched], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
        return UNKNOWN_END
