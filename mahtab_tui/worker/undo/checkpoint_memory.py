"""The memory of a checkpoint, as its parent, the kernel, reads it: to compare the numbers of arrays, and to
copy them back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from .memory import CHUNK_BYTES, MemorySpan
from .written_pages import PAGE_BYTES, UNTOUCHED_FLAGS, merge_spans, pages_without_flags

_MADV_DONTNEED = 4


class UnreadableMemoryError(Exception):
    """The memory of a checkpoint cannot be read, such as after its end."""


class _IoVec(ctypes.Structure):
    """`struct iovec` of the system: an address and a number of bytes."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class CheckpointMemory:
    """The memory of a forked process. Methods raise `UnreadableMemoryError`."""

    def __init__(self, pid: int) -> None:
        """Read the memory of a process.

        Args:
            pid: The process, which has allowed it (`forks.let_parent_read_memory`).
        """
        self._pid = pid
        self._c = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK_BYTES)

    def touched(self, spans: Iterable[MemorySpan]) -> list[MemorySpan]:
        """Return the pages of spans that either process ever touched; all others are zeros in both."""
        touched_spans: list[MemorySpan] = []
        for span in spans:
            ours = pages_without_flags("self", span, UNTOUCHED_FLAGS)
            theirs = pages_without_flags(str(self._pid), span, UNTOUCHED_FLAGS)
            touched_spans += merge_spans(ours + theirs)
        return touched_spans

    def differs(self, span: MemorySpan) -> bool:
        """Return whether the two processes have different bytes at these addresses."""
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
        """Copy a span of the other process to an address of this one."""
        ours = _IoVec(target, span.size)
        theirs = _IoVec(span.start, span.size)
        read_bytes = self._c.process_vm_readv(
            self._pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0
        )
        if read_bytes != span.size:
            raise UnreadableMemoryError(
                f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})"
            )
