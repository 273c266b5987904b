"""Compares the objects of the kernel with those of a checkpoint, and plans how to restore what differs.

Both processes walk through the same objects at the same time. The checkpoint (`earlier_state`) describes each
of its own in a few numbers, by which the kernel finds them among its own, and then hands out the states of
those that have changed, and the objects that are gone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..values.objects import MISSING, address_of, run_with_timeout
from .actions import Unrestored
from .checkpoint_memory import CheckpointMemory
from .checkpoint_process import Checkpoint
from .earlier_state import (
    COLLECT_STATES,
    DESCRIBE,
    NUMBERS_PER_OBJECT,
    EarlierValue,
    States,
    unpack_numbers,
    walk_state,
)
from .graph import Graph
from .kinds import Kinds
from .libraries import ReleasedObject
from .memory import MemorySpan
from .plan import RECREATE_TIMEOUT_S, MemoryCopy, Plan
from .reduction import load_state
from .step import Step

ANSWER_TIMEOUT_S = 60.0
"""For an answer of the checkpoint."""
_NOT_REACHED = "there was not enough time to compare it: changes in it stay"


def compare_with_checkpoint(
    step: Step,
    checkpointed: Step,
    mentioned: tuple[str, ...],
    namespace: dict[str, object],
    *,
    is_preview: bool,
) -> Plan:
    """Compare the kernel with the state before a step, and fetch what differs.

    Args:
        step: The step.
        checkpointed: The step with the checkpoint: this one, or the first one after it that has any.
        mentioned: Names in the cells' code.
        namespace: The user's.
        is_preview: Whether the plan is only reported: no object is created again, because its end
            would run code.

    Returns:
        How to restore the names and the objects.

    Raises:
        CheckpointError: The checkpoint does not answer.
        UnreadableMemoryError: Its memory cannot be read.
        Exception: Anything that creating an object again raises.
    """
    checkpoint = checkpointed.checkpoint
    assert checkpoint is not None
    graph = Graph(Kinds(namespace))
    names = step.live_names(namespace)

    # Both processes walk through their objects at the same time.
    unreached_names: set[str] = set()
    rows, unreached_there = checkpoint.ask(
        (DESCRIBE, step.serial, list(mentioned)),
        ANSWER_TIMEOUT_S,
        lambda: unreached_names.update(walk_state(graph, step, names, mentioned)),
    )
    unreached_names.update(unreached_there)
    kept_alive = set(map(address_of, (*step.live_objects(), *names.values())))
    matches = _match_objects(unpack_numbers(rows), graph, step.ended_addresses(), kept_alive)
    written_spans = checkpointed.written_since(copy.memory for copy in matches.same_object)
    copies = [*_find_changed_memory(matches.same_object, written_spans, checkpoint), *matches.moved]

    rebound_names = [
        name
        for name in step.names
        if name not in names or namespace.get(name, MISSING) is not names[name]
    ]
    states = _fetch_states(checkpoint, matches, copies, rebound_names)
    earlier_rows = _load_rows(states, graph, namespace, is_preview=is_preview)
    recreated = {row.key: row.value for row in earlier_rows if row.is_name}
    alive = {address: graph.nodes[address].value for address in matches.alive}
    plan = Plan(_earlier_names(step, namespace, alive, recreated), graph)
    plan.states = [
        (graph.nodes[row.key].value, row.value) for row in earlier_rows if not row.is_name
    ]
    plan.copies = copies
    plan.inside = states.changed
    plan.variables = states.variables
    plan.repeated_ends = [Unrestored(*item) for item in states.ended]
    plan.not_restored = [
        *(Unrestored(*item) for item in states.not_restored),
        *(Unrestored(name, _NOT_REACHED) for name in sorted(unreached_names)),
    ]
    return plan


def _fetch_states(
    checkpoint: Checkpoint,
    matches: _Matches,
    copies: Iterable[MemoryCopy],
    rebound_names: list[str],
) -> States:
    """Ask the checkpoint for the earlier states of what differs.

    Args:
        checkpoint: The process that has them.
        matches: The objects that live in both processes.
        copies: The arrays whose memory is written back.
        rebound_names: The names that have other objects now.
    """
    changed_memory = array("q", [address_of(copy.array) for copy in copies])
    addresses = (matches.alive, matches.changed, changed_memory)
    question = (COLLECT_STATES, *(item.tobytes() for item in addresses), rebound_names)
    return States(*checkpoint.ask(question, ANSWER_TIMEOUT_S))


def _load_rows(
    states: States, graph: Graph, namespace: dict[str, object], *, is_preview: bool
) -> list[EarlierValue]:
    """Return the earlier values of objects and names, and create the objects that are gone.

    Args:
        states: The checkpoint's answer.
        graph: Of the kernel's objects, to which these values refer.
        namespace: The user's.
        is_preview: See `compare_with_checkpoint`.

    Raises:
        Exception: Anything that creating an object again raises.
    """
    if is_preview:
        return [EarlierValue(True, name, object()) for name in states.created]
    rows: list[tuple[bool, Any, Any]] = run_with_timeout(
        RECREATE_TIMEOUT_S,
        lambda: load_state(states.payload, lambda address: graph.nodes[address].value, namespace),
    )
    return [EarlierValue(*row) for row in rows]


class _Matches(NamedTuple):
    """Objects that live in the checkpoint and in the kernel."""

    alive: array[int]
    """Addresses of all."""
    changed: array[int]
    """Addresses of those with another state."""
    same_object: list[MemoryCopy]
    """The arrays whose memory is where it was."""
    moved: list[MemoryCopy]
    """The arrays whose memory is elsewhere."""


def _match_objects(
    rows: array[int], graph: Graph, ended_addresses: set[int], kept_alive: set[int]
) -> _Matches:
    """Find the objects of a checkpoint in the kernel.

    Args:
        rows: The objects of the checkpoint, as `CheckpointResponder` describes them.
        graph: Of the kernel's objects.
        ended_addresses: Addresses of objects that have ended since.
        kept_alive: Addresses of objects that are surely the same.
    """
    matches = _Matches(array("q"), array("q"), [], [])
    for offset in range(0, len(rows), NUMBERS_PER_OBJECT):
        numbers = rows[offset : offset + NUMBERS_PER_OBJECT]
        address, cls, fixed, mutable_state, *memory = numbers
        node = graph.nodes.get(address)
        if node is None or address in ended_addresses or node.state[:2] != (cls, fixed):
            continue
        # A new array may lie where one with other dimensions was, whose views would not fit it.
        is_changed = node.mutable_state != mutable_state
        if is_changed and memory[1] and address not in kept_alive:
            continue
        matches.alive.append(address)
        if is_changed:
            matches.changed.append(address)
        if memory[1]:
            span = MemorySpan(*memory)
            if node.memory == span:
                copies = matches.same_object
            else:
                copies = matches.moved
            copies.append(MemoryCopy(node.value, span, [span]))
    return matches


def _find_changed_memory(
    copies: list[MemoryCopy],
    written_spans: dict[MemorySpan, list[MemorySpan]],
    checkpoint: Checkpoint,
) -> Iterator[MemoryCopy]:
    """Yield the copies that are needed, of what differs only.

    Args:
        copies: The whole memory of arrays.
        written_spans: The parts of each memory that may have been written since.
        checkpoint: The process that has their earlier memory.
    """
    memory = CheckpointMemory(checkpoint.pid)
    for copy in copies:
        spans = [
            span for span in memory.touched(written_spans[copy.memory]) if memory.differs(span)
        ]
        if spans:
            yield copy._replace(spans=spans)


def _earlier_names(
    step: Step, namespace: dict[str, object], alive: dict[int, Any], recreated: dict[str, object]
) -> dict[str, object]:
    """Return the objects of the names; for one that cannot come back, what the name has now."""
    names = {}
    for name, value in step.names.items():
        if name in recreated:
            names[name] = recreated[name]
        elif type(value) is not ReleasedObject:
            names[name] = value
        elif value.address in alive:
            names[name] = alive[value.address]
        elif name in namespace:
            names[name] = namespace[name]
    return names
