"""A turn whose code runs, and the time that it takes."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.worker.link.frames import Frame

_CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """What a process has used so far."""

    cpu_seconds: float
    threads: int
    """How many threads it has now."""


def read_usage(pid: int) -> ProcessUsage | None:
    """Read what a process has used so far; None if that is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # The fields after the name start with the third; 14 and 15 are the times, 20 the threads.
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(ticks / _CLOCK_TICKS_PER_S, threads=int(fields[17]))


@dataclass
class RunningTurn:
    """A turn whose code runs. Times are in seconds, on the monotonic clock."""

    number: int
    max_seconds: float
    """Limit of its run time."""
    done: asyncio.Future[Frame | None]
    """The sandbox's report of the end; None if the process ended instead."""
    cpu_seconds: float
    """CPU time of the process when `advance` was last called."""
    start_time: float = field(default_factory=time.monotonic)
    last_time: float = field(default_factory=time.monotonic)
    """When `advance` was last called."""
    run_seconds: float = 0.0
    """How long it has run: elapsed time, but only CPU time while it waits for a call."""
    final: bool = False
    """Whether the answer has come; later messages are ignored."""
    timed_out: bool = False
    kill_reason: str = ""
    """Why it was killed; empty if it was not."""
    message_count: int = 0
    received_bytes: int = 0
    """Bytes of all messages of this turn."""

    def advance(self, usage: ProcessUsage | None, waits: bool) -> None:
        """Add the time since the last call of this method.

        Args:
            usage: What its process has used so far; None if that is unknown.
            waits: Whether a call was open.
        """
        now = time.monotonic()
        cpu_seconds = self.cpu_seconds
        if usage is not None:
            cpu_seconds = usage.cpu_seconds
        if waits:
            self.run_seconds += max(0.0, cpu_seconds - self.cpu_seconds)
        else:
            self.run_seconds += now - self.last_time
        self.last_time = now
        self.cpu_seconds = cpu_seconds
