"""The state before a step, as a checkpoint describes it to the kernel.

An undo asks a checkpoint twice (`CheckpointResponder`). First the checkpoint describes each of its objects in
a few numbers. The kernel compares them with its own (`restoring`), and asks for the states that differ.

Questions and answers are pickled. They contain none of our classes, because a cell may have removed the
modules from `sys.modules`, by which pickle finds them.
"""

from __future__ import annotations

import time
import weakref
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Callable, NamedTuple

from ..values.objects import ATOMS, address_of, class_module, get_if_loaded, is_subclass, name_of
from ..values.variables import HIDDEN_NAMES, describe_variable
from .array_parts import is_mapped
from .fork_writer import run_in_fork
from .forks import Reply
from .graph import Graph
from .kinds import Kinds, has_del_method
from .memory import plain_array
from .opaque import file_class
from .parts import Values
from .reduction import dump_state
from .step import Step

MENTIONED_TIMEOUT_S = 20.0
"""For walking through what a cell mentions."""

OTHERS_TIMEOUT_S = 2.0
"""For walking through everything else."""

DUMP_ALL_TIMEOUT_S = 10.0
"""For writing all objects at once."""

DUMP_EACH_TIMEOUT_S = 2.0
"""For one object, if they are written one by one."""

DUMP_TOTAL_TIMEOUT_S = 20.0
"""For all objects, if they are written one by one."""

NUMBERS_PER_OBJECT = 6
"""Numbers by which a checkpoint describes an object: its address and `Node.state`."""

DESCRIBE = "describe"
"""The question for all objects. The serial number of a step and the names in its cell's code follow."""
COLLECT_STATES = "collect_states"
"""The question for earlier states. The arguments of `EarlierState.collect_states` follow."""

_NOT_TRANSFERRED = "it cannot be transferred with the others"
_LOST_REFERENCE = "a weak reference does not come back: what it led to is made again"
_LOST_FINALIZER = "what a weak reference or weakref.finalize does at its end is not set up again"
_REPEATED_END = "its __del__ runs once more"
_REPEATED_END_INSIDE = "the __del__ of an object in it runs once more"


class EarlierValue(NamedTuple):
    """An object whose earlier state is handed out. A pickle has a plain tuple in its place."""

    is_name: bool
    """Whether it is gone, and has to be created again for a name."""
    key: Any
    """The name; or the address of the object, which still lives."""
    value: Any
    """The object itself, which the pickle recreates; or the values of its parts that can be written."""


class States(NamedTuple):
    """The earlier states of objects that differ now. The checkpoint answers with a plain tuple."""

    payload: bytes
    """The pickle of rows, as `dump_state` has written it."""
    changed: list[str]
    """Names that lead to an object with another state."""
    not_restored: list[tuple[str, str]]
    """A name and a reason for each."""
    variables: dict[str, dict[str, Any]]
    """Descriptions of the earlier values, by name."""
    created: list[object]
    """The names in `payload`, whose objects are created again."""
    ended: list[tuple[str, str]]
    """Names of objects with a `__del__` that are created again, or lead to such an object, with what
    happens when these end again."""


class _Dump(NamedTuple):
    """Rows as bytes."""

    payload: bytes
    created_names: list[object]
    """The names among the rows."""
    reasons: dict[str, str]
    """Why objects cannot be written, by the labels of the names that lead to them."""


class CheckpointResponder:
    """Answers the kernel's questions in a checkpoint. Created before the fork."""

    def __init__(self, namespace: dict[str, object], find_step: Callable[[int], Step]) -> None:
        """Wait for questions.

        Args:
            namespace: The user's.
            find_step: Returns the step with a serial number.
        """
        self._namespace = namespace
        self._find_step = find_step
        self._earlier: EarlierState | None = None
        """The state that was described last."""

    def __call__(self, question: tuple[Any, ...]) -> Any:
        """Answer `DESCRIBE` or `COLLECT_STATES`, which are asked in this order."""
        kind, *args = question
        if kind == DESCRIBE:
            serial, first_names = args
            self._earlier = EarlierState(self._namespace, self._find_step(serial), first_names)
            return self._earlier.describe()
        if self._earlier is None:
            raise LookupError("no state was described")
        return tuple(self._earlier.collect_states(*args))


class EarlierState:
    """The namespace before a step, and the objects in it."""

    def __init__(self, namespace: dict[str, object], step: Step, first_names: list[str]) -> None:
        """Walk through the objects.

        Args:
            namespace: The user's.
            step: The step.
            first_names: The names that the undone cells mention, which are walked through first.
        """
        self._namespace = namespace
        self._mentioned = first_names
        self._graph = Graph(Kinds(namespace))
        self._names = step.live_names(namespace)
        self._unreached_names = walk_state(self._graph, step, self._names, first_names)

    def describe(self) -> tuple[bytes, list[str]]:
        """Return all objects, six numbers for each (address and `Node.state`), and the names not
        reached in time."""
        rows: array[int] = array("q")
        for address, node in self._graph.nodes.items():
            rows.extend((address, *node.state))
        return rows.tobytes(), self._unreached_names

    def collect_states(
        self,
        alive_data: bytes,
        changed_data: bytes,
        written_data: bytes,
        requested_names: list[str],
    ) -> States:
        """Return the earlier states of what differs.

        Args:
            alive_data: Packed addresses of the objects that live in both processes.
            changed_data: Packed addresses of those with another state.
            written_data: Packed addresses of those with other memory.
            requested_names: Names to describe, besides those that lead to what differs.
        """
        names = self._names
        nodes = self._graph.nodes
        alive = set(unpack_numbers(alive_data))
        changed = set(unpack_numbers(changed_data))
        self._add_holders_of_ended(alive, changed)

        rewritten = set(unpack_numbers(written_data))
        ended = nodes.keys() - alive
        changed_labels = self._labels(changed | rewritten | ended)
        rows = [
            EarlierValue(False, address, self._state(nodes[address].value)) for address in changed
        ]
        rows += [
            EarlierValue(True, name, value)
            for name, value in names.items()
            if address_of(value) in nodes and address_of(value) not in alive
        ]
        dump = self._dump(rows, alive)
        described_names = [
            name
            for name in {*changed_labels, *requested_names}
            if name in names and type(name) is str
        ]
        return States(
            payload=dump.payload,
            changed=changed_labels,
            not_restored=[
                *dump.reasons.items(),
                *self._lost_references(alive, dump.reasons),
                *self._uncomparable(),
            ],
            variables={name: describe_variable(name, names[name]) for name in described_names},
            created=dump.created_names,
            ended=self._repeated_ends(ended, dump.reasons),
        )

    def _add_holders_of_ended(self, alive: set[int], changed: set[int]) -> None:
        """Add the containers of ended objects, whose addresses belong to something else now.

        A container in which such an object can be replaced is changed. Any other must be created
        again, so that it counts as ended too.
        """
        graph = self._graph
        pending = [address for address in graph.nodes if address not in alive]
        holders = graph.find_holders()
        while pending:
            child = pending.pop()
            for holder in alive.intersection(holders.get(child, ())):
                if graph.kinds.is_fixed(child, graph.nodes[holder].value):
                    alive.discard(holder)
                    changed.discard(holder)
                    pending.append(holder)
                else:
                    changed.add(holder)

    def _state(self, value: object) -> list[Values]:
        """Return what an object's parts contain that can be written."""
        parts = self._graph.kinds.kind(value).parts
        return [part.read(value) for part in parts if part.write is not None]

    def _repeated_ends(
        self, ended_addresses: set[int], without: Collection[str]
    ) -> list[tuple[str, str]]:
        """Return `States.ended`.

        Args:
            ended_addresses: Addresses of objects that do not live any more.
            without: Labels of what cannot be created again.
        """
        addresses = {
            address
            for address in ended_addresses
            if has_del_method(type(self._graph.nodes[address].value))
        }
        own_labels = {
            format_label(name)
            for name, value in self._names.items()
            if address_of(value) in addresses
        }
        return [
            (label, _REPEATED_END if label in own_labels else _REPEATED_END_INSIDE)
            for label in self._labels(addresses)
            if label not in without
        ]

    def _dump(self, rows: list[EarlierValue], alive: set[int]) -> _Dump:
        """Write rows, without those whose objects cannot be written.

        Args:
            rows: The rows.
            alive: The addresses of the objects that the kernel also has.
        """

        def write(rows: Sequence[EarlierValue]) -> bytes:
            return dump_state(list(map(tuple, rows)), alive, self._namespace)

        def write_together(rows: list[EarlierValue]) -> Reply:
            (reply,) = run_in_fork([rows], write, DUMP_ALL_TIMEOUT_S, DUMP_ALL_TIMEOUT_S)
            return reply

        reply = write_together(rows)
        if isinstance(reply, bytes):
            return _Dump(reply, _row_names(rows), {})

        # Find out which rows cannot be written, and write the others together, so that they share
        # objects as before.
        single_rows = [[row] for row in rows]
        replies = list(run_in_fork(single_rows, write, DUMP_EACH_TIMEOUT_S, DUMP_TOTAL_TIMEOUT_S))
        reasons: dict[str, str] = {}
        writable_rows: list[EarlierValue] = []
        for row, single_reply in zip(rows, replies):
            if isinstance(single_reply, str):
                reasons.update(dict.fromkeys(self._row_labels(row), single_reply))
            else:
                writable_rows.append(row)
        reply = write_together(writable_rows)
        if isinstance(reply, bytes):
            return _Dump(reply, _row_names(writable_rows), reasons)

        for row in writable_rows:
            for label in self._row_labels(row):
                reasons.setdefault(label, _NOT_TRANSFERRED)
        return _Dump(write([]), [], reasons)

    def _row_labels(self, row: EarlierValue) -> list[str]:
        """Return the labels of the names that lead to the object of a row."""
        if row.is_name:
            return [format_label(row.key)]
        return self._labels([row.key])

    def _lost_references(self, alive: set[int], without: Collection[str]) -> list[tuple[str, str]]:
        """Return the names of weak references to objects that must be created again, and of such
        objects to which others refer, with what does not come back.

        Args:
            alive: The addresses of the objects that the kernel also has.
            without: Labels of what cannot be created again.
        """
        nodes = self._graph.nodes
        references: list[int] = []
        watched: list[int] = []
        for address, node in nodes.items():
            if address in alive or not self._graph.kinds.kind(node.value).referable:
                continue
            for reference in weakref.getweakrefs(node.value):
                references.append(address_of(reference))
                if address_of(reference) not in nodes and reference.__callback__ is not None:
                    watched.append(address)
        lost = [(name, _LOST_REFERENCE) for name in self._labels(alive.intersection(references))]
        watched_labels = [label for label in self._labels(watched) if label not in without]
        return lost + [(label, _LOST_FINALIZER) for label in watched_labels]

    def _uncomparable(self) -> list[tuple[str, str]]:
        """Return the mentioned names that lead to an object that cannot be compared, with the
        reason."""
        by_type: dict[str, list[int]] = {}
        for address, node in self._graph.nodes.items():
            cls = type(node.value)
            if not node.is_complete and file_class(cls) is None:
                by_type.setdefault(_describe_uncomparable(node.value), []).append(address)
        mentioned = set(self._mentioned)
        return [
            (name, f"not compared: {reason}")
            for reason, addresses in by_type.items()
            for name in self._labels(addresses)
            if name in mentioned
        ]

    def _labels(self, addresses: Iterable[int]) -> list[str]:
        """Return the labels of the names that lead to objects with these addresses."""
        reached = self._graph.ancestors(addresses)
        named = [*self._names.items(), *self._graph.kinds.shared_objects]
        return [format_label(name) for name, value in named if address_of(value) in reached]


def _row_names(rows: Iterable[EarlierValue]) -> list[object]:
    return [row.key for row in rows if row.is_name]


def _describe_uncomparable(value: object) -> str:
    """Return why an object is not compared, as a clause."""
    cls = type(value)
    if is_subclass(cls, get_if_loaded("numpy", "ndarray")):
        dtype = plain_array(value).dtype
        if dtype.hasobject and dtype.names is not None:
            return "undo does not handle arrays of records that contain objects"
        if is_mapped(get_if_loaded("numpy", "ndarray").base.__get__(value)):
            return "others may write to its memory, which belongs to a file"
    module = class_module(cls)
    if module in ("builtins", "__main__", ""):
        prefix = ""
    else:
        prefix = f"{module}."
    return f"undo does not know what {prefix}{name_of(cls)} stores"


def walk_state(
    graph: Graph, step: Step, names: dict[str, object], first_names: Iterable[str]
) -> list[str]:
    """Walk through the state before a step, mentioned names first.

    Args:
        graph: Gets the objects.
        step: The step.
        names: The objects of its names that live.
        first_names: The names that the undone cells mention.

    Returns:
        The labels of the names that were not reached in time.
    """
    mentioned_names = [name for name in dict.fromkeys(first_names) if name in names]
    mentioned_values = {name: names[name] for name in mentioned_names}
    unreached_names = _walk_names(graph, mentioned_values, MENTIONED_TIMEOUT_S)

    shared_values = [value for _, value in graph.kinds.shared_objects]
    graph.add((*shared_values, *step.live_objects()), time.monotonic() + OTHERS_TIMEOUT_S)

    # What is in the graph already costs nothing; what took too long is not tried again.
    other_values = {name: value for name, value in names.items() if name not in unreached_names}
    return unreached_names + _walk_names(graph, other_values, OTHERS_TIMEOUT_S)


def _walk_names(graph: Graph, names: dict[str, object], timeout_s: float) -> list[str]:
    """Walk through the values of names; return the labels of those not reached in time."""
    deadline = time.monotonic() + timeout_s
    walked_items = [
        (name, value)
        for name, value in names.items()
        if name not in HIDDEN_NAMES and address_of(type(value)) not in ATOMS
    ]
    for index, (_, value) in enumerate(walked_items):
        if not graph.add((value,), deadline):
            return [format_label(name) for name, _ in walked_items[index:]]
    return []


def format_label(name: object) -> str:
    """Return a name; for a key that is not a string, how code reaches its value."""
    if type(name) is str:
        return name
    # The repr of other objects may be the user's code.
    if address_of(type(name)) in ATOMS:
        return f"globals()[{name!r}]"
    return f"globals()[a {name_of(type(name))}]"


def unpack_numbers(data: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(data)
    return numbers
