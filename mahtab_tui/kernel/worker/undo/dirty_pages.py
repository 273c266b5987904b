"""The memory of arrays: which parts have changed since a fork, and their contents in the forked
process.

Both processes have the same addresses. Linux tells which pages a process shares with nobody (bit 56
of `/proc/self/pagemap`): one that is still shared with a forked process was not written since. This
is a hundred times faster than comparing.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple

from .checkpoint import Checkpoint
from .tables import Block

PAGE = 4096
CHUNK = 256 * 1024
"""Bytes that are compared or copied at a time; they fit into a processor's cache."""

_MADV_DONTNEED = 4

_UNWRITTEN = b"\x80\xa0\xa1"
"""The highest bytes of a page's entry: present, anonymous, shared with another process; or still
the page of a file, or of zeros."""
_WRITTEN = re.compile(b"[^" + re.escape(_UNWRITTEN) + b"]+")
_TOUCHED = re.compile(rb"[^\0]+")


class Span(NamedTuple):
    """Bytes from `start` up to `end`, by address."""

    start: int
    end: int


class UnreadableMemoryError(Exception):
    """The memory of another process cannot be read."""


def written(blocks: Iterable[Block]) -> list[Span]:
    """Return the parts of blocks that may have been written since the last fork."""
    spans: list[Span] = []
    for start, size in blocks:
        pages = Span(start // PAGE, -(-(start + size) // PAGE))
        flags = _flags("self", pages)
        if len(flags) < pages.end - pages.start:
            spans.append(Span(start, start + size))
        elif flags.translate(None, _UNWRITTEN):
            for found in _WRITTEN.finditer(flags):
                first, last = pages.start + found.start(), pages.start + found.end()
                spans.append(Span(max(start, first * PAGE), min(start + size, last * PAGE)))
    return spans


def digest(block: Block) -> int:
    """Return a number that differs if the memory does, but for one chance in very many."""
    start, size = block
    parts = (
        (ctypes.c_char * (end - here)).from_address(here).raw
        for here, end in chunks(Span(start, start + size))
    )
    return hash(tuple(map(hash, parts)))


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
    return [
        Span(max(span.start, block.address), min(span.end, end))
        for span in spans
        if span.start < end and span.end > block.address
    ]


class _Interval(NamedTuple):
    """The memory that was written after a checkpoint was forked, and before something else was."""

    seen: frozenset[Block]
    """The blocks that were examined."""
    written: list[Span]


class DirtyPages:
    """Which parts of blocks may have been written since each checkpoint was forked.

    Linux tells only what was written since the last fork of all, whoever forked. Therefore it is
    asked before every fork.
    """

    def __init__(self) -> None:
        self._intervals: dict[int, list[_Interval]] = {}
        self._serial = 0
        self._blocks: frozenset[Block] = frozenset()
        self._own = False
        note = weakref.WeakMethod(self._note)
        os.register_at_fork(before=lambda: (method := note()) and method())

    def fork(
        self, serial: int, blocks: frozenset[Block], fork: Callable[[], Checkpoint]
    ) -> Checkpoint:
        """Fork the checkpoint of a step. blocks: those that there are."""
        self._note(blocks)
        self._own = True
        try:
            checkpoint = fork()
        finally:
            self._own = False
        self._serial, self._blocks = serial, blocks
        return checkpoint

    def since(self, serial: int, blocks: Iterable[Block]) -> dict[Block, list[Span]]:
        """Return the parts of each block that may have been written since the checkpoint of a step
        was forked."""
        blocks = list(blocks)
        intervals = [
            interval
            for each, found in self._intervals.items()
            if each >= serial
            for interval in found
        ]
        spans = merged(
            [*written(blocks), *(span for interval in intervals for span in interval.written)]
        )
        known = {block for block in blocks if all(block in interval.seen for interval in intervals)}
        return {
            block: inside(spans, block)
            if block in known
            else [Span(block.address, block.address + block.size)]
            for block in blocks
        }

    def forget(self, oldest: int) -> None:
        """Forget what was written before the checkpoint of this step."""
        self._intervals = {
            serial: found for serial, found in self._intervals.items() if serial >= oldest
        }

    def _note(self, more: frozenset[Block] = frozenset()) -> None:
        if self._serial and not self._own:
            blocks = self._blocks | more
            self._intervals.setdefault(self._serial, []).append(_Interval(blocks, written(blocks)))


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class OtherProcess:
    """The memory of a forked process. Its methods raise `UnreadableMemoryError` if Linux does not
    allow it, or if the process has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._c: Any = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK)

    def in_use(self, span: Span) -> list[Span]:
        """Return the pages that one of the two processes has ever touched. All others are the same,
        since memory begins with zeros."""
        pages = Span(span.start // PAGE, -(-span.end // PAGE))
        found = []
        for process in ("self", str(self._pid)):
            flags = _flags(process, pages)
            runs = (
                Span((pages.start + run.start()) * PAGE, (pages.start + run.end()) * PAGE)
                for run in _TOUCHED.finditer(flags)
            )
            found += (
                [span]
                if len(flags) < pages.end - pages.start
                else inside(list(runs), Block(span.start, span.end - span.start))
            )
        return merged(found)

    def differs(self, span: Span) -> bool:
        """Return whether a part of its memory differs from ours."""
        return any(self._differs(here.start, here.end - here.start) for here in chunks(span))

    def copy(self, span: Span, to: int, *, drop: bool = False) -> None:
        """Copy a part of its memory to an address of ours. drop: faster, but if it fails, what was
        there is lost."""
        if drop:
            self._drop(to, span.end - span.start)
        for here in chunks(span):
            self._read(here.start, to + here.start - span.start, here.end - here.start)

    def _drop(self, start: int, size: int) -> None:
        """Give the pages back that will be overwritten: Linux would copy each page that is shared
        with a checkpoint first, which takes four times as long."""
        first, last = -(-start // PAGE) * PAGE, (start + size) // PAGE * PAGE
        if last - first >= CHUNK:
            self._c.madvise(
                ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED
            )  # slower if that fails

    def _differs(self, start: int, size: int) -> bool:
        self._read(start, ctypes.addressof(self._buffer), size)
        return bool(self._c.memcmp(self._buffer, ctypes.c_void_p(start), ctypes.c_size_t(size)))

    def _read(self, start: int, to: int, size: int) -> None:
        here, there = _Vector(to, size), _Vector(start, size)
        done = self._c.process_vm_readv(self._pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if done != size:
            raise UnreadableMemoryError(
                f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})"
            )


def chunks(span: Span) -> Iterator[Span]:
    """Divide a span into parts of at most `CHUNK` bytes."""
    for start in range(span.start, span.end, CHUNK):
        yield Span(start, min(start + CHUNK, span.end))


def _flags(process: str, pages: Span) -> bytes:
    """Return the highest byte of each page's entry; fewer, if Linux does not tell."""
    try:
        with open(f"/proc/{process}/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(pages.start * 8)
            return pagemap.read((pages.end - pages.start) * 8)[7::8]
    except OSError:
        return b""
