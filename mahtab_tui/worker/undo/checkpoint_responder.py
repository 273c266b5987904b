"""A checkpoint's answers about the earlier state of objects and memory.

Both processes use the same addresses. Linux reports which pages a process shares with nobody (bit
56 of `/proc/self/pagemap`): a page that is still shared with a forked process has not been written
since. This is a hundred times faster than comparing.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Callable, NamedTuple

from ..objects import address_of, class_module, name_of
from ..variables import HIDDEN, describe_variable
from .checkpoint import Checkpoint, dump_in_fork, dump_state
from .graph import Graph, Kinds, ancestors, to_rows
from .parts import is_file
from .reach import ATOMS
from .tables import Block

PAGE = 4096
CHUNK = 256 * 1024
"""Bytes to compare or copy at a time; they fit into a processor's cache."""

_MADV_DONTNEED = 4

_UNWRITTEN = b"\x80\xa0\xa1"
"""The highest byte of an unwritten page's entry: present, anonymous, and shared with another
process; or still the page of a file, or of zeros."""
_WRITTEN = re.compile(b"[^" + re.escape(_UNWRITTEN) + b"]+")
_TOUCHED = re.compile(rb"[^\0]+")


class Span(NamedTuple):
    """Bytes from `start` up to `end`, by address."""

    start: int
    end: int


class UnreadableMemoryError(Exception):
    """The memory of another process cannot be read."""


def written_spans(blocks: Iterable[Block]) -> list[Span]:
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
    """Return a number that differs if the memory differs, except by an extremely unlikely
    coincidence."""
    start, size = block
    parts = (
        (ctypes.c_char * (end - here)).from_address(here).raw
        for here, end in chunks(Span(start, start + size))
    )
    return hash(tuple(map(hash, parts)))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sort spans, and merge overlapping ones."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start <= result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def clip_spans(spans: list[Span], block: Block) -> list[Span]:
    """Return the parts of sorted spans that are inside a block."""
    end = block.address + block.size
    return [
        Span(max(span.start, block.address), min(span.end, end))
        for span in spans
        if span.start < end and span.end > block.address
    ]


class _Interval(NamedTuple):
    """Memory that was written between the forks of two checkpoints."""

    seen: frozenset[Block]
    """The blocks that were examined."""
    written: list[Span]


class DirtyPages:
    """Tracks which parts of blocks may have been written since each checkpoint was forked.

    Linux only tells what was written since the last fork by anybody, so it is asked before every
    fork.
    """

    def __init__(self) -> None:
        self._intervals: dict[int, list[_Interval]] = {}
        self._serial = 0
        self._blocks: frozenset[Block] = frozenset()
        self._own_fork = False
        note = weakref.WeakMethod(self._before_fork)
        os.register_at_fork(before=lambda: (method := note()) and method())

    def fork(
        self, serial: int, blocks: frozenset[Block], fork: Callable[[], Checkpoint]
    ) -> Checkpoint:
        """Fork the checkpoint of a step. blocks: the existing blocks."""
        self._before_fork(blocks)
        self._own_fork = True
        try:
            checkpoint = fork()
        finally:
            self._own_fork = False
        self._serial, self._blocks = serial, blocks
        return checkpoint

    def written_since(self, serial: int, blocks: Iterable[Block]) -> dict[Block, list[Span]]:
        """Return the parts of each block that may have been written since the checkpoint of a step
        was forked."""
        blocks = list(blocks)
        intervals = [
            interval
            for each, found in self._intervals.items()
            if each >= serial
            for interval in found
        ]
        spans = merge_spans(
            [*written_spans(blocks), *(span for interval in intervals for span in interval.written)]
        )
        known = {block for block in blocks if all(block in interval.seen for interval in intervals)}
        return {
            block: clip_spans(spans, block)
            if block in known
            else [Span(block.address, block.address + block.size)]
            for block in blocks
        }

    def forget(self, oldest: int) -> None:
        """Forget what was written before the checkpoint of this step."""
        self._intervals = {
            serial: found for serial, found in self._intervals.items() if serial >= oldest
        }

    def _before_fork(self, more: frozenset[Block] = frozenset()) -> None:
        if self._serial and not self._own_fork:
            blocks = self._blocks | more
            self._intervals.setdefault(self._serial, []).append(
                _Interval(blocks, written_spans(blocks))
            )


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class CheckpointMemory:
    """The memory of a forked process. Methods raise `UnreadableMemoryError` if Linux does not allow
    it, or if the process has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._c: Any = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(CHUNK)

    def touched_spans(self, span: Span) -> list[Span]:
        """Return the pages that one of the two processes has ever touched. All others are equal,
        because memory starts as zeros."""
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
                else clip_spans(list(runs), Block(span.start, span.end - span.start))
            )
        return merge_spans(found)

    def differs(self, span: Span) -> bool:
        """Return whether a part of the process's memory differs from ours."""
        return any(self._differs(here.start, here.end - here.start) for here in chunks(span))

    def copy(self, span: Span, to: int, *, drop: bool = False) -> None:
        """Copy a part of the process's memory to an address of ours. drop: faster, but if it fails,
        the old content is lost."""
        if drop:
            self._drop(to, span.end - span.start)
        for here in chunks(span):
            self._read(here.start, to + here.start - span.start, here.end - here.start)

    def _drop(self, start: int, size: int) -> None:
        """Release the pages that will be overwritten, because Linux would first copy each page that
        is shared with a checkpoint, which takes four times as long."""
        first, last = -(-start // PAGE) * PAGE, (start + size) // PAGE * PAGE
        if last - first >= CHUNK:
            # If this fails, the copy is only slower.
            self._c.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)

    def _differs(self, start: int, size: int) -> bool:
        self._read(start, ctypes.addressof(self._buffer), size)
        return bool(self._c.memcmp(self._buffer, ctypes.c_void_p(start), ctypes.c_size_t(size)))

    def _read(self, start: int, to: int, size: int) -> None:
        here, there = _IoVec(to, size), _IoVec(start, size)
        done = self._c.process_vm_readv(self._pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if done != size:
            raise UnreadableMemoryError(
                f"the memory of the checkpoint cannot be read (error {ctypes.get_errno()})"
            )


def chunks(span: Span) -> Iterator[Span]:
    """Split a span into parts of at most `CHUNK` bytes."""
    for start in range(span.start, span.end, CHUNK):
        yield Span(start, min(start + CHUNK, span.end))


def _flags(process: str, pages: Span) -> bytes:
    """Return the highest byte of each page's entry; fewer if Linux does not tell."""
    try:
        with open(f"/proc/{process}/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(pages.start * 8)
            return pagemap.read((pages.end - pages.start) * 8)[7::8]
    except OSError:
        return b""


STATE, NAME = "state", "name"
MENTIONED_TIMEOUT = 20.0
"""Seconds for each process to walk through the objects that a cell mentions."""
OTHERS_TIMEOUT = 2.0
"""Seconds for everything else."""


class Roots(NamedTuple):
    """The objects where a walk starts."""

    names: dict[str, Any]
    """The names before the cell."""
    alive: Sequence[Any]
    """Objects kept alive in both processes, so that an address means the same object in both."""


class StateRequest(NamedTuple):
    """Requests the earlier states of objects that are different now."""

    alive: bytes
    """The addresses of objects that live in both processes, eight bytes each."""
    changed: bytes
    """The addresses of objects whose state is different."""
    written: bytes
    """The addresses of objects whose memory is different."""
    names: list[str]
    """Names to describe."""


class States(NamedTuple):
    """The earlier states of objects that are different now."""

    payload: bytes
    """Rows: `STATE`, the address of a living object and the values of each mutable part; or `NAME`,
    a name and its object, which no longer exists."""
    changed: list[str]
    """Names, and modules of the user's, whose objects differ inside."""
    lost: list[tuple[str, str]]
    """Names whose objects cannot be transferred, with reasons."""
    unknown: list[tuple[str, str]]
    """Names mentioned by the cells that refer to objects which cannot be compared, and the types of
    these."""
    variables: dict[str, dict[str, Any]]
    """Earlier descriptions of the names that differ, and of those requested."""


class CheckpointResponder:
    """Answers requests in a checkpoint. Created before the fork and used in the forked process."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._graph: Graph
        self._roots: Roots
        self._first: list[str]

    def describe(self, roots: Roots, first: Iterable[str]) -> tuple[bytes, list[str]]:
        """Walk as `walk` does. Return the earlier state of all objects (see `to_rows`), and the
        names for which there was not enough time."""
        self._roots, self._graph, self._first = roots, Graph(Kinds(self._namespace)), list(first)
        unseen = walk(self._graph, roots, first)
        return to_rows(self._graph).tobytes(), unseen

    def collect_states(self, wanted: StateRequest) -> States:
        """Return the earlier states of objects that are different now."""
        nodes, names = self._graph.nodes, self._roots.names
        alive = set(unpack_addresses(wanted.alive))
        changed = set(unpack_addresses(wanted.changed))
        holders = self._graph.holders()
        # Also send containers of freed objects, because the address was reused.
        pending = [address for address in nodes if address not in alive]
        while pending:
            for holder in holders.get(pending.pop(), ()):
                if holder in alive and holder not in changed:
                    if any(
                        part.prepare is not None
                        for part in self._graph.kinds.parts(nodes[holder].value)
                    ):
                        changed.add(holder)
                    else:
                        alive.discard(holder)
                        pending.append(holder)
        inside = self._labels(
            ancestors(
                changed | set(unpack_addresses(wanted.written)) | (nodes.keys() - alive), holders
            )
        )
        states = {address: self._state(nodes[address].value) for address in changed}
        gone = {
            name: value
            for name, value in names.items()
            if address_of(value) in nodes and address_of(value) not in alive
        }
        payload, lost = self._dump_states(states, gone, alive, holders)
        asked = [name for name in {*inside, *wanted.names} if name in names and type(name) is str]
        return States(
            payload,
            inside,
            lost,
            self._uncomparable_names(holders),
            {name: describe_variable(name, names[name]) for name in asked},
        )

    def _uncomparable_names(self, holders: dict[int, list[int]]) -> list[tuple[str, str]]:
        """Return the names mentioned by the cells that lead to objects which cannot be compared
        completely."""
        by_type: dict[str, list[int]] = {}
        for address, node in self._graph.nodes.items():
            if not node.known and not is_file(type(node.value)):
                by_type.setdefault(_type_name(type(node.value)), []).append(address)
        mentioned = set(self._first)
        return [
            (name, kind)
            for kind, addresses in by_type.items()
            for name in self._labels(ancestors(addresses, holders))
            if name in mentioned
        ]

    def _state(self, value: Any) -> list[list[Any]]:
        return [
            part.read(value) for part in self._graph.kinds.parts(value) if part.prepare is not None
        ]

    def _dump_states(
        self,
        states: dict[int, Any],
        gone: dict[str, Any],
        alive: set[int],
        holders: dict[int, list[int]],
    ) -> tuple[bytes, list[tuple[str, str]]]:
        """Return the states as bytes, and the names whose state cannot be pickled, with the
        reason."""
        things: list[tuple[str, Any, Any]] = [
            *((STATE, *pair) for pair in states.items()),
            *((NAME, *pair) for pair in gone.items()),
        ]
        write = partial(dump_state, alive=alive, namespace=self._namespace)
        whole, reasons = dump_in_fork(things, write)
        if whole is not None:
            return whole, []
        lost: dict[str, str] = {}
        for (kind, key, _value), reason in zip(things, reasons):
            if reason:
                names = (
                    [format_label(key)] if kind == NAME else self._labels(ancestors([key], holders))
                )
                lost.update((name, reason) for name in names)
        good = [thing for thing, reason in zip(things, reasons) if not reason]
        whole, _ = dump_in_fork(good, write)
        if whole is None:
            return write([]), [
                (name, "it could not be transferred with the others") for name in lost
            ]
        return whole, list(lost.items())

    def _labels(self, reached: set[int]) -> list[str]:
        """Return the names, and other labels, of the given objects."""
        named = [*self._roots.names.items(), *self._graph.kinds.shared_objects]
        return [format_label(name) for name, value in named if address_of(value) in reached]


def format_label(name: Any) -> str:
    """Return a name; if it is not a string, the code that accesses it."""
    if type(name) is str:
        return name
    return (
        f"globals()[{name!r}]"
        if address_of(type(name)) in ATOMS
        else f"globals()[a {name_of(type(name))}]"
    )


def _type_name(cls: type) -> str:
    module, name = class_module(cls), name_of(cls)
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"


def walk(graph: Graph, roots: Roots, first: Iterable[str]) -> list[str]:
    """Walk from the names that cells mention, then from all others; returns the names for which
    there was not enough time."""
    names = roots.names
    early = [name for name in dict.fromkeys(first) if name in names]
    left = _walk_names(graph, {name: names[name] for name in early}, MENTIONED_TIMEOUT)
    graph.add(
        (*(value for _, value in graph.kinds.shared_objects), *roots.alive),
        time.monotonic() + OTHERS_TIMEOUT,
    )
    return left + _walk_names(
        graph, {name: value for name, value in names.items() if name not in left}, OTHERS_TIMEOUT
    )


def _walk_names(graph: Graph, names: dict[str, Any], seconds: float) -> list[str]:
    until = time.monotonic() + seconds
    inside = [
        (name, value)
        for name, value in names.items()
        if name not in HIDDEN and address_of(type(value)) not in ATOMS
    ]
    for index, (_, value) in enumerate(inside):
        if not graph.add((value,), until):
            return [format_label(name) for name, _ in inside[index:]]
    return []


def unpack_addresses(data: bytes) -> array[int]:
    """Unpack numbers of eight bytes."""
    found = array("q")
    found.frombytes(data)
    return found
