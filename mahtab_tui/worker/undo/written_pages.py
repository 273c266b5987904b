"""Which parts of the memory of arrays were written since a checkpoint was forked.

`/proc/self/pagemap` shows which pages are still shared with a fork, so not written since. Reading it is a
hundred times faster than comparing.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterable
from typing import Callable, NamedTuple, TypeVar

from .memory import MemorySpan

T = TypeVar("T")

PAGE_BYTES = 4096
_PAGE_ENTRY_BYTES = 8
"""The size of a page's entry in `pagemap`. The highest byte has its flags."""
_UNWRITTEN_FLAGS = b"\x80\xa0\xa1"
"""Flags of pages that are shared with another process, or still those of a file, or of zeros."""
UNTOUCHED_FLAGS = b"\0"
"""Flags of pages that were never used."""


class _Interval(NamedTuple):
    """What was written between two forks."""

    serial: int
    """The number of the step whose checkpoint was the last one to be forked before it."""
    blocks: frozenset[MemorySpan]
    """The memory that was looked at."""
    written: list[MemorySpan]
    """The parts of it that were written."""


class DirtyPages:
    """Records which parts of arrays may have been written since each checkpoint was forked.

    Linux only knows what was written since the latest fork, so we look before every fork, whoever forks.
    """

    def __init__(self) -> None:
        """Look before all forks of this process from now on."""
        self._intervals: list[_Interval] = []
        self._serial = 0
        """Serial number of the step whose checkpoint was forked last; 0 before the first."""
        self._blocks: frozenset[MemorySpan] = frozenset()
        """The memory of arrays when it was forked."""
        self._forks_checkpoint = False
        """Whether a checkpoint is being forked, before which we have looked."""
        # Weak, because a registered function stays until the process ends.
        before_fork = weakref.WeakMethod(self._before_fork)

        def note_fork() -> None:
            note = before_fork()
            if note is not None:
                note()

        os.register_at_fork(before=note_fork)

    def fork(self, serial: int, blocks: frozenset[MemorySpan], fork: Callable[[], T]) -> T:
        """Fork a checkpoint.

        Args:
            serial: The number of its step.
            blocks: The memory of arrays.
            fork: Forks it.

        Returns:
            What `fork` returns.
        """
        self._before_fork(blocks)
        self._forks_checkpoint = True
        try:
            checkpoint = fork()
        finally:
            self._forks_checkpoint = False
        self._serial = serial
        self._blocks = blocks
        return checkpoint

    def written_since(
        self, serial: int, blocks: Iterable[MemorySpan]
    ) -> dict[MemorySpan, list[MemorySpan]]:
        """Return the parts of blocks that may have been written since the checkpoint of a step.

        Args:
            serial: The number of the step.
            blocks: The memory of arrays.

        Returns:
            The parts by block; all of a block at which we have not looked before each fork.
        """
        blocks = list(blocks)
        intervals = [interval for interval in self._intervals if interval.serial >= serial]
        written_earlier = [span for interval in intervals for span in interval.written]
        written = merge_spans([*_written_since_fork(blocks), *written_earlier])
        spans_by_block: dict[MemorySpan, list[MemorySpan]] = {}
        for block in blocks:
            was_always_seen = all(block in interval.blocks for interval in intervals)
            spans_by_block[block] = _clip(written, block) if was_always_seen else [block]
        return spans_by_block

    def forget(self, oldest_serial: int) -> None:
        """Forget what only matters for steps before the one with this number."""
        self._intervals = [
            interval for interval in self._intervals if interval.serial >= oldest_serial
        ]

    def _before_fork(self, further_blocks: frozenset[MemorySpan] = frozenset()) -> None:
        """Note what was written since the last fork.

        Args:
            further_blocks: The memory of arrays that are new since.
        """
        if self._serial and not self._forks_checkpoint:
            blocks = self._blocks | further_blocks
            self._intervals.append(_Interval(self._serial, blocks, _written_since_fork(blocks)))


def pages_without_flags(process: str, span: MemorySpan, flags: bytes) -> list[MemorySpan]:
    """Return the parts of a span whose pages have none of these flags; all if that is unknown.

    Args:
        process: A process's number, or "self".
        span: Where to look.
        flags: Values of a page's highest byte.
    """
    first_page = span.start // PAGE_BYTES
    end_page = -(-span.end // PAGE_BYTES)
    page_count = end_page - first_page
    try:
        with open(f"/proc/{process}/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(first_page * _PAGE_ENTRY_BYTES)
            entries = pagemap.read(page_count * _PAGE_ENTRY_BYTES)
    except OSError:
        return [span]
    page_flags = entries[_PAGE_ENTRY_BYTES - 1 :: _PAGE_ENTRY_BYTES]
    if len(page_flags) < page_count:
        return [span]
    # Quicker than the search below, and most often enough.
    if not page_flags.strip(flags):
        return []

    parts = []
    for run in re.finditer(b"[^" + re.escape(flags) + b"]+", page_flags):
        run_start = (first_page + run.start()) * PAGE_BYTES
        run_end = (first_page + run.end()) * PAGE_BYTES
        parts.append(MemorySpan(max(span.start, run_start), min(span.end, run_end)))
    return parts


def _written_since_fork(blocks: Iterable[MemorySpan]) -> list[MemorySpan]:
    """Return the parts of the memory of arrays that were written since this process was forked
    last."""
    return [
        span for block in blocks for span in pages_without_flags("self", block, _UNWRITTEN_FLAGS)
    ]


def merge_spans(spans: Iterable[MemorySpan]) -> list[MemorySpan]:
    """Return the same memory as spans in order, of which no two touch each other."""
    merged: list[MemorySpan] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = MemorySpan(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _clip(spans: list[MemorySpan], block: MemorySpan) -> list[MemorySpan]:
    """Return the parts of spans that are in a block."""
    overlapping = (span for span in spans if span.start < block.end and span.end > block.start)
    return [
        MemorySpan(max(span.start, block.start), min(span.end, block.end)) for span in overlapping
    ]
