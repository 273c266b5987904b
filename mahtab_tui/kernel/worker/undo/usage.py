"""How much memory checkpoints need."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Sequence

from .tables import Block

PATIENCE = 20
"""Times as long as measuring takes, until it is done again: it must cost little."""


class MemoryUse:
    """Measures what the kernel's forks need beside the kernel, not more often than is sensible."""

    def __init__(self) -> None:
        self._next = 0.0
        self._faults = 0

    def due(self, limit: int) -> bool:
        """Whether it should be measured again. Each page that is written after a fork is a fault of the kernel, so many faults are a reason."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return time.monotonic() > self._next or (faults - self._faults) * resource.getpagesize() > limit // 4

    def measure(self, pids: Sequence[int]) -> int:
        """Bytes that exist only in these processes. What all of the family has, less what the kernel itself has."""
        start = time.monotonic()
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        own = _rollup("self")
        total = sum(_rollup(str(pid)).get("Pss_Anon", 0) for pid in pids) + own.get("Pss_Anon", 0) - own.get("Anonymous", 0)
        self._next = time.monotonic() + PATIENCE * (time.monotonic() - start)
        return max(0, total)

    def forget(self) -> None:
        """Much has changed: measure again."""
        self._next = 0.0


def private_bytes(pid: int) -> int:
    """Bytes that only this process has: what its end gives back."""
    return sum(size for name, size in _rollup(str(pid)).items() if name.startswith("Private_"))


def held_only(earlier: Iterable[frozenset[Block]], now: frozenset[Block]) -> int:
    """Bytes of arrays that were there earlier and are not used now."""
    held = frozenset().union(*earlier) - now
    return sum(block.size for block in held)


def _rollup(process: str) -> dict[str, int]:
    """The sums over all of a process's memory, in bytes; empty where Linux does not tell them."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            next(lines)
            fields = (line.split() for line in lines)
            return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1}
    except (OSError, StopIteration, ValueError):
        return {}
