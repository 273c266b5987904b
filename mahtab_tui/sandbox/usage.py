"""What a process has used up so far, by the system's account of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Of a whole process."""

    cpu: float
    """Seconds."""
    threads: int


def usage(pid: int) -> Usage | None:
    """What a process uses; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # After the name come the fields from the third on: 14 and 15 are the times, 20 the threads.
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[17]))


class RunningTime:
    """How long a turn has run by itself: the clock, but while it waits for a call only what it computes meanwhile."""

    def __init__(self, now: float, used: Usage | None) -> None:
        self.seconds = 0.0
        self._now = now
        self._cpu = used.cpu if used else 0.0

    def pass_to(self, now: float, used: Usage | None, waits: bool) -> None:
        """Account for the time since the last call of this. waits: whether a call was open."""
        cpu = used.cpu if used else self._cpu
        self.seconds += max(0.0, cpu - self._cpu) if waits else now - self._now
        self._now, self._cpu = now, cpu
