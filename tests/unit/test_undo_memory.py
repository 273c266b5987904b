"""The memory of arrays is put back from a forked process, whole or not at all."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mahtab_tui.worker.undo.graph import Graph, Kinds
from mahtab_tui.worker.undo.memory import PAGE, UnreadableMemoryError, find_memory
from mahtab_tui.worker.undo.restoring import Copy, Plan

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/pagemap"),
    reason="only Linux tells what another process's memory holds",
)
SIZE = 1_000_003
Forked = Callable[..., Any]


@pytest.fixture
def forked() -> Iterator[Forked]:
    """Makes processes that stay as this one is, but for memory that they give back."""
    pids: list[int] = []

    def fork(without: mmap.mmap | None = None) -> Any:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            if without is not None:
                without.close()
            os.close(write_end)
            signal.pause()
        os.close(write_end)
        os.read(read_end, 1)
        os.close(read_end)
        pids.append(pid)
        return SimpleNamespace(pid=pid)

    yield fork
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def filled(byte: bytes) -> Any:
    return ctypes.create_string_buffer(byte * SIZE, SIZE)


def plan_of(*arrays: Any) -> Plan:
    """Put back all of the arrays' memory."""
    plan = Plan({}, Graph(Kinds({})))
    plan.copies = [
        Copy(array, memory, [memory])
        for array in arrays
        if (memory := find_memory(array)) is not None
    ]
    return plan


def test_memory_is_restored_to_the_last_byte(forked: Forked) -> None:
    """Also where it does not begin at a page."""
    guarded = ctypes.create_string_buffer(SIZE + 2 * PAGE)
    inside = (ctypes.c_char * SIZE).from_buffer(guarded, 17)
    inside.raw = b"a" * SIZE
    then = forked()
    guarded.raw = b"+" * len(guarded)
    plan_of(inside).apply({}, then, forked())
    assert inside.raw == b"a" * SIZE
    assert set(guarded.raw[:17] + guarded.raw[17 + SIZE :]) == {ord("+")}


def test_unreadable_part_leaves_everything_unchanged(forked: Forked) -> None:
    first = filled(b"a")
    room = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    then = forked(without=room)
    lost = (ctypes.c_char * SIZE).from_buffer(room)
    last = filled(b"c")
    first.raw, lost.raw = b"b" * SIZE, b"l" * SIZE
    with pytest.raises(UnreadableMemoryError):
        plan_of(first, lost, last).apply({}, then, forked())
    assert (first.raw, lost.raw, last.raw) == (b"b" * SIZE, b"l" * SIZE, b"c" * SIZE)


def test_unreadable_memory_stays_even_if_it_cannot_be_rolled_back(forked: Forked) -> None:
    """No further process could be forked, so that nothing that was put back can be taken back."""
    room = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    then = forked(without=room)
    lost = (ctypes.c_char * SIZE).from_buffer(room)
    lost.raw = b"l" * SIZE
    with pytest.raises(UnreadableMemoryError):
        plan_of(lost).apply({}, then, None)
    assert lost.raw == b"l" * SIZE
