"""Compares the kernel with a checkpoint, and restores what differs.

Both walk the same objects. The checkpoint describes each in a few numbers; the kernel asks for the
states that differ."""

from __future__ import annotations

import contextlib
import time
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ..objects import (
    ATOMS,
    MISSING,
    address_of,
    class_module,
    get_if_loaded,
    is_subclass,
    name_of,
    run_with_timeout,
)
from ..variables import HIDDEN, describe_variable
from .checkpoint import Checkpoint, dump_state, load_state, run_in_fork
from .graph import Graph, Kinds
from .library_parts import is_mapped
from .memory import CheckpointMemory, Span, UnreadableMemoryError, find_memory, plain_array
from .parts import Values, file_class
from .process_state import Action, LibrarySnapshot, NotRestored, ReleasedObject, SideState

if TYPE_CHECKING:
    from .history import Step

MENTIONED_TIMEOUT = 20.0
"""Seconds for what a cell mentions, and for everything else."""
OTHERS_TIMEOUT = 2.0
ANSWER_TIMEOUT = 60.0
RECREATE_TIMEOUT = 10.0
"""Seconds for creating objects again, which may run the user's own code."""
DUMP_ALL_TIMEOUT = 10.0
"""Seconds for writing all objects at once, for one, and one by one."""
DUMP_EACH_TIMEOUT = 2.0
DUMP_TOTAL_TIMEOUT = 20.0


def _walk(graph: Graph, step: Step, names: dict[str, Any], first: Iterable[str]) -> list[str]:
    """Walk through the state before a step, mentioned names first; return the names not reached in
    time."""
    early = [name for name in dict.fromkeys(first) if name in names]
    left = _walk_names(graph, {name: names[name] for name in early}, MENTIONED_TIMEOUT)
    graph.add(
        (*(value for _, value in graph.kinds.shared_objects), *step.live_objects()),
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


def format_label(name: Any) -> str:
    """Return a name; for one that is no text, how code gets at it."""
    if type(name) is str:
        return name
    plain = address_of(type(name)) in ATOMS
    return f"globals()[{name!r}]" if plain else f"globals()[a {name_of(type(name))}]"


def _unpack(data: bytes) -> array[int]:
    found = array("q")
    found.frombytes(data)
    return found


# In a checkpoint.


class States(NamedTuple):
    """The earlier states of objects that differ now."""

    payload: bytes
    """Rows: True, a name and its lost object; or False, a living object's address and values."""
    changed: list[str]
    not_restored: list[tuple[str, str]]
    variables: dict[str, dict[str, Any]]


Row = tuple[bool, Any, Any]


class CheckpointResponder:
    """Answers in a checkpoint. Made before the fork."""

    def __init__(self, namespace: dict[str, Any], find_step: Callable[[int], Step]) -> None:
        self._namespace = namespace
        self._find_step = find_step
        self._graph: Graph
        self._names: dict[str, Any]
        self._first: list[str]

    def __call__(self, question: tuple[Any, ...]) -> Any:
        name, *args = question
        if name == "describe":
            return self._describe(*args)
        return tuple(self._collect_states(*args))

    def _describe(self, serial: int, first: list[str]) -> tuple[bytes, list[str]]:
        """Return all objects, six numbers for each (address and `Node.state`), and the names not
        seen in time."""
        step, self._first = self._find_step(serial), first
        self._graph, self._names = Graph(Kinds(self._namespace)), step.live_names(self._namespace)
        unseen = _walk(self._graph, step, self._names, first)
        rows: array[int] = array("q")
        for address, node in self._graph.nodes.items():
            rows.extend((address, *node.state))
        return rows.tobytes(), unseen

    def _collect_states(
        self, alive_data: bytes, changed_data: bytes, written_data: bytes, asked: list[str]
    ) -> States:
        """Return the earlier states of what differs. alive, changed, written: addresses of objects
        that live in both processes; of those with another state; of those with other memory."""
        graph = self._graph
        names = self._names
        nodes = graph.nodes
        alive = set(_unpack(alive_data))
        changed = set(_unpack(changed_data))

        # Also send containers of freed objects, whose addresses belong to something else now.
        pending = [address for address in nodes if address not in alive]
        holders = graph.find_holders()
        while pending:
            child = pending.pop()
            for holder in alive.intersection(holders.get(child, ())):
                if graph.kinds.is_fixed(child, nodes[holder].value):
                    alive.discard(holder)
                    changed.discard(holder)
                    pending.append(holder)
                else:
                    changed.add(holder)

        inside = self._labels(changed | set(_unpack(written_data)) | (nodes.keys() - alive))
        rows: list[Row] = [
            (False, address, self._state(nodes[address].value)) for address in changed
        ]
        for name, value in names.items():
            if address_of(value) in nodes and address_of(value) not in alive:
                rows.append((True, name, value))
        payload, lost = self._dump(rows, alive)
        described = [name for name in {*inside, *asked} if name in names and type(name) is str]
        return States(
            payload,
            inside,
            lost + self._lost_references(alive) + self._uncomparable(),
            {name: describe_variable(name, names[name]) for name in described},
        )

    def _state(self, value: Any) -> list[Values]:
        parts = self._graph.kinds.kind(value).parts
        return [part.read(value) for part in parts if part.write is not None]

    def _dump(self, rows: list[Row], alive: set[int]) -> tuple[bytes, list[tuple[str, str]]]:
        """Return rows as bytes, and the names of what cannot be written, with the reason."""
        write = partial(dump_state, alive=alive, namespace=self._namespace)

        def dump_all(rows: list[Row]) -> bytes | str:
            (data,) = run_in_fork([rows], write, DUMP_ALL_TIMEOUT, DUMP_ALL_TIMEOUT)
            return data

        whole = dump_all(rows)
        if isinstance(whole, bytes):
            return whole, []
        results = list(run_in_fork(rows, write, DUMP_EACH_TIMEOUT, DUMP_TOTAL_TIMEOUT))
        whole = dump_all([row for row, data in zip(rows, results) if isinstance(data, bytes)])
        lost: dict[str, str] = {}
        for (is_name, key, _), data in zip(rows, results):
            if isinstance(whole, str) or isinstance(data, str):
                why = data if isinstance(data, str) else "it cannot be transferred with the others"
                labels = [format_label(key)] if is_name else self._labels([key])
                lost.update(dict.fromkeys(labels, why))
        return write([]) if isinstance(whole, str) else whole, list(lost.items())

    def _lost_references(self, alive: set[int]) -> list[tuple[str, str]]:
        """Return the names of weak references to objects that must be made again."""
        nodes = self._graph.nodes
        ended = [node.value for address, node in nodes.items() if address not in alive]
        references = [
            address_of(reference)
            for value in ended
            if self._graph.kinds.kind(value).referable
            for reference in weakref.getweakrefs(value)
        ]
        return [(name, _LOST_REFERENCE) for name in self._labels(alive.intersection(references))]

    def _uncomparable(self) -> list[tuple[str, str]]:
        """Return the mentioned names that lead to objects not all of which can be compared."""
        by_type: dict[str, list[int]] = {}
        for address, node in self._graph.nodes.items():
            cls = type(node.value)
            if not node.known and file_class(cls) is None:
                by_type.setdefault(_describe_uncomparable(node.value), []).append(address)
        mentioned = set(self._first)
        return [
            (name, f"not compared: {reason}")
            for reason, addresses in by_type.items()
            for name in self._labels(addresses)
            if name in mentioned
        ]

    def _labels(self, addresses: Iterable[int]) -> list[str]:
        reached = self._graph.ancestors(addresses)
        named = [*self._names.items(), *self._graph.kinds.shared_objects]
        return [format_label(name) for name, value in named if address_of(value) in reached]


def _describe_uncomparable(value: Any) -> str:
    """Return why an object is not compared, as a clause."""
    cls = type(value)
    if is_subclass(cls, get_if_loaded("numpy", "ndarray")):
        dtype = plain_array(value).dtype
        if dtype.hasobject and dtype.names is not None:
            return "undo does not handle arrays of records that contain objects"
        if is_mapped(get_if_loaded("numpy", "ndarray").base.__get__(value)):
            return "others may write to its memory, which belongs to a file"
    module = class_module(cls)
    prefix = "" if module in ("builtins", "__main__", "") else f"{module}."
    return f"undo does not know what {prefix}{name_of(cls)} stores"


# In the kernel.


class Copy(NamedTuple):
    array: Any
    memory: Span
    """Where it was."""
    spans: list[Span]


class Plan:
    def __init__(self, names: dict[str, Any], graph: Graph) -> None:
        self.names = names
        self.graph = graph
        self.states: list[tuple[Any, list[Values]]] = []
        self.copies: list[Copy] = []
        self.actions: list[Action] = []
        self.inside: list[str] = []
        self.not_restored: list[NotRestored] = []
        self.variables: dict[str, dict[str, Any]] = {}

    def apply(
        self, namespace: dict[str, Any], checkpoint: Checkpoint | None, now: Checkpoint | None
    ) -> None:
        """Put everything in place; if a step fails, reverse all. checkpoint, now: of the state to
        restore, and of the present one."""
        actions = self.actions + run_with_timeout(
            RECREATE_TIMEOUT, lambda: list(self._state_actions())
        )
        before = dict(namespace)
        done: list[Action] = []
        pieces: list[tuple[Span, Span]] = []
        try:
            for action in actions:
                done.append(action)
                action.apply()
            if checkpoint is not None:
                pieces = list(self._pieces())
                other = CheckpointMemory(checkpoint.pid)
                for there, here in pieces:
                    other.copy(there, here.start, drop=now is not None)
            _bind_names(namespace, self.names)
        except BaseException:
            if now is not None:
                other = CheckpointMemory(now.pid)
                for _, here in pieces:
                    with contextlib.suppress(UnreadableMemoryError):
                        other.copy(here, here.start)
            for action in reversed(done):
                action.revert()
            _bind_names(namespace, before)
            raise

    def _state_actions(self) -> Iterator[Action]:
        for value, states in self.states:
            parts = [part for part in self.graph.kinds.kind(value).parts if part.write is not None]
            for part, values in zip(parts, states):
                yield Action(part.prepare(value, values), part.prepare(value, part.read(value)))

    def _pieces(self) -> Iterator[tuple[Span, Span]]:
        for copy in self.copies:
            memory = find_memory(copy.array)
            if memory is None or memory.size != copy.memory.size:
                raise ValueError("an array has a different size now")
            moved = memory.start - copy.memory.start
            yield from ((span, Span(span.start + moved, span.end + moved)) for span in copy.spans)

    def report(self, namespace: dict[str, Any]) -> dict[str, Any]:
        changes: list[dict[str, Any]] = []
        inside = set(self.inside)
        for name in dict.fromkeys((*namespace, *self.names)):
            if type(name) is not str or name in HIDDEN:
                continue
            now, then = namespace.get(name, MISSING), self.names.get(name, MISSING)
            if now is then and name not in inside:
                continue
            before = after = None
            change = "changed" if now is then else "rebound"
            if then is MISSING:
                change = "deleted"
            else:
                after = self.variables.get(name) or describe_variable(name, then)
            if now is MISSING:
                change = "added"
            else:
                before = describe_variable(name, now)
            changes.append({"name": name, "change": change, "variable": after, "before": before})
        for label in dict.fromkeys(self.inside):
            if label in self.names:
                continue
            thing = {"name": label, "type": "", "summary": "", "kind": "data"}
            changes.append({"name": label, "change": "changed", "variable": thing, "before": thing})
        unrestored = [each._asdict() for each in self.not_restored]
        return {"changes": changes, "not_restored": unrestored, "exact": not unrestored}

    def find_names(self, value: Any) -> list[str]:
        reached = self.graph.ancestors([address_of(value)])
        return [name for name, each in self.names.items() if address_of(each) in reached]


def _bind_names(namespace: dict[str, Any], names: dict[str, Any]) -> None:
    for name in list(namespace):
        if name not in names:
            namespace.pop(name, None)
    for name, value in names.items():
        if namespace.get(name, MISSING) is not value:
            namespace[name] = value


def plan_undo(
    steps: list[Step],
    checkpointed: Step | None,
    namespace: dict[str, Any],
    kinds: Kinds,
    scheduled: Sequence[Any],
) -> Plan:
    """Plan how to restore the state before the first step. checkpointed: the first with a
    checkpoint. scheduled: tasks and callbacks that wait. Raises `CheckpointError`,
    `UnreadableMemoryError`, and what creating an object raises."""
    first = steps[0]
    mentioned = tuple(dict.fromkeys(name for step in steps for name in step.mentioned))
    if checkpointed is None:
        names = first.live_names(namespace)
        gone = [name for name in first.names if name not in names]
        plan = Plan(
            {**{name: namespace[name] for name in gone if name in namespace}, **names}, Graph(kinds)
        )
        plan.not_restored += [NotRestored(format_label(name), _ENDED) for name in gone]
    else:
        plan = _compare_with_checkpoint(first, checkpointed, mentioned, namespace)
    unseen = steps if checkpointed is None else steps[: steps.index(checkpointed)]
    plan.not_restored[:0] = [
        *(
            NotRestored("", f"Changes inside objects stay: {step.failure}.")
            for step in unseen
            if step.changes_inside
        ),
        *dict.fromkeys(effect for step in steps for effect in step.side_effects),
    ]
    _add_side_state(plan, steps, frozenset(mentioned))
    _add_libraries(plan, steps, frozenset(mentioned))
    plan.not_restored += first.find_new_work(scheduled)
    return plan


_OPEN_FILE = "an open file cannot be restored"
_LOST_REFERENCE = "a weak reference does not come back: what it led to is made again"
_UNKNOWN_FILE = "not compared: what was read from this file or written to it stays so"
_ENDED = "it has ended and does not come back"


class _Matches(NamedTuple):
    alive: array[int]
    changed: array[int]
    same_object: list[Copy]
    """Memory is where it was."""
    moved: list[Copy]


def _match(rows: array[int], graph: Graph, ended: set[int], kept_alive: set[int]) -> _Matches:
    """Find the objects of a checkpoint in the kernel. kept_alive: addresses of those that are surely
    the same."""
    matches = _Matches(array("q"), array("q"), [], [])
    for offset in range(0, len(rows), 6):
        address, cls, fixed, mutable_state, *memory = rows[offset : offset + 6]
        node = graph.nodes.get(address)
        if node is None or address in ended or node.state[:2] != (cls, fixed):
            continue
        # An array may lie where one with other dimensions was, whose views would not fit it.
        is_changed = node.mutable_state != mutable_state
        if is_changed and memory[1] and address not in kept_alive:
            continue
        matches.alive.append(address)
        if is_changed:
            matches.changed.append(address)
        if memory[1]:
            span = Span(*memory)
            copies = matches.same_object if node.memory == span else matches.moved
            copies.append(Copy(node.value, span, [span]))
    return matches


def _find_changed(
    copies: list[Copy], written: dict[Span, list[Span]], checkpoint: Checkpoint
) -> Iterator[Copy]:
    other = CheckpointMemory(checkpoint.pid)
    for copy in copies:
        spans = [span for span in other.touched(written[copy.memory]) if other.differs(span)]
        if spans:
            yield copy._replace(spans=spans)


def _compare_with_checkpoint(
    step: Step, checkpointed: Step, mentioned: tuple[str, ...], namespace: dict[str, Any]
) -> Plan:
    """Compare the kernel with the state before a step, and fetch what differs."""
    checkpoint = checkpointed.checkpoint
    assert checkpoint is not None
    graph = Graph(Kinds(namespace))
    names = step.live_names(namespace)
    unseen: set[str] = set()
    rows, unseen_there = checkpoint.ask(
        ("describe", step.serial, list(mentioned)),
        ANSWER_TIMEOUT,
        lambda: unseen.update(_walk(graph, step, names, mentioned)),
    )
    kept_alive = set(map(address_of, (*step.live_objects(), *names.values())))
    matches = _match(_unpack(rows), graph, step.ended(), kept_alive)
    written = checkpointed.written_since(copy.memory for copy in matches.same_object)
    copies = [*_find_changed(matches.same_object, written, checkpoint), *matches.moved]
    rebound = [
        name
        for name in step.names
        if name not in names or namespace.get(name, MISSING) is not names[name]
    ]
    changed_memory = array("q", [address_of(copy.array) for copy in copies])
    addresses = (matches.alive, matches.changed, changed_memory)
    states = States(
        *checkpoint.ask(
            ("collect_states", *(each.tobytes() for each in addresses), rebound), ANSWER_TIMEOUT
        )
    )
    nodes = graph.nodes
    loaded: list[Row] = run_with_timeout(
        RECREATE_TIMEOUT,
        lambda: load_state(states.payload, lambda address: nodes[address].value, namespace),
    )
    recreated = {name: value for is_name, name, value in loaded if is_name}
    alive = {address: nodes[address].value for address in matches.alive}
    plan = Plan(_earlier_names(step, namespace, alive, recreated), graph)
    plan.states = [(nodes[key].value, values) for is_name, key, values in loaded if not is_name]
    plan.copies, plan.inside, plan.variables = copies, states.changed, states.variables
    plan.not_restored = [
        *(NotRestored(*each) for each in states.not_restored),
        *(
            NotRestored(name, "there was not enough time to compare it: changes in it stay")
            for name in sorted(unseen.union(unseen_there))
        ),
    ]
    return plan


def _earlier_names(
    step: Step, namespace: dict[str, Any], alive: dict[int, Any], recreated: dict[str, Any]
) -> dict[str, Any]:
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


def _add_side_state(plan: Plan, steps: list[Step], mentioned: frozenset[str]) -> None:
    """Add what the kernel noted before the first cell that may have changed an object in place."""
    first = next((step for step in steps if step.changes_inside), None)
    if first is None:
        return
    settings = {} if first.process is None else first.process.find_changes(mentioned)
    for label, action in settings.items():
        if action is None:
            plan.not_restored.append(NotRestored(label, "this setting cannot be restored"))
        else:
            plan.actions.append(action)
            plan.inside.append(label)
    if first.side_state is not None:
        for value, action in first.side_state.find_differences():
            names = plan.find_names(value)
            if action is None:
                plan.not_restored += [NotRestored(name, _OPEN_FILE) for name in names]
            else:
                plan.actions.append(action)
                plan.inside += names
        plan.not_restored += first.side_state.find_started_threads()
        _add_unknown_files(plan, first.side_state, mentioned)
    if first.process is not None:
        files = set() if first.side_state is None else first.side_state.file_descriptors()
        plan.not_restored += first.process.find_descriptor_changes(files)


def _add_unknown_files(plan: Plan, side_state: SideState, mentioned: frozenset[str]) -> None:
    """Name the files that the code mentions, and that nothing can be said about."""
    reported_names = {entry.name for entry in plan.not_restored}
    for file in side_state.find_unknown_files():
        names = mentioned.intersection(plan.find_names(file)) - reported_names
        plan.not_restored += [NotRestored(name, _UNKNOWN_FILE) for name in sorted(names)]
        reported_names |= names


def _add_libraries(plan: Plan, steps: list[Step], mentioned: frozenset[str]) -> None:
    first: dict[int, LibrarySnapshot] = {}
    for step in steps:
        for library in step.libraries:
            first.setdefault(address_of(library.holder), library)
    settings = frozenset(plan.inside)
    for library in first.values():
        if (action := library.registry_action()) is not None:
            plan.inside.append(f"{library.label}.register")
            plan.actions.append(action)
        for name, then, now in library.iter_changes(mentioned):
            label = f"{library.label}.{name}"
            value = then.value(None) if type(then) is ReleasedObject else then
            if label in settings:
                continue
            if value is MISSING and then is not MISSING:
                plan.not_restored.append(NotRestored(label, _ENDED))
                continue
            plan.inside.append(label)
            put = partial(library.set_attribute, name)
            plan.actions.append(Action(partial(put, value), partial(put, now)))
