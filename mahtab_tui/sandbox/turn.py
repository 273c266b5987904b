"""A turn while it runs, and what is counted of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from mahtab_tui.kernel.worker.frames import Frame
from mahtab_tui.sandbox.base import TurnStatus
from mahtab_tui.sandbox.usage import RunningTime


@dataclass
class Turn:
    """One run of code in one process."""

    number: int
    seconds: float
    """The limit of its own running time."""
    done: asyncio.Future[Frame | None]
    """What the sandbox says of its end; None where the process ended instead."""
    clock: RunningTime
    begun: float = field(default_factory=time.monotonic)
    final: bool = False
    """The answer has come; nothing after it counts."""
    stopped: TurnStatus | None = None
    """"interrupted" or "timed out": it was told to end."""
    killed: str = ""
    """Why its process was killed, in words."""
    messages: int = 0
    received: int = 0
    """Bytes."""

    @property
    def duration(self) -> float:
        """Seconds since its beginning."""
        return time.monotonic() - self.begun
