"""The memory of arrays: which parts were written, and its state in a checkpoint.

`/proc/self/pagemap` shows which pages are still shared with a fork, so not written since. Reading
it is a hundred times faster than comparing."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, TypeVar

from ..values.objects import MISSING, as_library_type, get_if_loaded, is_subclass

T = TypeVar("T")

PAGE_BYTES = 4096
CHUNK_BYTES = 256 * 1024
"""Memory is read in pieces of this size, which fit into a processor's cache."""
_MADV_DONTNEED = 4
_PAGE_ENTRY_BYTES = 8
"""The size of a page's entry in `pagemap`. The highest byte has its flags."""
_UNWRITTEN_FLAGS = b"\x80\xa0\xa1"
"""Flags of pages that are shared with another process, or still those of a file, or of zeros."""
_UNTOUCHED_FLAGS = b"\0"
"""Flags of pages that were never used."""


class MemorySpan(NamedTuple):
    """A part of the memory, by its addresses."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def chunks(self) -> Iterator[MemorySpan]:
        """Yield the span in pieces of at most `CHUNK_BYTES`."""
        for start in range(self.start, self.end, CHUNK_BYTES):
            yield MemorySpan(start, min(start + CHUNK_BYTES, self.end))

    def digest(self) -> int:
        """Return a hash of the bytes, in this process."""
        chunk_hashes = []
        for chunk in self.chunks():
            data = (ctypes.c_char * chunk.size).from_address(chunk.start)
            chunk_hashes.append(hash(data.raw))
        return hash(tuple(chunk_hashes))


class UnreadableMemoryError(Exception):
    """The memory of another process cannot be read."""


def find_memory(value: object) -> MemorySpan | None:
    """Return the memory of an array of plain data that is not a view of another array."""
    if is_subclass(type(value), get_if_loaded("torch", "Tensor")):
        return tensor_memory(value)
    array_class = get_if_loaded("numpy", "ndarray")
    if array_class is MISSING or not is_subclass(type(value), array_class):
        return None

    base = array_class.base.__get__(value)
    is_view = is_subclass(type(base), array_class) or type(base) is bytes
    array = plain_array(value)
    if is_view or not array.size or array.dtype.hasobject:
        return None

    # With a negative stride, the first item is not the one at the lowest address.
    first_item = int(array.__array_interface__["data"][0])
    start = first_item
    end = first_item
    for length, stride in zip(array.shape, array.strides):
        start += min(0, stride) * (length - 1)
        end += max(0, stride) * (length - 1)
    return MemorySpan(start, end + array.itemsize)


def plain_array(value: object) -> Any:
    """View an array as numpy's own class, without code of a derived class."""
    array = get_if_loaded("numpy", "ndarray")
    if type(value) is array:
        return value
    return array.view(value, array)


def tensor_memory(tensor: object) -> MemorySpan | None:
    """Return the memory of a tensor; None if it is not the kernel's own."""
    plain = as_library_type(tensor)
    if str(plain.layout) != "torch.strided" or plain.device.type != "cpu":
        return None
    storage = plain.untyped_storage()
    start = storage.data_ptr()
    size = storage.nbytes()
    if size:
        return MemorySpan(start, start + size)
    return None


def _pages_without_flags(process: str, span: MemorySpan, flags: bytes) -> list[MemorySpan]:
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
        span for block in blocks for span in _pages_without_flags("self", block, _UNWRITTEN_FLAGS)
    ]


def _merge(spans: Iterable[MemorySpan]) -> list[MemorySpan]:
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


class _Interval(NamedTuple):
    """What was written between a checkpoint's fork and the next fork."""

    serial: int
    """The number of the checkpoint's step."""
    blocks: frozenset[MemorySpan]
    """The memory that was looked at."""
    written: list[MemorySpan]
    """The parts of it that were written."""


class DirtyPages:
    """Records which parts of arrays may have been written since each checkpoint was forked.

    Linux only knows what was written since the latest fork, so we look before every fork."""

    def __init__(self) -> None:
        self._intervals: list[_Interval] = []
        self._serial = 0
        """Serial number of the step whose checkpoint was forked last; 0 before the first."""
        self._blocks: frozenset[MemorySpan] = frozenset()
        """The memory of arrays when it was forked."""
        self._forks_checkpoint = False
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
        """
        blocks = list(blocks)
        intervals = [interval for interval in self._intervals if interval.serial >= serial]
        written_earlier = [span for interval in intervals for span in interval.written]
        written = _merge([*_written_since_fork(blocks), *written_earlier])
        spans_by_block: dict[MemorySpan, list[MemorySpan]] = {}
        for block in blocks:
            was_always_seen = all(block in interval.blocks for interval in intervals)
            spans_by_block[block] = _clip(written, block) if was_always_seen else [block]
        return spans_by_block

    def forget(self, oldest_serial: int) -> None:
        """Forget what only matters for steps before this one."""
        self._intervals = [
            interval for interval in self._intervals if interval.serial >= oldest_serial
        ]

    def _before_fork(self, further_blocks: frozenset[MemorySpan] = frozenset()) -> None:
        """Note what was written since the last fork.

        Args:
            further_blocks: New arrays.
        """
        if self._serial and not self._forks_checkpoint:
            blocks = self._blocks | further_blocks
            self._intervals.append(_Interval(self._serial, blocks, _written_since_fork(blocks)))


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class CheckpointMemory:
    """The memory of a forked process. Methods raise `UnreadableMemoryError`."""

    def __init__(self, pid: int) -> None:
        """
        Args:
            pid: The process.
        """
        self._pid = pid
        self._c = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK_BYTES)

    def touched(self, spans: Iterable[MemorySpan]) -> list[MemorySpan]:
        """Return the pages that either process ever touched; all others are zeros in both."""
        touched: list[MemorySpan] = []
        for span in spans:
            ours = _pages_without_flags("self", span, _UNTOUCHED_FLAGS)
            theirs = _pages_without_flags(str(self._pid), span, _UNTOUCHED_FLAGS)
            touched += _merge(ours + theirs)
        return touched

    def differs(self, span: MemorySpan) -> bool:
        """Return whether both processes have other bytes at the same addresses."""
        for chunk in span.chunks():
            self._read(chunk, ctypes.addressof(self._buffer))
            start = ctypes.c_void_p(chunk.start)
            size = ctypes.c_size_t(chunk.size)
            if self._c.memcmp(self._buffer, start, size):
                return True
        return False

    def copy(self, span: MemorySpan, target: int, *, drop: bool = False) -> None:
        """Copy the bytes of the other process to this one.

        Args:
            span: Where they are in the other process.
            target: The address where they go.
            drop: Whether to give up what is there now; faster, but a failure loses it.
        """
        if drop:
            self._drop_pages(MemorySpan(target, target + span.size))
        for chunk in span.chunks():
            self._read(chunk, target + chunk.start - span.start)

    def _drop_pages(self, span: MemorySpan) -> None:
        """Give the pages back that will be overwritten: Linux would copy each page that is shared
        with a checkpoint first, which takes four times as long."""
        start = -(-span.start // PAGE_BYTES) * PAGE_BYTES
        end = span.end // PAGE_BYTES * PAGE_BYTES
        if end - start >= CHUNK_BYTES:
            self._c.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)

    def _read(self, span: MemorySpan, target: int) -> None:
        ours = _IoVec(target, span.size)
        theirs = _IoVec(span.start, span.size)
        read_bytes = self._c.process_vm_readv(
            self._pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0
        )
        if read_bytes != span.size:
            raise UnreadableMemoryError(
                f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})"
            )
