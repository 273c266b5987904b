"""The memory of arrays: which parts were written, and its state in a checkpoint.

`/proc/self/pagemap` shows which pages are still shared with a fork, so not written since. Reading it
is a hundred times faster than comparing."""

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
"""Fits into a processor's cache."""
_MADV_DONTNEED = 4
_UNWRITTEN = b"\x80\xa0\xa1"
"""Highest byte of a page's entry: shared with another process, or still of a file, or of zeros."""
_UNTOUCHED = b"\0"


class MemorySpan(NamedTuple):
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def chunks(self) -> Iterator[MemorySpan]:
        for start in range(self.start, self.end, CHUNK_BYTES):
            yield MemorySpan(start, min(start + CHUNK_BYTES, self.end))

    def digest(self) -> int:
        parts = ((ctypes.c_char * part.size).from_address(part.start) for part in self.chunks())
        return hash(tuple(hash(part.raw) for part in parts))


class UnreadableMemoryError(Exception):
    """The memory of another process cannot be read."""


def find_memory(value: object) -> MemorySpan | None:
    """Return the memory of an array of plain data that is no view of another array."""
    if is_subclass(type(value), get_if_loaded("torch", "Tensor")):
        return tensor_memory(value)
    array = get_if_loaded("numpy", "ndarray")
    if array is MISSING or not is_subclass(type(value), array):
        return None
    base = array.base.__get__(value)
    plain = plain_array(value)
    if is_subclass(type(base), array) or type(base) is bytes:
        return None
    if not plain.size or plain.dtype.hasobject:
        return None
    start = end = int(plain.__array_interface__["data"][0])
    for length, stride in zip(plain.shape, plain.strides):
        start += min(0, stride) * (length - 1)
        end += max(0, stride) * (length - 1)
    return MemorySpan(start, end + plain.itemsize)


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


def _matching_pages(process: str, span: MemorySpan, ignored: bytes) -> list[MemorySpan]:
    """Return the parts of a span whose pages' flags are none of these; all if flags are unknown."""
    first_page = span.start // PAGE_BYTES
    end_page = -(-span.end // PAGE_BYTES)
    try:
        with open(f"/proc/{process}/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(first_page * 8)
            flags = pagemap.read((end_page - first_page) * 8)[7::8]
    except OSError:
        return [span]
    if len(flags) < end_page - first_page:
        return [span]
    if not flags.strip(ignored):  # quicker, and most often so
        return []
    runs = re.finditer(b"[^" + re.escape(ignored) + b"]+", flags)
    pages = ((first_page + run.start(), first_page + run.end()) for run in runs)
    return [
        MemorySpan(max(span.start, start * PAGE_BYTES), min(span.end, end * PAGE_BYTES))
        for start, end in pages
    ]


def _written_since_fork(blocks: Iterable[MemorySpan]) -> list[MemorySpan]:
    return [span for block in blocks for span in _matching_pages("self", block, _UNWRITTEN)]


def _merge(spans: Iterable[MemorySpan]) -> list[MemorySpan]:
    result: list[MemorySpan] = []
    for span in sorted(spans):
        if result and span.start <= result[-1].end:
            result[-1] = MemorySpan(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def _clip(spans: list[MemorySpan], block: MemorySpan) -> list[MemorySpan]:
    inside = (span for span in spans if span.start < block.end and span.end > block.start)
    return [MemorySpan(max(span.start, block.start), min(span.end, block.end)) for span in inside]


class _Interval(NamedTuple):
    """Written between a checkpoint's fork and the next one."""

    serial: int
    seen: frozenset[MemorySpan]
    written: list[MemorySpan]


class DirtyPages:
    """Records which parts of arrays may have been written since each checkpoint was forked.

    Linux only knows what was written since the latest fork, so we look before every fork."""

    def __init__(self) -> None:
        self._intervals: list[_Interval] = []
        self._serial = 0
        self._blocks: frozenset[MemorySpan] = frozenset()
        self._own_fork = False
        note = weakref.WeakMethod(self._before_fork)
        os.register_at_fork(before=lambda: (method := note()) and method())

    def fork(self, serial: int, blocks: frozenset[MemorySpan], fork: Callable[[], T]) -> T:
        self._before_fork(blocks)
        self._own_fork = True
        try:
            checkpoint = fork()
        finally:
            self._own_fork = False
        self._serial = serial
        self._blocks = blocks
        return checkpoint

    def written_since(
        self, serial: int, blocks: Iterable[MemorySpan]
    ) -> dict[MemorySpan, list[MemorySpan]]:
        blocks = list(blocks)
        intervals = [interval for interval in self._intervals if interval.serial >= serial]
        spans = _merge(
            [
                *_written_since_fork(blocks),
                *(span for interval in intervals for span in interval.written),
            ]
        )
        return {
            block: _clip(spans, block)
            if all(block in interval.seen for interval in intervals)
            else [block]
            for block in blocks
        }

    def forget(self, oldest: int) -> None:
        self._intervals = [interval for interval in self._intervals if interval.serial >= oldest]

    def _before_fork(self, further_spans: frozenset[MemorySpan] = frozenset()) -> None:
        if self._serial and not self._own_fork:
            blocks = self._blocks | further_spans
            self._intervals.append(_Interval(self._serial, blocks, _written_since_fork(blocks)))


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class CheckpointMemory:
    """The memory of a forked process. Methods raise `UnreadableMemoryError`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._c = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK_BYTES)

    def touched(self, spans: Iterable[MemorySpan]) -> list[MemorySpan]:
        """Return the pages that either process ever touched; all others are zeros in both."""
        ours = "self"
        theirs = str(self._pid)
        return [
            part
            for span in spans
            for part in _merge(
                _matching_pages(ours, span, _UNTOUCHED) + _matching_pages(theirs, span, _UNTOUCHED)
            )
        ]

    def differs(self, span: MemorySpan) -> bool:
        for chunk in span.chunks():
            self._read(chunk, ctypes.addressof(self._buffer))
            start = ctypes.c_void_p(chunk.start)
            size = ctypes.c_size_t(chunk.size)
            if self._c.memcmp(self._buffer, start, size):
                return True
        return False

    def copy(self, span: MemorySpan, to: int, *, drop: bool = False) -> None:
        """Copy to an address of ours. drop: faster, but a failure loses what was there."""
        # Give the pages back that will be overwritten: Linux would copy each page that is shared
        # with a checkpoint first, which takes four times as long.
        first_page = -(-to // PAGE_BYTES) * PAGE_BYTES
        end_page = (to + span.size) // PAGE_BYTES * PAGE_BYTES
        if drop and end_page - first_page >= CHUNK_BYTES:
            self._c.madvise(
                ctypes.c_void_p(first_page), ctypes.c_size_t(end_page - first_page), _MADV_DONTNEED
            )
        for chunk in span.chunks():
            self._read(chunk, to + chunk.start - span.start)

    def _read(self, span: MemorySpan, to: int) -> None:
        ours = _IoVec(to, span.size)
        theirs = _IoVec(span.start, span.size)
        done = self._c.process_vm_readv(
            self._pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0
        )
        if done != span.size:
            raise UnreadableMemoryError(
                f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})"
            )
