"""Finds what a cell changed inside objects."""

from __future__ import annotations

import gc
import marshal
import time
from itertools import chain
from typing import Any, Callable, NamedTuple

from ..values.objects import ATOMS, address_of
from ..values.variables import HIDDEN_NAMES
from .graph import Graph, Kinds, Limits
from .memory import CheckpointMemory, MemorySpan, UnreadableMemoryError
from .side_state import SideState
from .step import Step

WALK_TIMEOUT_S = 0.1
"""Of computing; the limits below usually end it earlier."""
MENTIONED_LIMITS = Limits(work=1_200, size=10_000)
OTHER_LIMITS = Limits(work=300, size=1_000)
"""Other names, and the user's modules, can also reach objects."""
MAX_COMPARED_BYTES = 64 * 2**20
_CONTAINERS = frozenset(map(address_of, (list, tuple, dict)))
_MAX_VALUES = 250_000
"""Including those in containers inside it."""


class Mutations(NamedTuple):
    changed: frozenset[str]
    unknown: frozenset[str]
    """Names mentioned by the cell that could not be compared completely."""


class MutationDetector:
    """The objects before a cell, as numbers, without keeping them alive."""

    def __init__(
        self,
        namespace: dict[str, object],
        kinds: Kinds,
        mentioned: tuple[str, ...],
        take_checkpoint: Callable[[tuple[str, ...]], Step | None],
    ) -> None:
        """mentioned: names in the cell's code. take_checkpoint: returns the step with the state
        before the cell."""
        self._namespace = namespace
        self._kinds = kinds
        self.mentioned = mentioned
        named = self._mutable_names()
        self._names = {name: address_of(value) for name, value in named.items()}
        graph, self._complete = self._walk(named)
        self._states = {address: node.state for address, node in graph.nodes.items()}
        self._unknown = {address for address, node in graph.nodes.items() if not node.known}
        self._plain = {} if self._complete and not self._unknown else self._digests_of_plain()
        blocks = {node.memory for node in graph.nodes.values() if node.memory is not None}
        objects = [node.value for node in graph.nodes.values()]
        del graph  # Linux would copy each page of it if it was freed after the fork
        step = take_checkpoint(mentioned)
        self._step = None if step is None or step.checkpoint is None else step
        self._side_state = (step and step.side_state) or SideState(objects)
        self._digests = {} if self._step is not None else _digests(blocks)

    def compare(self) -> Mutations:
        named = self._mutable_names()
        graph, is_complete = self._walk(named)
        is_complete = is_complete and self._complete
        changed: set[int] = set()
        unknown: set[int] = set()
        owners: dict[MemorySpan, list[int]] = {}
        for address, node in graph.nodes.items():
            old_state = self._states.get(address)
            if old_state is None:
                continue
            if old_state != node.state:
                changed.add(address)
            elif node.memory is not None:
                owners.setdefault(node.memory, []).append(address)
            if not node.known or address in self._unknown:
                unknown.add(address)
            if not is_complete and any(
                child not in graph.nodes or child not in self._states for child in node.children
            ):
                unknown.add(address)
        written, unreadable = self._find_written(set(owners))
        for addresses, blocks in ((changed, written), (unknown, unreadable)):
            addresses.update(address for block in blocks for address in owners[block])
        too_large = self._side_state.find_too_large(MAX_COMPARED_BYTES)
        changed.update(
            address_of(value) for value, _ in self._side_state.find_differences(too_large)
        )
        unknown = unknown - self._side_state.addresses | too_large
        return self._to_mutations(named, graph, changed, unknown)

    def _to_mutations(
        self, named: dict[str, object], graph: Graph, changed: set[int], unknown: set[int]
    ) -> Mutations:
        same = {
            name: address
            for name, value in named.items()
            if self._names.get(name) == (address := address_of(value))
        }
        reached = graph.ancestors(changed)
        unsure = graph.ancestors(unknown)
        inside = frozenset(name for name, address in same.items() if address in reached)
        common_addresses = graph.nodes.keys() & self._states.keys()
        open_names = {
            name
            for name in self.mentioned
            if name in same and (same[name] in unsure or same[name] not in common_addresses)
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
        until = time.thread_time() + WALK_TIMEOUT_S
        digests = {
            name: _plain_digest(self._namespace.get(name))
            for name in self.mentioned
            if time.thread_time() < until
        }
        return {name: number for name, number in digests.items() if number is not None}

    def _mutable_names(self) -> dict[str, object]:
        return {
            name: value
            for name, value in list(self._namespace.items())
            if type(name) is str
            and name not in HIDDEN_NAMES
            and address_of(type(value)) not in ATOMS
        }

    def _walk(self, named: dict[str, object]) -> tuple[Graph, bool]:
        """Return also whether all below the mentioned names was reached."""
        graph = Graph(self._kinds, clock=time.thread_time)
        until = time.thread_time() + WALK_TIMEOUT_S
        other_values = [*(value for _, value in self._kinds.shared_objects), *named.values()]
        collects = gc.isenabled()
        gc.disable()  # otherwise this many new objects would start a full collection
        try:
            is_complete = graph.add(
                [named[name] for name in self.mentioned if name in named], until, MENTIONED_LIMITS
            )
            graph.add(other_values, until, OTHER_LIMITS)
            return graph, is_complete
        finally:
            if collects:
                gc.enable()

    def _find_written(self, blocks: set[MemorySpan]) -> tuple[set[MemorySpan], set[MemorySpan]]:
        """Return the blocks whose memory differs, and those of which that is unknown."""
        if self._step is None or self._step.checkpoint is None:
            digests_now = _digests(blocks & self._digests.keys())
            changed = {block for block in digests_now if digests_now[block] != self._digests[block]}
            return changed, blocks - digests_now.keys()
        written: set[MemorySpan] = set()
        unreadable: set[MemorySpan] = set()
        memory = CheckpointMemory(self._step.checkpoint.pid)
        remaining_bytes = MAX_COMPARED_BYTES
        for block, spans in self._step.written_since(blocks).items():
            try:
                for chunk in (part for span in memory.touched(spans) for part in span.chunks()):
                    remaining_bytes -= chunk.size
                    if remaining_bytes < 0 or memory.differs(chunk):
                        (unreadable if remaining_bytes < 0 else written).add(block)
                        break
            except UnreadableMemoryError:
                unreadable.add(block)
        return written, unreadable


def _digests(blocks: set[MemorySpan]) -> dict[MemorySpan, int]:
    digests = {}
    remaining_bytes = MAX_COMPARED_BYTES
    for block in sorted(blocks, key=lambda block: block.size):
        remaining_bytes -= block.size
        if remaining_bytes < 0:
            break
        digests[block] = block.digest()
    return digests


def _plain_digest(value: Any) -> int | None:
    """Hash lists, tuples and dicts; None for other than plain values, or too many. Runs no user
    code."""
    if address_of(type(value)) not in _CONTAINERS:
        return None
    level = [value]
    remaining_values = _MAX_VALUES
    while level:
        remaining_values -= sum(map(len, level))
        if remaining_values < 0:  # also ends for containers that contain themselves
            return None
        parts = (
            (container, container.values()) if type(container) is dict else (container,)
            for container in level
        )
        items = list(chain.from_iterable(chain.from_iterable(parts)))
        types = set(map(address_of, map(type, items))) - ATOMS
        if not types <= _CONTAINERS:
            return None
        level = []
        if types:
            level = [container for container in items if address_of(type(container)) not in ATOMS]
    try:  # later formats record whether a text is interned, which may change
        return hash(marshal.dumps(value, 0))
    except ValueError:
        return None
