"""How much memory checkpoints need."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Sequence

from .tables import Block

PATIENCE = 20
"""The pause between two measurements, in multiples of the time that one takes, so that measuring
costs little."""


class MemoryUse:
    """Measures the memory that checkpoints need in addition to the kernel, but not too often."""

    def __init__(self) -> None:
        self._next = 0.0
        self._faults = 0

    def due(self, limit: int) -> bool:
        """Return whether to measure again. Each page that is written after a fork causes a page
        fault, so many faults are a reason."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return (
            time.monotonic() > self._next
            or (faults - self._faults) * resource.getpagesize() > limit // 4
        )

    def measure(self, pids: Sequence[int]) -> int:
        """Return the bytes that exist only in these processes: those of all together, without the
        kernel's."""
        start = time.monotonic()
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        own = _rollup("self")
        total = (
            sum(_rollup(str(pid)).get("Pss_Anon", 0) for pid in pids)
            + own.get("Pss_Anon", 0)
            - own.get("Anonymous", 0)
        )
        self._next = time.monotonic() + PATIENCE * (time.monotonic() - start)
        return max(0, total)

    def forget(self) -> None:
        """Measure again soon, because much has changed."""
        self._next = 0.0


def private_bytes(pid: int) -> int:
    """Return the bytes that only this process has, which are freed when it ends."""
    return sum(size for name, size in _rollup(str(pid)).items() if name.startswith("Private_"))


def held_only(earlier: Iterable[frozenset[Block]], now: frozenset[Block]) -> int:
    """Return the bytes of arrays that existed earlier and are not used now."""
    held = frozenset().union(*earlier) - now
    return sum(block.size for block in held)


def _rollup(process: str) -> dict[str, int]:
    """Return the sums over all memory of a process, in bytes; empty if Linux does not tell."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            next(lines)
            fields = (line.split() for line in lines)
            return {
                words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1
            }
    except (OSError, StopIteration, ValueError):
        return {}
