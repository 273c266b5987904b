"""Compares the kernel with the state before a step, and plans how to restore what differs.

The kernel and the checkpoint walk the same objects. Without a checkpoint, only names are
restored."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from ..values.objects import MISSING, Classes, address_of, is_module, own_dict, run_with_timeout
from .actions import Action, Unrestored
from .checkpoint_process import Checkpoint
from .connections import is_connection
from .earlier_state import NUMBERS_PER_OBJECT, Row, States, format_label, unpack_numbers, walk_state
from .graph import Graph
from .kinds import Kinds
from .libraries import AttributeChange, LibrarySnapshot, ReleasedObject
from .memory import CheckpointMemory, MemorySpan
from .open_files import file_label
from .plan import RECREATE_TIMEOUT_S, MemoryCopy, Plan
from .reduction import load_state
from .side_state import SideState
from .step import Step

ANSWER_TIMEOUT_S = 60.0
"""For an answer of the checkpoint."""
_MAX_NUMBERS = 1_000
"""Items of a list or dict in which descriptors are looked for."""
_PLAIN_CONTAINERS = Classes(list, tuple, set, frozenset)

# Reasons why something is not restored, as the user reads them.
_OPEN_FILE = "an open file cannot be restored"
_UNKNOWN_FILE = "not compared: what was read from this file or written to it stays so"
_CONNECTION = "the settings and tables of a connection stay as they are"
_UNKNOWN_CONNECTION = "the settings and tables of this connection were not compared"
_LOADED_SINCE = "not compared: it was only loaded when it was used, so what was set in it stays"
_ENDED = "it has ended and does not come back"
_NOT_REACHED = "there was not enough time to compare it: changes in it stay"


def plan_undo(
    steps: list[Step],
    checkpointed: Step | None,
    namespace: dict[str, object],
    kinds: Kinds,
    scheduled: Sequence[object],
    *,
    is_preview: bool,
) -> Plan:
    """Plan how to restore the state before the first step.

    Args:
        steps: Those to undo, the oldest first.
        checkpointed: The first of them with a checkpoint; None if there is none.
        namespace: The user's.
        kinds: Of the kernel's objects.
        scheduled: Tasks and callbacks that wait.
        is_preview: Whether the plan is only reported: no object is created again, because its end
            would run code.

    Raises:
        CheckpointError: The checkpoint does not answer.
        UnreadableMemoryError: Its memory cannot be read.
        Exception: Anything that creating an object again raises.
    """
    first_step = steps[0]
    mentioned = tuple(dict.fromkeys(name for step in steps for name in step.mentioned))
    if checkpointed is None:
        names = first_step.live_names(namespace)
        ended_names = [name for name in first_step.names if name not in names]
        # A name whose object has ended stays as it is now.
        present_values = {name: namespace[name] for name in ended_names if name in namespace}
        plan = Plan({**present_values, **names}, Graph(kinds))
        plan.not_restored += [Unrestored(format_label(name), _ENDED) for name in ended_names]
        uncompared_steps = steps
    else:
        plan = _compare_with_checkpoint(
            first_step, checkpointed, mentioned, namespace, is_preview=is_preview
        )
        uncompared_steps = steps[: steps.index(checkpointed)]

    inside_changes = [
        Unrestored("", f"Changes inside objects stay: {step.failure}.")
        for step in uncompared_steps
        if step.changes_inside
    ]
    side_effects = dict.fromkeys(effect for step in steps for effect in step.side_effects)
    plan.not_restored[:0] = [*inside_changes, *side_effects]
    _add_side_state(plan, steps, kinds, frozenset(mentioned))
    _add_libraries(plan, steps, frozenset(mentioned))
    plan.not_restored += first_step.find_new_work(scheduled)
    return plan


def _compare_with_checkpoint(
    step: Step,
    checkpointed: Step,
    mentioned: tuple[str, ...],
    namespace: dict[str, object],
    *,
    is_preview: bool,
) -> Plan:
    """Compare the kernel with the state before a step, and fetch what differs.

    Args:
        checkpointed: The step with the checkpoint: this one, or the first one after it that has any.
        mentioned: Names in the cells' code.
        namespace: The user's.
        is_preview: See `plan_undo`.
    """
    checkpoint = checkpointed.checkpoint
    assert checkpoint is not None
    graph = Graph(Kinds(namespace))
    names = step.live_names(namespace)

    # Both processes walk through their objects at the same time.
    unreached_names: set[str] = set()
    rows, unreached_there = checkpoint.ask(
        ("describe", step.serial, list(mentioned)),
        ANSWER_TIMEOUT_S,
        lambda: unreached_names.update(walk_state(graph, step, names, mentioned)),
    )
    unreached_names.update(unreached_there)
    kept_alive = set(map(address_of, (*step.live_objects(), *names.values())))
    matches = _match_objects(unpack_numbers(rows), graph, step.ended(), kept_alive)
    written_spans = checkpointed.written_since(copy.memory for copy in matches.same_object)
    copies = [*_find_changed_memory(matches.same_object, written_spans, checkpoint), *matches.moved]

    rebound_names = [
        name
        for name in step.names
        if name not in names or namespace.get(name, MISSING) is not names[name]
    ]
    states = _fetch_states(checkpoint, matches, copies, rebound_names)
    earlier_rows = _load_rows(states, graph, namespace, is_preview=is_preview)
    recreated = {name: value for is_name, name, value in earlier_rows if is_name}
    alive = {address: graph.nodes[address].value for address in matches.alive}
    plan = Plan(_earlier_names(step, namespace, alive, recreated), graph)
    plan.states = [
        (graph.nodes[address].value, values)
        for is_name, address, values in earlier_rows
        if not is_name
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
    question = ("collect_states", *(item.tobytes() for item in addresses), rebound_names)
    return States(*checkpoint.ask(question, ANSWER_TIMEOUT_S))


def _load_rows(
    states: States, graph: Graph, namespace: dict[str, object], *, is_preview: bool
) -> list[Row]:
    """Return the earlier values of objects and names, and create the objects that are gone.

    Args:
        states: The checkpoint's answer.
        graph: Of the kernel's objects, to which these values refer.
        namespace: The user's.
        is_preview: See `plan_undo`.

    Raises:
        Exception: Anything that creating an object again raises.
    """
    if is_preview:
        return [(True, name, object()) for name in states.created]
    rows: list[Row] = run_with_timeout(
        RECREATE_TIMEOUT_S,
        lambda: load_state(states.payload, lambda address: graph.nodes[address].value, namespace),
    )
    return rows


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


def _add_side_state(plan: Plan, steps: list[Step], kinds: Kinds, mentioned: frozenset[str]) -> None:
    """Add what the kernel noted before the first cell that may have changed an object in place."""
    first_step = next((step for step in steps if step.changes_inside), None)
    if first_step is None:
        return

    mentioned_values = [plan.names.get(name) for name in mentioned]
    process = first_step.process
    side_state = first_step.side_state
    if process is not None:
        _add_settings(plan, process.find_changes(mentioned, mentioned_values))
    compared_files: set[int] = set()
    if side_state is not None:
        _add_files_and_connections(plan, side_state, mentioned)
        compared_files = side_state.file_descriptors()
    if process is not None:
        # A module of the user's may have descriptors in it, too. Those of libraries are full of other
        # numbers.
        for module in list(filter(is_module, mentioned_values)):
            if kinds.is_user_defined(module):
                mentioned_values += [
                    value for name, value in own_dict(module).items() if name != "__builtins__"
                ]
        descriptors = _find_numbers(mentioned_values)
        plan.not_restored += process.find_descriptor_changes(compared_files, descriptors)
        plan.not_restored += process.find_lasting_calls(mentioned, mentioned_values)


def _add_settings(plan: Plan, actions: dict[str, Action | None]) -> None:
    """Add the settings that have changed.

    Args:
        plan: Gets them.
        actions: What restores each, by its label; None if it cannot be restored.
    """
    for label, action in actions.items():
        if action is None:
            plan.not_restored.append(Unrestored(label, "this setting cannot be restored"))
        else:
            plan.actions.append(action)
            plan.inside.append(label)


def _add_files_and_connections(
    plan: Plan, side_state: SideState, mentioned: frozenset[str]
) -> None:
    """Add what has changed of open files and of connections, and threads that have started."""
    for value, action in side_state.find_differences():
        names = plan.find_names(value)
        if action is not None:
            plan.actions.append(action)
            plan.inside += names
            continue
        is_file = not is_connection(type(value))
        reason = _OPEN_FILE if is_file else _CONNECTION
        if is_file and not names:
            names = [file_label(value)]
        plan.not_restored += [Unrestored(name, reason) for name in names]
    plan.not_restored += side_state.find_started_threads()
    _add_unknown_files(plan, side_state, mentioned)
    _add_unknown_connections(plan, side_state, mentioned)


def _find_numbers(values: Iterable[Any], depth: int = 2) -> set[int]:
    """Return the numbers among values, and in lists, dicts and attributes of other objects than
    modules.

    Args:
        values: Where to look.
        depth: How deep in each other these may be.
    """
    numbers: set[int] = set()
    for value in values:
        if type(value) is int:
            numbers.add(value)
        elif depth and type(value) in _PLAIN_CONTAINERS:
            numbers |= _find_numbers(islice(value, _MAX_NUMBERS), depth - 1)
        elif depth and not is_module(value):
            items = value if type(value) is dict else own_dict(value)
            numbers |= _find_numbers(islice(dict.values(items), _MAX_NUMBERS), depth - 1)
    return numbers


def _add_unknown_files(plan: Plan, side_state: SideState, mentioned: frozenset[str]) -> None:
    """Add the files that the code mentions and that cannot be compared."""
    reported_names = {entry.name for entry in plan.not_restored}
    for file in side_state.find_unknown_files():
        names = mentioned.intersection(plan.find_names(file)) - reported_names
        plan.not_restored += [Unrestored(name, _UNKNOWN_FILE) for name in sorted(names)]
        reported_names |= names


def _add_unknown_connections(plan: Plan, side_state: SideState, mentioned: frozenset[str]) -> None:
    """Add the connections that the code mentions and whose settings cannot be compared."""
    reported_names = {entry.name for entry in plan.not_restored}
    for connection, reason in side_state.find_unknown_connections():
        names = mentioned.intersection(plan.find_names(connection)) - reported_names
        sentence = f"{_UNKNOWN_CONNECTION} ({reason})"
        plan.not_restored += [Unrestored(name, sentence) for name in sorted(names)]
        reported_names |= names


def _add_libraries(plan: Plan, steps: list[Step], mentioned: frozenset[str]) -> None:
    """Add what the cells replaced in libraries. Of several snapshots of one, the oldest counts."""
    first_snapshots: dict[int, LibrarySnapshot] = {}
    for step in steps:
        for library in step.libraries:
            first_snapshots.setdefault(address_of(library.holder), library)
    settings = frozenset(plan.inside)
    for library in first_snapshots.values():
        if library.was_loaded_since:
            plan.not_restored.append(Unrestored(f"module {library.label}", _LOADED_SINCE))
            continue
        registry_action = library.registry_action()
        if registry_action is not None:
            plan.inside.append(f"{library.label}.register")
            plan.actions.append(registry_action)
        _add_contents(plan, library)
        for change in library.iter_changes(mentioned):
            # Some settings of libraries are attributes, too.
            if f"{library.label}.{change.name}" not in settings:
                _add_attribute(plan, library, change)


def _add_attribute(plan: Plan, library: LibrarySnapshot, change: AttributeChange) -> None:
    """Add how to put back an attribute of a library, or that this is impossible."""
    label = f"{library.label}.{change.name}"
    old_value = change.old_value
    if type(old_value) is ReleasedObject:
        old_value = old_value.value(None)
        if old_value is MISSING:
            plan.not_restored.append(Unrestored(label, _ENDED))
            return
    plan.inside.append(label)
    put = partial(library.set_attribute, change.name)
    plan.actions.append(Action(partial(put, old_value), partial(put, change.new_value)))


def _add_contents(plan: Plan, library: LibrarySnapshot) -> None:
    """Add what the cells changed in a library's lists, dicts and sets."""
    reported = frozenset(plan.inside)
    for container in library.contents:
        change = container.find_change()
        if change is None or change.label in reported:
            continue
        if change.apply is None:
            plan.not_restored.append(Unrestored(change.label, _ENDED))
            continue
        plan.actions.append(Action(change.apply, change.revert))
        if change.label not in plan.inside:
            plan.inside.append(change.label)
