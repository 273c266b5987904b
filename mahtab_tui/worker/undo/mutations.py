"""Finds the names whose objects a cell has changed in place.

Before the cell, the objects are noted as numbers (`graph`), within limits, because this delays each cell that may
change objects. After it, the numbers are compared; what was too much to compare is named as unknown. The numbers in
arrays, the contents of files and the like are compared in other ways.
"""

from __future__ import annotations

import gc
import marshal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Callable, NamedTuple, Optional

from ..values.objects import ATOMS, address_of
from ..values.variables import HIDDEN_NAMES
from .checkpoint_memory import CheckpointMemory, UnreadableMemoryError
from .graph import Graph, Limits
from .kinds import Kinds
from .memory import MemorySpan
from .side_state import SideState
from .step import Step

WALK_TIMEOUT_S = 0.1
"""Seconds of computing; the limits below usually end a walk earlier."""
MENTIONED_LIMITS = Limits(work=1_200, size=10_000)
"""For each name that the cell mentions."""
_MAX_MENTIONED_WORK = 3 * MENTIONED_LIMITS.work
"""Objects of all names that the cell mentions; each name after that has the limits of the others."""
OTHER_LIMITS = Limits(work=300, size=1_000)
"""For other names and the user's modules, which can also reach objects."""
MAX_COMPARED_BYTES = 64 * 2**20
"""Bytes of all arrays together, and of all tables together, that are compared."""
_MAX_PLAIN_VALUES = 250_000
"""Values of a container whose content is hashed, with those of the containers inside it."""
_CONTAINERS = frozenset(map(address_of, (list, tuple, dict)))
"""Addresses of the types of such containers."""

TakeCheckpoint = Callable[[tuple[str, ...]], Optional[Step]]
"""Gets the names in a cell's code, and returns the step with the state before the cell."""


class Mutations(NamedTuple):
    """The names whose objects a cell changed in place."""

    changed: frozenset[str]
    unknown: frozenset[str]
    """Names mentioned by the cell that could not be compared completely."""


class _WalkedNamespace(NamedTuple):
    """The objects of a namespace at one time."""

    graph: Graph
    is_complete: bool
    """Whether all below the mentioned names was reached."""


class _Objects(NamedTuple):
    """Addresses of objects, by what a comparison says of them."""

    changed: set[int]
    unknown: set[int]


class _Memory(NamedTuple):
    """Memory of arrays, by what a comparison says of it."""

    changed: set[MemorySpan]
    unknown: set[MemorySpan]


class MutationDetector:
    """The objects before a cell, as numbers, without keeping them alive."""

    def __init__(
        self,
        namespace: dict[str, Any],
        kinds: Kinds,
        mentioned: tuple[str, ...],
        take_checkpoint: TakeCheckpoint,
    ) -> None:
        """Note the state of the objects.

        Args:
            namespace: The user's.
            kinds: Says how its objects are read.
            mentioned: Names in the cell's code.
            take_checkpoint: Called once the state is noted.
        """
        self._namespace = namespace
        self._kinds = kinds
        self.mentioned = mentioned
        mutable_values = self._mutable_values()
        self._addresses = {name: address_of(value) for name, value in mutable_values.items()}
        """Addresses of the objects by name."""
        graph, self._is_complete = self._walk(mutable_values)
        self._states = {address: node.state for address, node in graph.nodes.items()}
        """What the graph says of the objects, by address."""
        self._unknown = {address for address, node in graph.nodes.items() if not node.is_complete}
        """Addresses of objects whose state the numbers do not cover."""
        self._plain_digests: dict[str, int] = {}
        """Hashes of plain values by name, if the graph does not say everything."""
        if self._unknown or not self._is_complete:
            self._plain_digests = self._digest_plain_values()
        spans = {node.memory for node in graph.nodes.values() if node.memory is not None}
        objects = [node.value for node in graph.nodes.values()]
        # Linux would copy each page of the graph if it was freed after the fork.
        del graph

        step = take_checkpoint(mentioned)
        has_checkpoint = step is not None and step.checkpoint is not None
        self._step = step if has_checkpoint else None
        """The step, if it has a checkpoint, with which memory is compared."""
        self._memory_digests = {} if has_checkpoint else _digest_memory(spans)
        """Hashes of the memory of arrays, if there is no checkpoint."""
        self._side_state = step.side_state if step is not None else None
        """The state of files, tables and tensors."""
        if self._side_state is None:
            self._side_state = SideState(objects)

    def compare(self) -> Mutations:
        """Return what has changed since."""
        # What the cell has bound is new and need not be compared. It may be as large as a figure.
        values = {
            name: value
            for name, value in self._mutable_values().items()
            if self._addresses.get(name) == address_of(value)
        }
        walk = self._walk(values)
        objects = self._compare_states(walk)
        self._compare_memory(walk.graph, objects)
        self._compare_side_state(objects)
        return self._name_mutations(values, walk.graph, objects)

    def _compare_states(self, walk: _WalkedNamespace) -> _Objects:
        """Compare the states of the objects that were there before."""
        changed: set[int] = set()
        unknown: set[int] = set()
        nodes = walk.graph.nodes
        is_complete = walk.is_complete and self._is_complete
        for address in nodes.keys() & self._states.keys():
            node = nodes[address]
            if node.state != self._states[address]:
                changed.add(address)
            if not node.is_complete or address in self._unknown:
                unknown.add(address)
            # What one of the walks did not reach may have changed.
            if not is_complete and not all(
                child in nodes and child in self._states for child in node.children
            ):
                unknown.add(address)
        return _Objects(changed, unknown)

    def _compare_memory(self, graph: Graph, objects: _Objects) -> None:
        """Compare the memory of the arrays whose state is the same; add those that differ to
        `objects`."""
        addresses_by_span: dict[MemorySpan, list[int]] = {}
        for address, node in graph.nodes.items():
            if node.memory is not None and self._states.get(address) == node.state:
                addresses_by_span.setdefault(node.memory, []).append(address)

        memory = self._find_written_memory(set(addresses_by_span))
        for span in memory.changed:
            objects.changed.update(addresses_by_span[span])
        for span in memory.unknown:
            objects.unknown.update(addresses_by_span[span])

    def _compare_side_state(self, objects: _Objects) -> None:
        """Compare files, tables and tensors, whose state the graph does not show."""
        assert self._side_state is not None
        too_large_tables = self._side_state.find_tables_beyond(MAX_COMPARED_BYTES)
        for value, _ in self._side_state.find_differences(too_large_tables):
            objects.changed.add(address_of(value))
        objects.unknown.difference_update(self._side_state.addresses)
        objects.unknown.update(too_large_tables)

    def _name_mutations(
        self, values: dict[str, object], graph: Graph, objects: _Objects
    ) -> Mutations:
        """Return the names that lead to changed objects, and to those that may have changed.

        Args:
            values: The objects whose names are bound as before, by name.
            graph: Of these objects.
            objects: What the comparison says.
        """
        addresses = {name: address_of(value) for name, value in values.items()}
        leading_to_changed = graph.ancestors(objects.changed)
        changed_names = {name for name in values if addresses[name] in leading_to_changed}

        leading_to_unknown = graph.ancestors(objects.unknown)
        compared_addresses = graph.nodes.keys() & self._states.keys()
        unknown_names = {
            name
            for name in self.mentioned
            if name in values
            and (addresses[name] in leading_to_unknown or addresses[name] not in compared_addresses)
        }
        unknown_names -= changed_names

        # What was too much to compare object by object may have been hashed as a whole.
        digested_names = unknown_names & self._plain_digests.keys()
        for name in digested_names:
            if digest_plain_value(values[name]) != self._plain_digests[name]:
                changed_names.add(name)
        return Mutations(frozenset(changed_names), frozenset(unknown_names - digested_names))

    def _digest_plain_values(self) -> dict[str, int]:
        """Hash the mentioned values that are plain containers, as far as there is time."""
        deadline = time.thread_time() + WALK_TIMEOUT_S
        digests: dict[str, int] = {}
        for name in self.mentioned:
            if time.thread_time() >= deadline:
                break
            digest = digest_plain_value(self._namespace.get(name))
            if digest is not None:
                digests[name] = digest
        return digests

    def _mutable_values(self) -> dict[str, object]:
        """Return the objects of the namespace by name, without plain values."""
        return {
            name: value
            for name, value in list(self._namespace.items())
            if type(name) is str
            and name not in HIDDEN_NAMES
            and address_of(type(value)) not in ATOMS
        }

    def _walk(self, values: dict[str, object]) -> _WalkedNamespace:
        """Walk through the objects of the namespace.

        Args:
            values: These, by name.
        """
        graph = Graph(self._kinds, clock=time.thread_time)
        deadline = time.thread_time() + WALK_TIMEOUT_S
        mentioned_values = [values[name] for name in self.mentioned if name in values]
        is_complete = True
        shared_values = [value for _, value in self._kinds.shared_objects]
        # So many new objects would start a full collection.
        with _without_garbage_collection():
            # Each by itself, because one large object, such as a figure, would leave nothing for
            # the others.
            for value in mentioned_values:
                remaining_work = _MAX_MENTIONED_WORK - len(graph.nodes)
                work = min(MENTIONED_LIMITS.work, max(remaining_work, OTHER_LIMITS.work))
                limits = MENTIONED_LIMITS._replace(work=work)
                is_complete &= graph.add([value], deadline, limits)
            graph.add([*shared_values, *values.values()], deadline, OTHER_LIMITS)
        return _WalkedNamespace(graph, is_complete)

    def _find_written_memory(self, spans: set[MemorySpan]) -> _Memory:
        """Return which spans differ, and of which that is unknown."""
        if self._step is None or self._step.checkpoint is None:
            digests = _digest_memory(spans & self._memory_digests.keys())
            changed = {span for span in digests if digests[span] != self._memory_digests[span]}
            return _Memory(changed, spans - digests.keys())

        written = _Memory(set(), set())
        memory = CheckpointMemory(self._step.checkpoint.pid)
        remaining_bytes = MAX_COMPARED_BYTES
        for span, written_parts in self._step.written_since(spans).items():
            try:
                for chunk in _chunks(memory.touched(written_parts)):
                    remaining_bytes -= chunk.size
                    if remaining_bytes < 0:
                        written.unknown.add(span)
                        break
                    if memory.differs(chunk):
                        written.changed.add(span)
                        break
            except UnreadableMemoryError:
                written.unknown.add(span)
        return written


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chunks(spans: Iterable[MemorySpan]) -> Iterator[MemorySpan]:
    return chain.from_iterable(span.chunks() for span in spans)


def _digest_memory(spans: set[MemorySpan]) -> dict[MemorySpan, int]:
    """Hash the memory of arrays, the smallest first, as far as they are not too large together."""
    digests: dict[MemorySpan, int] = {}
    remaining_bytes = MAX_COMPARED_BYTES
    for span in sorted(spans, key=lambda span: span.size):
        remaining_bytes -= span.size
        if remaining_bytes < 0:
            break
        digests[span] = span.digest()
    return digests


def digest_plain_value(value: Any) -> int | None:
    """Hash a list, tuple or dict, without running code of the user's.

    Returns:
        None for other objects, and for containers of other than plain values, or of too many.
    """
    if not _is_plain_container(value):
        return None
    try:
        # Later formats record whether a text is interned, which may change.
        return hash(marshal.dumps(value, 0))
    except ValueError:
        return None


def _is_plain_container(value: Any) -> bool:
    """Return whether a list, tuple or dict has only plain values, in containers or not, and not too
    many."""
    if address_of(type(value)) not in _CONTAINERS:
        return False
    containers: list[Any] = [value]
    remaining_values = _MAX_PLAIN_VALUES
    while containers:
        remaining_values -= sum(map(len, containers))
        # This also ends for containers that contain themselves.
        if remaining_values < 0:
            return False
        items = list(chain.from_iterable(map(_iter_items, containers)))
        container_types = set(map(address_of, map(type, items))) - ATOMS
        if not container_types <= _CONTAINERS:
            return False
        containers = []
        if container_types:
            containers = [item for item in items if address_of(type(item)) not in ATOMS]
    return True


def _iter_items(container: Any) -> Iterable[object]:
    """Return the items of a list or tuple, or the keys and values of a dict."""
    if type(container) is dict:
        return chain(container, container.values())
    return container  # type: ignore[no-any-return]
