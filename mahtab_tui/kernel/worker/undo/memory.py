"""The memory of arrays: which parts have changed since a fork, and their contents in the forked process.

Both processes have the same addresses. Linux tells which pages a process shares with nobody (bit 56 of `/proc/self/pagemap`): one that is still
shared with a forked process was not written since. This is a hundred times faster than comparing.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from .tables import Block

PAGE = 4096
CHUNK = 256 * 1024
"""Bytes that are compared or copied at a time; they fit into a processor's cache."""

_SHARED = b"\x80"
"""The highest byte of a page's entry: present, anonymous, shared."""
_NOT_SHARED = re.compile(rb"[^\x80]+")


class Span(NamedTuple):
    """Bytes from `start` up to `end`, by address."""

    start: int
    end: int


class Interval(NamedTuple):
    """The memory that was written between two forks."""

    seen: frozenset[Block]
    """The blocks that were examined."""
    written: list[Span]


class UnreadableMemoryError(Exception):
    """The memory of another process cannot be read."""


def written(blocks: Iterable[Block]) -> list[Span]:
    """Return the parts of blocks that may have been written since the last fork."""
    spans: list[Span] = []
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            for start, size in blocks:
                first, last = start // PAGE, -(-(start + size) // PAGE)
                pagemap.seek(first * 8)
                flags = pagemap.read((last - first) * 8)[7::8]
                if len(flags) < last - first:
                    spans.append(Span(start, start + size))
                elif flags.count(_SHARED) < len(flags):
                    for found in _NOT_SHARED.finditer(flags):
                        spans.append(Span(max(start, (first + found.start()) * PAGE), min(start + size, (first + found.end()) * PAGE)))
    except OSError:
        return [Span(start, start + size) for start, size in blocks]
    return spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sort spans, and merge those that overlap."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start <= result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def inside(spans: list[Span], block: Block) -> list[Span]:
    """Return the parts of sorted spans that lie in a block."""
    end = block.address + block.size
    return [Span(max(span.start, block.address), min(span.end, end)) for span in spans if span.start < end and span.end > block.address]


def since(intervals: list[Interval], blocks: Iterable[Block]) -> dict[Block, list[Span]]:
    """Return the parts of each block that may have been written in these intervals and since the last fork."""
    blocks = list(blocks)
    spans = merged([*written(blocks), *(span for interval in intervals for span in interval.written)])
    return {
        block: inside(spans, block) if all(block in interval.seen for interval in intervals) else [Span(block.address, block.address + block.size)]
        for block in blocks
    }


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class OtherProcess:
    """The memory of a forked process. Its methods raise `UnreadableMemoryError` if Linux does not allow it, or if the process has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._c: Any = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK)

    def differs(self, span: Span) -> bool:
        """Return whether a part of its memory differs from ours."""
        return any(self._differs(here, size) for here, size in _chunks(span))

    def copy(self, span: Span, to: int) -> None:
        """Copy a part of its memory to an address of ours."""
        for start, size in _chunks(span):
            self._read(start, to + start - span.start, size)

    def _differs(self, start: int, size: int) -> bool:
        self._read(start, ctypes.addressof(self._buffer), size)
        return bool(self._c.memcmp(self._buffer, ctypes.c_void_p(start), ctypes.c_size_t(size)))

    def _read(self, start: int, to: int, size: int) -> None:
        here, there = _Vector(to, size), _Vector(start, size)
        done = self._c.process_vm_readv(self._pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if done != size:
            raise UnreadableMemoryError(f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})")


def _chunks(span: Span) -> Iterable[tuple[int, int]]:
    for start in range(span.start, span.end, CHUNK):
        yield start, min(CHUNK, span.end - start)
