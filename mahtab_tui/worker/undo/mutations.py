"""Finds what a cell changed inside objects."""

from __future__ import annotations

import gc
import marshal
import time
from itertools import chain
from typing import Any, NamedTuple

from ..objects import MISSING, address_of
from ..variables import HIDDEN
from .checkpoint import Checkpoint
from .checkpoint_responder import (
    CheckpointMemory,
    DirtyPages,
    Roots,
    Span,
    UnreadableMemoryError,
    chunks,
    digest,
)
from .graph import Graph, Kinds, Limits, Node, ancestors
from .process_state import ProcessState, SideEffectLog, SideState
from .reach import ATOMS, LibrarySnapshot, ReleasedObject
from .tables import Block


class Step:
    def __init__(self, serial: int, cell: int, names: dict[str, Any]) -> None:
        self.serial = serial
        self.cell = cell
        self.names = names
        """The objects of names; a `ReleasedObject` for one that is not kept alive."""
        self.retained: list[Any] = []
        self.released = False
        """Whether objects with an effect at their end have been released."""
        self.touched: tuple[str, ...] = ()
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        self.memory: DirtyPages | None = None
        """Which memory was written since the checkpoint."""
        self.blocks: frozenset[Block] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.process: ProcessState | None = None
        self.side_state: SideState | None = None
        self.libraries: list[LibrarySnapshot] = []
        """The modules and classes of libraries mentioned by the cell."""
        self.side_effects = SideEffectLog()
        """Effects of the cell outside the kernel."""
        self.failure = ""
        """Why there is no checkpoint."""

    def end(self) -> list[Checkpoint]:
        """Kill the checkpoint; returns it, so that the caller can wait until its memory is free."""
        ended, self.checkpoint = self.checkpoint, None
        if ended is None:
            return []
        ended.end()
        return [ended]

    def release(self, retained: set[int]) -> None:
        """Keep only these objects (given by address) and plain values alive."""
        if self.released:
            return
        self.released = True
        self.names = {name: _release_value(value, retained) for name, value in self.names.items()}
        self.retained = [_release_value(value, retained) for value in self.retained]

    def roots(self, namespace: dict[str, Any]) -> Roots:
        """Return where a walk through the state starts. namespace: the current one."""
        names = {
            name: value
            for name, value in self.live_names(namespace).items()
            if name != "__builtins__"
        }
        return Roots(
            names, [found for value in self.retained if (found := _resolve(value)) is not MISSING]
        )

    def live_names(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the names with their objects, as far as these are alive. namespace: the current
        one."""
        found = {name: _resolve(value, namespace.get(name)) for name, value in self.names.items()}
        return {name: value for name, value in found.items() if value is not MISSING}

    def ended(self) -> set[int]:
        """Return the addresses of objects that have ended, which others may have now."""
        return {
            value.address
            for value in (*self.names.values(), *self.retained)
            if type(value) is ReleasedObject and value.ended
        }


def _release_value(value: Any, retained: set[int]) -> Any:
    return (
        value
        if address_of(type(value)) in ATOMS
        or address_of(value) in retained
        or type(value) is ReleasedObject
        else ReleasedObject(value)
    )


def _resolve(value: Any, now: Any = None) -> Any:
    return value.value(now) if type(value) is ReleasedObject else value


def touched_names(steps: list[Step]) -> tuple[str, ...]:
    """Return the names mentioned by the cells of these steps."""
    return tuple(dict.fromkeys(name for step in steps for name in step.touched))


WALK_SECONDS = 0.1
"""Seconds of computing for a walk. The limits below end it much earlier, unless an object takes
long."""
MENTIONED_LIMITS = Limits(work=1_200, size=10_000)
"""For all names that the cell mentions."""
OTHER_LIMITS = Limits(work=300, size=1_000)
"""For all other names, and the user's modules, through which it can also reach objects."""
MAX_COMPARED_BYTES = 64 * 2**20
"""Bytes of arrays to read after a cell."""
_CONTAINERS = frozenset(map(address_of, (list, tuple, dict)))
_MAX_VALUES = 250_000
"""Maximum number of values of a container of plain values that is hashed, including all containers
inside it, because the walk cannot read that many objects."""


class Mutations(NamedTuple):
    """Changes made by a cell inside objects."""

    changed: frozenset[str]
    unknown: frozenset[str]
    """Names mentioned by the cell whose objects could not be compared completely."""


class MutationDetector:
    """The objects before a cell, as numbers, without keeping them alive."""

    def __init__(self, namespace: dict[str, Any], kinds: Kinds, mentioned: tuple[str, ...]) -> None:
        """mentioned: the names in the cell's code, which come first."""
        self._namespace = namespace
        self._kinds = kinds
        self.mentioned = mentioned
        named = self._mutable_names()
        self._names = {name: address_of(value) for name, value in named.items()}
        graph, self._complete = self._walk(named)
        self._states = {address: _state(node) for address, node in graph.nodes.items()}
        self._unknown = {address for address, node in graph.nodes.items() if not node.known}
        self._plain = {} if self._complete and not self._unknown else self._digests_of_plain()
        self._blocks = {node.block for node in graph.nodes.values() if node.block is not None}
        graph.forget_weak_references()
        self._objects = [node.value for node in graph.nodes.values()]
        """Only until `begin`."""

    def begin(self, step: Step | None) -> None:
        """Note the start of the cell. step: knows the state before it, if the cell can be
        undone."""
        self._step = None if step is None or step.checkpoint is None else step
        self._side_state = (step and step.side_state) or SideState(self._objects, files=False)
        self._digests = {} if self._step is not None else _digests(self._blocks)
        del self._objects

    def compare(self) -> Mutations:
        """Compare with the current objects."""
        named = self._mutable_names()
        graph, whole = self._walk(named)
        whole = whole and self._complete
        changed: set[int] = set()
        unknown: set[int] = set()
        owners: dict[Block, list[int]] = {}
        for address, node in graph.nodes.items():
            then = self._states.get(address)
            if then is None:
                continue
            if then != _state(node):
                changed.add(address)
            elif node.block is not None:
                owners.setdefault(node.block, []).append(address)
            if not node.known or address in self._unknown:
                unknown.add(address)
            if not whole and any(
                child not in graph.nodes or child not in self._states for child in node.children
            ):
                unknown.add(address)
        for block, differs in self._find_written(set(owners)).items():
            (unknown if differs is None else changed).update(owners[block])
        too_large = self._side_state.find_too_large(MAX_COMPARED_BYTES)
        back, unrestored, _ = self._side_state.compare(too_large)
        changed.update(
            [address_of(each.value) for each in back],
            [address_of(value) for value, _ in unrestored],
        )
        unknown = unknown - self._side_state.addresses | too_large
        inside = self._to_mutations(named, graph, changed, unknown)
        graph.forget_weak_references()
        return inside

    def _to_mutations(
        self, named: dict[str, Any], graph: Graph, changed: set[int], unknown: set[int]
    ) -> Mutations:
        same = {
            name: address
            for name, value in named.items()
            if self._names.get(name) == (address := address_of(value))
        }
        holders = graph.holders() if changed or unknown else {}
        reached = ancestors(changed, holders)
        unsure = ancestors(unknown, holders)
        inside = frozenset(name for name, address in same.items() if address in reached)
        seen = graph.nodes.keys() & self._states.keys()
        open_names = {
            name
            for name in self.mentioned
            if name in same and (same[name] in unsure or same[name] not in seen)
        } - inside
        compared = {
            name: _plain_digest(named[name]) == self._plain[name]
            for name in open_names & self._plain.keys()
        }
        return Mutations(
            inside | {name for name, equal in compared.items() if not equal},
            frozenset(open_names - compared.keys()),
        )

    def _digests_of_plain(self) -> dict[str, int]:
        """Return digests of the mentioned containers of plain values."""
        until = time.thread_time() + WALK_SECONDS
        found = {
            name: _plain_digest(self._namespace.get(name))
            for name in self.mentioned
            if time.thread_time() < until
        }
        return {name: number for name, number in found.items() if number is not None}

    def _mutable_names(self) -> dict[str, Any]:
        """Return the names whose objects can change inside."""
        items = list(self._namespace.items())
        return {
            name: value
            for name, value in items
            if type(name) is str and name not in HIDDEN and address_of(type(value)) not in ATOMS
        }

    def _walk(self, named: dict[str, Any]) -> tuple[Graph, bool]:
        """Walk through everything reachable; also returns whether that is everything below the
        names that the cell mentions."""
        graph = Graph(self._kinds, clock=time.thread_time)
        until = time.thread_time() + WALK_SECONDS
        others = [*(value for _, value in self._kinds.shared_objects), *named.values()]
        collects = gc.isenabled()
        gc.disable()  # otherwise this many new objects would start a full collection
        try:
            whole = graph.add(
                [named[name] for name in self.mentioned if name in named], until, MENTIONED_LIMITS
            )
            graph.add(others, until, OTHER_LIMITS)
            return graph, whole
        finally:
            if collects:
                gc.enable()

    def _find_written(self, blocks: set[Block]) -> dict[Block, bool | None]:
        """Return the blocks with whether their memory differs; None if that could not be
        determined."""
        step = self._step
        if step is None or step.checkpoint is None or step.memory is None:
            now = _digests(blocks & self._digests.keys())
            verdicts = {
                block: None if block not in now else now[block] != self._digests[block]
                for block in blocks
            }
        else:
            other = _MemoryComparison(step.checkpoint.pid)
            verdicts = {
                block: other.verdict(spans)
                for block, spans in step.memory.written_since(step.serial, blocks).items()
            }
        return {block: differs for block, differs in verdicts.items() if differs is not False}


class _MemoryComparison:
    """Compares memory with that of a checkpoint, up to `MAX_COMPARED_BYTES`."""

    def __init__(self, pid: int) -> None:
        self._other = CheckpointMemory(pid)
        self._remaining = MAX_COMPARED_BYTES

    def verdict(self, spans: list[Span]) -> bool | None:
        """Return whether the memory differs; None if that could not be determined."""
        try:
            for part in (
                part
                for span in spans
                for used in self._other.touched_spans(span)
                for part in chunks(used)
            ):
                self._remaining -= part.end - part.start
                if self._remaining < 0:
                    return None
                if self._other.differs(part):
                    return True
        except UnreadableMemoryError:
            return None
        return False


def _state(node: Node) -> tuple[int, int, int, Block | None]:
    return address_of(type(node.value)), node.fixed_state, node.mutable_state, node.block


def _digests(blocks: set[Block]) -> dict[Block, int]:
    """Return the digests of blocks, smallest first, up to `MAX_COMPARED_BYTES`."""
    found = {}
    left = MAX_COMPARED_BYTES
    for block in sorted(blocks, key=lambda block: block.size):
        left -= block.size
        if left < 0:
            break
        found[block] = digest(block)
    return found


def _plain_digest(value: Any) -> int | None:
    """Return a number for the contents of lists, tuples and dicts; None if they contain other than
    plain values, or too many. Runs no user code."""
    if address_of(type(value)) not in _CONTAINERS:
        return None
    level, left = [value], _MAX_VALUES
    while level:
        left -= sum(map(len, level))
        if left < 0:  # also ends for containers that contain themselves
            return None
        items = list(
            chain.from_iterable(
                chain.from_iterable(
                    (each, each.values()) if type(each) is dict else (each,) for each in level
                )
            )
        )
        types = set(map(address_of, map(type, items))) - ATOMS
        if not types <= _CONTAINERS:
            return None
        level = [each for each in items if address_of(type(each)) not in ATOMS] if types else []
    try:
        # Later formats record whether a string is interned, which may change.
        return hash(marshal.dumps(value, 0))
    except ValueError:  # nested too deeply
        return None
