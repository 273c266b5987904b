"""The first cell that an undo of an entry undoes; the memory of arrays."""

from __future__ import annotations

import io
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Question
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.transcript.fold import Transcript
from mahtab_tui.worker.undo.checkpoint_memory import UnreadableMemoryError
from mahtab_tui.worker.undo.graph import Graph, Limits
from mahtab_tui.worker.undo.kinds import Kinds
from mahtab_tui.worker.undo.libraries import add_snapshots, take_library_snapshot
from mahtab_tui.worker.undo.memory import find_memory
from mahtab_tui.worker.undo.plan import MemoryCopy, Plan
from mahtab_tui.worker.undo.written_pages import PAGE_BYTES
from mahtab_tui.worker.values.objects import address_of
from tests import tags
from tests.records import made

BEGINS = {
    "mine = 1": 1,
    "first": 2,
    "Look.": 2,
    "a = 1": 2,
    "And:": 2,
    "b = 2": 5,
    "c = 3": 3,
    "d = 4": 4,
    "Done.": 2,
    "second": None,
    "Nothing to run.": None,
    "e = 5": 6,
}

SIZE = 1_000_003


def conversation() -> Iterator[Record]:
    """Yield a question with cells 2 and 5, among cells of an agent and the user; one without
    cells; and a cell of the user."""

    def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
        return made(tag, text, attrs, 1.0)

    yield record(tags.USER_REPL_IN, "mine = 1", cell=1, party="you")
    yield record(tags.USER_CHAT, "first", turn=1)
    turn = {"turn": 1, "step": 0, "party": "claude"}
    yield record(
        tags.ASSISTANT_CHAT,
        "Look.\n\n```python\na = 1\n```\n\nAnd:\n\n```python\nb = 2\n```\n",
        **turn,
        stopped=False,
    )
    yield record(tags.ASSISTANT_REPL_IN, "a = 1", cell=2, **turn, block=0)
    yield record(tags.ASSISTANT_REPL_IN, "c = 3", cell=3, party="codex", guest=0, call="c1")
    yield record(tags.USER_REPL_IN, "d = 4", cell=4, party="you")
    yield record(tags.ASSISTANT_REPL_IN, "b = 2", cell=5, **turn, block=1)
    yield record(tags.ASSISTANT_CHAT, "Done.", turn=1, step=1, party="claude", stopped=False)
    yield record(tags.USER_CHAT, "second", turn=2)
    yield record(
        tags.ASSISTANT_CHAT, "Nothing to run.", turn=2, step=0, party="claude", stopped=False
    )
    yield record(tags.USER_REPL_IN, "e = 5", cell=6, party="you")


def text(entry: Entry) -> str:
    if isinstance(entry, Cell):
        return entry.code
    return entry.text if isinstance(entry, Question) else getattr(entry, "source", "").strip()


def begins(transcript: Transcript, entry: Entry) -> int | None:
    cell = transcript.cell_to_undo(entry)
    return None if cell is None else cell.number


def test_answer_entry_undoes_the_whole_answer_and_a_cell_itself() -> None:
    transcript = Transcript(0.0)
    transcript.fold(list(conversation()))
    assert {text(entry): begins(transcript, entry) for entry in transcript.entries} == BEGINS


@pytest.mark.parametrize(("undone", "first_cell"), [((2,), 5), ((2, 3, 4, 5), 2)])
def test_partly_undone_answer_starts_with_the_rest(
    undone: tuple[int, ...], first_cell: int
) -> None:
    transcript = Transcript(0.0)
    transcript.fold(
        [*conversation(), made(tags.USER_UNDO, "Undone.", {"cells": undone, "undone": True}, 1.0)]
    )
    entry = next(
        entry
        for entry in transcript.entries
        if isinstance(entry, AnswerText) and text(entry) == "Done."
    )
    assert begins(transcript, entry) == first_cell
    assert begins(transcript, transcript.entries[-1]) is None, "a notice belongs to no cell"


def test_notebook_text_belongs_to_no_answer() -> None:
    title = made(tags.NOTEBOOK_CELL, "# Title", {"position": 1, "kind": "markdown"}, 1.0)
    attrs = {"cell": 7, "turn": 2, "step": 1, "party": "claude"}
    transcript = Transcript(0.0)
    transcript.fold([*conversation(), title])
    transcript.fold([made(tags.ASSISTANT_REPL_IN, "f = 6", attrs, 1.0)])
    words = next(entry for entry in transcript.entries if entry.key == "place 1")
    assert transcript.cell_to_undo(words) is None


@pytest.mark.parametrize(
    "file",
    [io.BytesIO(b"a" * SIZE), io.StringIO("a" * SIZE), io.BytesIO(bytearray(SIZE))],
    ids=["shared bytes", "text", "own bytes"],
)
@pytest.mark.parametrize("position", [0, 7, SIZE, 10**9])
def test_large_file_in_memory_is_not_read_wherever_its_position_is(
    file: io.BytesIO | io.StringIO, position: int
) -> None:
    file.seek(position)
    assert not is_read(file)
    assert file.tell() == position


@pytest.mark.parametrize("file", [io.BytesIO(b"a"), io.StringIO("a")], ids=["bytes", "text"])
def test_small_file_in_memory_is_read_wherever_its_position_is(
    file: io.BytesIO | io.StringIO,
) -> None:
    file.seek(10**9)
    assert is_read(file)
    assert file.tell() == 10**9


def is_read(value: object) -> bool:
    """Return whether the state of an object is read within the limits."""
    graph = Graph(Kinds({}))
    graph.add([value], limits=Limits(work=1_000, size=1_000))
    return graph.nodes[address_of(value)].is_complete


on_linux = pytest.mark.skipif(
    not os.path.exists("/proc/self/pagemap"),
    reason="only Linux lets us read another process's memory",
)
Forked = Callable[..., Any]


@pytest.fixture
def forked() -> Iterator[Forked]:
    """Fork a process that has a copy of this one's memory."""
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


def array(buffer: bytearray | mmap.mmap, start: int = 0) -> Any:
    return numpy.frombuffer(buffer, numpy.uint8, SIZE, start)


def plan_of(*arrays: Any) -> Plan:
    plan = Plan({}, Graph(Kinds({})))
    for array in arrays:
        memory = find_memory(array)
        assert memory is not None
        plan.copies.append(MemoryCopy(array, memory, [memory]))
    return plan


@on_linux
def test_memory_is_restored_to_the_last_byte(forked: Forked) -> None:
    guarded = bytearray(SIZE + 2 * PAGE_BYTES)
    inside = array(guarded, 17)
    inside[:] = 1
    checkpoint = forked()
    guarded[:] = b"+" * len(guarded)
    plan_of(inside).apply({}, checkpoint, forked())
    assert set(inside.tobytes()) == {1}
    assert set(guarded[:17] + guarded[17 + SIZE :]) == {ord("+")}


@pytest.fixture
def room() -> mmap.mmap:
    return mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


@on_linux
def test_unreadable_part_leaves_everything_unchanged(forked: Forked, room: mmap.mmap) -> None:
    first_block = array(bytearray(SIZE))
    last_block = array(bytearray(SIZE))
    checkpoint = forked(without=room)
    lost = array(room)
    for number, memory_block in enumerate((first_block, lost, last_block), 1):
        memory_block[:] = number
    with pytest.raises(UnreadableMemoryError):
        plan_of(first_block, lost, last_block).apply({}, checkpoint, forked())
    assert [set(memory_block.tobytes()) for memory_block in (first_block, lost, last_block)] == [
        {1},
        {2},
        {3},
    ]


@on_linux
def test_unreadable_memory_stays_even_if_it_cannot_be_rolled_back(
    forked: Forked, room: mmap.mmap
) -> None:
    checkpoint = forked(without=room)
    lost = array(room)
    lost[:] = 1
    with pytest.raises(UnreadableMemoryError):
        plan_of(lost).apply({}, checkpoint, None)
    assert set(lost.tobytes()) == {1}


def test_of_two_threads_that_note_a_library_the_first_one_counts() -> None:
    noted = [take_library_snapshot(signal)]
    add_snapshots(noted, [take_library_snapshot(signal), take_library_snapshot(mmap)])
    assert [snapshot.holder for snapshot in noted] == [signal, mmap]
