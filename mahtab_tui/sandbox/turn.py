"""A running turn of a sandbox, and what its process uses."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.worker.frames import Frame
from mahtab_tui.sandbox.base import TurnStatus

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """CPU time and threads of a process."""

    cpu: float
    """Seconds."""
    threads: int


def usage(pid: int) -> ProcessUsage | None:
    """Read what a process has used so far; None if the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # The fields after the name start with the third: 14 and 15 are the times, 20 is the number of
    # threads.
    return ProcessUsage((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[17]))


class RunningTime:
    """How long a turn has run: elapsed time, but only CPU time while it waits for a call."""

    def __init__(self, now: float, used: ProcessUsage | None) -> None:
        self.seconds = 0.0
        self._now = now
        self._cpu = used.cpu if used else 0.0

    def pass_to(self, now: float, used: ProcessUsage | None, waits: bool) -> None:
        """Add the time since the last call of this method. waits: whether a call was open."""
        cpu = used.cpu if used else self._cpu
        self.seconds += max(0.0, cpu - self._cpu) if waits else now - self._now
        self._now, self._cpu = now, cpu


@dataclass
class RunningTurn:
    """A turn that runs in a process, and its counters."""

    number: int
    seconds: float
    """The limit of its run time."""
    done: asyncio.Future[Frame | None]
    """The sandbox's report of the end; None if the process ended instead."""
    clock: RunningTime
    begun: float = field(default_factory=time.monotonic)
    final: bool = False
    """Whether the answer has come; what comes after it is ignored."""
    stopped: TurnStatus | None = None
    """"interrupted" or "timed out" once it was told to end."""
    killed: str = ""
    """Why its process was killed."""
    messages: int = 0
    received: int = 0
    """Bytes."""

    @property
    def duration(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.begun
