"""Questions to a checkpoint and its answers: how the objects were, and the earlier states of those
that differ now."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..listing import HIDDEN, described
from ..statics import address_of, module_of, name_of
from .graph import Graph, ancestors, rows_of
from .in_fork import dump_in_fork
from .kinds import Kinds
from .opaque import is_file
from .part import ATOMS
from .state_transfer import dump_state

STATE, NAME = "state", "name"
MENTIONED = 20.0
"""Seconds that each process has to walk through what a cell mentions."""
OTHERS = 2.0
"""Seconds for everything else."""


class Roots(NamedTuple):
    """The objects where a walk begins."""

    names: dict[str, Any]
    """The names before the cell."""
    kept: Sequence[Any]
    """Objects that both processes keep alive, so that an address means the same object in both."""


class StateRequest(NamedTuple):
    """Asks a checkpoint for the earlier states of objects that differ now."""

    alive: bytes
    """The addresses of objects that live in both processes, eight bytes each."""
    changed: bytes
    """The addresses of those whose state differs."""
    written: bytes
    """The addresses of those whose memory differs."""
    names: list[str]
    """Names to describe."""


class States(NamedTuple):
    """The earlier states of objects that differ now."""

    payload: bytes
    """Rows: `STATE`, the address of a living object and the values of each part that can change; or
    `NAME`, a name and its object, which is gone."""
    changed: list[str]
    """Names, and modules of the user, whose objects differ inside."""
    lost: list[tuple[str, str]]
    """Names whose objects cannot be carried over, with reasons."""
    unknown: list[tuple[str, str]]
    """Names, among those that the cells mention, with objects that cannot be compared, and the
    types of these."""
    variables: dict[str, dict[str, Any]]
    """Descriptions of the names that differ, and of those that were asked for, as they were."""


class CheckpointResponder:
    """Answers questions in a checkpoint. It is made before the fork and used in the forked
    process."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._graph: Graph
        self._roots: Roots
        self._first: list[str]

    def describe(self, roots: Roots, first: Iterable[str]) -> tuple[bytes, list[str]]:
        """Walk as `walk` does. Return all objects as they were (see `rows_of`), and the names for
        which there was not enough time."""
        self._roots, self._graph, self._first = roots, Graph(Kinds(self._namespace)), list(first)
        unseen = walk(self._graph, roots, first)
        return rows_of(self._graph).tobytes(), unseen

    def carry(self, wanted: StateRequest) -> States:
        """Return the earlier states of what differs."""
        nodes, names = self._graph.nodes, self._roots.names
        alive = set(numbers(wanted.alive))
        changed = set(numbers(wanted.changed))
        holders = self._graph.holders()
        # What holds something that is gone must be told, too: what stands at that address now is
        # something else.
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
            ancestors(changed | set(numbers(wanted.written)) | (nodes.keys() - alive), holders)
        )
        states = {address: self._state(nodes[address].value) for address in changed}
        gone = {
            name: value
            for name, value in names.items()
            if address_of(value) in nodes and address_of(value) not in alive
        }
        payload, lost = self._packed(states, gone, alive, holders)
        asked = [name for name in {*inside, *wanted.names} if name in names and type(name) is str]
        return States(
            payload,
            inside,
            lost,
            self._unknown(holders),
            {name: described(name, names[name]) for name in asked},
        )

    def _unknown(self, holders: dict[int, list[int]]) -> list[tuple[str, str]]:
        """Return the names, among those that the cells mention, that lead to objects of which not
        all can be compared."""
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

    def _packed(
        self,
        states: dict[int, Any],
        gone: dict[str, Any],
        alive: set[int],
        holders: dict[int, list[int]],
    ) -> tuple[bytes, list[tuple[str, str]]]:
        """Return the states as bytes, and the names that hold a state that cannot be written, with
        the reason."""
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
                names = [label_of(key)] if kind == NAME else self._labels(ancestors([key], holders))
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
        named = [*self._roots.names.items(), *self._graph.kinds.shared]
        return [label_of(name) for name, value in named if address_of(value) in reached]


def label_of(name: Any) -> str:
    """Return a name; for one that is no text, how code gets at it."""
    if type(name) is str:
        return name
    return (
        f"globals()[{name!r}]"
        if address_of(type(name)) in ATOMS
        else f"globals()[a {name_of(type(name))}]"
    )


def _type_name(cls: type) -> str:
    module, name = module_of(cls), name_of(cls)
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"


def walk(graph: Graph, roots: Roots, first: Iterable[str]) -> list[str]:
    """Walk from the names that cells mention, then from all others; return the names for which
    there was not enough time."""
    names = roots.names
    early = [name for name in dict.fromkeys(first) if name in names]
    left = _walk_names(graph, {name: names[name] for name in early}, MENTIONED)
    graph.add((*(value for _, value in graph.kinds.shared), *roots.kept), time.monotonic() + OTHERS)
    return left + _walk_names(
        graph, {name: value for name, value in names.items() if name not in left}, OTHERS
    )


def _walk_names(graph: Graph, names: dict[str, Any], seconds: float) -> list[str]:
    until = time.monotonic() + seconds
    inside = [
        (name, value)
        for name, value in names.items()
        if name not in HIDDEN and address_of(type(value)) not in ATOMS
    ]
    for place, (_, value) in enumerate(inside):
        if not graph.add((value,), until):
            return [label_of(name) for name, _ in inside[place:]]
    return []


def numbers(data: bytes) -> array[int]:
    """Unpack numbers of eight bytes."""
    found = array("q")
    found.frombytes(data)
    return found
