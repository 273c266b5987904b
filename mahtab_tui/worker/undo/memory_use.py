"""How much memory the checkpoints of the undo history need."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence

MEASURE_INTERVAL_FACTOR = 20
"""The next measurement waits this many times as long as the last one took."""


class MemoryUse:
    """The memory that checkpoints need in addition to the kernel."""

    def __init__(self) -> None:
        self._next_measurement = 0.0
        """On the clock of `time.monotonic`, in seconds."""
        self._page_faults = 0
        """Page faults of this process when the memory was measured last."""

    def measure(self, pids: Sequence[int], max_bytes: int) -> int | None:
        """Measure the memory of checkpoints.

        Args:
            pids: Their processes.
            max_bytes: How much they may need.

        Returns:
            The bytes that exist only in these processes; None if measured a short time ago, unless
            page faults show many writes.
        """
        start = time.monotonic()
        page_faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        written_bytes = (page_faults - self._page_faults) * resource.getpagesize()
        if start < self._next_measurement and written_bytes < max_bytes // 4:
            return None

        own_sizes = read_memory_sizes("self")
        shared_own_bytes = own_sizes.get("Anonymous", 0) - own_sizes.get("Pss_Anon", 0)
        checkpoint_bytes = sum(read_memory_sizes(str(pid)).get("Pss_Anon", 0) for pid in pids)
        self._page_faults = page_faults
        duration_s = time.monotonic() - start
        self._next_measurement = time.monotonic() + MEASURE_INTERVAL_FACTOR * duration_s
        return max(0, checkpoint_bytes - shared_own_bytes)

    def reset(self) -> None:
        """Let the next call measure in any case."""
        self._next_measurement = 0.0


def private_bytes(pid: int) -> int:
    """Return the bytes of a process that it shares with no other."""
    sizes = read_memory_sizes(str(pid))
    return sum(size for name, size in sizes.items() if name.startswith("Private_"))


def read_memory_sizes(process: str) -> dict[str, int]:
    """Return the bytes of a process by the names in its `smaps_rollup`; empty if it has ended.

    Args:
        process: Its number, or "self".
    """
    sizes: dict[str, int] = {}
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            next(lines)  # the addresses
            for line in lines:
                words = line.split()
                if len(words) > 1:
                    sizes[words[0].rstrip(":")] = int(words[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return {}
    return sizes
