"""The objects that can be reached from a namespace, and the state of each as two numbers.

A checkpoint and the kernel walk the same objects, which have the same addresses in both, because the checkpoint is a fork. An object whose state
differs has been changed.
"""

from __future__ import annotations

import marshal
import time
import weakref
from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..statics import MISSING, descends
from .kinds import Kinds
from .part import ATOMS, Part, Values
from .tables import Block, block_of


class Node(NamedTuple):
    """One object."""

    value: Any
    fixed: int
    """The part of its state that can never change in place, as a number."""
    loose: int
    """The part of its state that can change in place, as a number."""
    children: tuple[int, ...]
    """The addresses of the objects that it holds."""
    block: Block | None


class Graph:
    """The objects that were reached, by address. The graph keeps them alive."""

    def __init__(self, kinds: Kinds, states: bool = True) -> None:
        """states: whether to compute the objects' states too."""
        self._states = states
        self.kinds = kinds
        self.nodes: dict[int, Node] = {}

    def add(self, roots: Iterable[Any], until: float = float("inf"), most: float = float("inf")) -> bool:
        """Walk through everything that can be reached; return False if the time (`time.monotonic`) or the number of objects did not suffice."""
        pending = [root for root in roots if id(type(root)) not in ATOMS]
        nodes = self.nodes
        count = 0
        while pending:
            value = pending.pop()
            if id(value) in nodes:
                continue
            count += 1
            if count > most or (count % 64 == 0 and time.monotonic() > until):
                return False
            node, inside = self._node(value, most)
            nodes[id(value)] = node
            pending += inside
        return True

    def forget_weak_references(self) -> None:
        """Drop weak references before the objects, so that their callbacks do not run on what was restored."""
        for address in [address for address, node in self.nodes.items() if descends(type(node.value), weakref.ref)]:
            del self.nodes[address]

    def to_keep(self) -> list[Any]:
        """Return the objects, to be kept alive. Weak references come last, because a list drops its last items first (see `forget_weak_references`)."""
        objects: list[Any] = []
        weak: list[Any] = []
        for node in self.nodes.values():
            if not descends(type(node.value), weakref.ref):
                objects.append(node.value)
            elif id(weakref.ref.__call__(node.value)) in self.nodes:
                weak.append(node.value)
        return objects + weak

    def holders(self) -> dict[int, list[int]]:
        """Return, for each object, the objects that hold it, by address."""
        found: dict[int, list[int]] = {}
        for address, node in self.nodes.items():
            for child in node.children:
                found.setdefault(child, []).append(address)
        return found

    def _node(self, value: Any, most: float) -> tuple[Node, Values]:
        inside: Values = []
        fixed: list[bytes] = []
        loose: list[bytes] = []
        block = None
        kind = self.kinds.kind(value)
        try:
            for part in self.kinds.parts(value):
                if not self._states and (part.costly or part.size(value) > most):
                    continue
                held = part.read(value)
                if self._states:
                    (loose if part.prepare is not None else fixed).append(_encoded(part, held))
                inside += [item for item in held if id(type(item)) not in ATOMS and item is not MISSING]
            if kind.has_memory:
                block = block_of(value)
        except Exception:  # a library's object in a state that nobody foresaw: only which object it is counts
            return Node(value, 0, 0, (), None), []
        children = tuple(map(id, inside))
        if kind.is_own:
            inside.append(type(value))
        return Node(value, hash(tuple(fixed)), hash(tuple(loose)), children, block), inside


def _encoded(part: Part, values: Values) -> bytes:
    """Return values as bytes that are equal if plain values are equal and all others are the same objects."""
    kinds = set(map(id, map(type, values)))
    if not kinds <= ATOMS:
        values = [value if id(type(value)) in ATOMS else (id(value),) for value in values]
    version = 0 if id(str) in kinds else 2  # from 1 on, marshal tells whether a text is interned, and that may change
    if part.ordered:
        return marshal.dumps(values, version)
    return b"".join(sorted([marshal.dumps(value, version) for value in values]))


class Table(NamedTuple):
    """A graph as numbers that can be sent: one row for each object."""

    rows: array[int]
    """Address, address of the type, fixed, loose, address and size of its memory: six numbers each."""

    @classmethod
    def of(cls, graph: Graph) -> Table:
        rows: array[int] = array("q")
        for address, node in graph.nodes.items():
            start, size = node.block or (0, 0)
            rows.extend((address, id(type(node.value)), node.fixed, node.loose, start, size))
        return cls(rows)


def ancestors(start: Iterable[int], holders: dict[int, list[int]]) -> set[int]:
    """Return the given objects, and all that hold one of them, directly or not."""
    reached = set(start)
    pending = list(reached)
    while pending:
        for holder in holders.get(pending.pop(), ()):
            if holder not in reached:
                reached.add(holder)
                pending.append(holder)
    return reached
