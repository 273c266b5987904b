"""The objects that can be reached from a namespace, and the state of each as two numbers.

A checkpoint and the kernel walk the same objects, which have the same addresses in both, because
the checkpoint is a fork. An object whose state differs has been changed.
"""

from __future__ import annotations

import marshal
import time
import weakref
from array import array
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple

from ..statics import MISSING, address_of
from .kinds import EACH, REDUCED, Kinds
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
    known: bool
    """Whether all of its state counts in these numbers."""


class Limits(NamedTuple):
    """How far a walk goes that a cell waits for."""

    work: int
    """Objects that are read in one go; so many values inside an object as `VALUES` says count as
    one more."""
    size: int
    """Values that one object may have. Larger ones are not read."""


_LOOK = 128
"""Work between two looks at the clock, which may cost as much as an object."""
VALUES = 16


class Graph:
    """The objects that were reached, by address. The graph keeps them alive."""

    def __init__(
        self, kinds: Kinds, states: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """states: whether to compute the objects' states too."""
        self._states = states
        self._clock = clock
        self._work = 0
        self.kinds = kinds
        self.nodes: dict[int, Node] = {}
        self._weak: list[int] = []
        """The addresses of weak references."""
        self._ending: list[int] = []
        """The addresses of objects of which it is not known that nothing happens when they end."""

    def add(
        self, roots: Iterable[Any], until: float = float("inf"), limits: Limits | None = None
    ) -> bool:
        """Walk through everything that can be reached, the nearest first; return False if the time
        (by the clock) or the limit of work did not suffice."""
        pending = [root for root in roots if address_of(type(root)) not in ATOMS]
        nodes = self.nodes
        most = float("inf") if limits is None else limits.size
        end = float("inf") if limits is None else self._work + limits.work
        look = self._work + _LOOK
        for value in pending:  # it grows meanwhile
            if address_of(value) in nodes:
                continue
            self._work += 1
            if self._work > end:
                return False
            if self._work >= look:
                look = self._work + _LOOK
                if self._clock() > until:
                    return False
            nodes[address_of(value)] = self._node(value, pending, most)
        return True

    def forget_weak_references(self) -> None:
        """Drop weak references before the objects, so that their callbacks do not run on what was
        restored."""
        for address in self._weak:
            del self.nodes[address]
        self._weak = []

    def ending(self) -> set[int]:
        """Return the addresses of objects that must not be kept alive: something happens when they
        end, or when what they hold does."""
        holders = self.holders()
        unseen = [child for child in holders if child not in self.nodes]
        return ancestors([*self._ending, *unseen], holders)

    def to_keep(self) -> list[Any]:
        """Return the objects. Weak references come last, because a list drops its last items first
        (see `forget_weak_references`)."""
        references = set(self._weak)
        objects = [node.value for address, node in self.nodes.items() if address not in references]
        weak = [self.nodes[address].value for address in self._weak]
        return objects + [
            reference
            for reference in weak
            if address_of(weakref.ref.__call__(reference)) in self.nodes
        ]

    def holders(self) -> dict[int, list[int]]:
        """Return, for each object, the objects that hold it, by address."""
        found: dict[int, list[int]] = {}
        for address, node in self.nodes.items():
            for child in node.children:
                found.setdefault(child, []).append(address)
        return found

    def _node(self, value: Any, pending: Values, most: float) -> Node:
        """Read an object; add those inside to `pending`."""
        kind = self.kinds.kind(value)
        children: list[int] = []
        fixed = loose = 0
        block = None
        known = kind.known
        ends = kind.ends or (kind.referable and weakref.getweakrefcount(value) > 0)
        try:
            for part in self.kinds.parts(value) if kind is EACH else kind.parts:
                if not self._states and part.costly:
                    continue
                if part.size is not None:
                    size = part.size(value)
                    if size > most:
                        known, ends = False, True
                        continue
                    self._work += size // VALUES
                held = part.read(value)
                if part is REDUCED:
                    self._work += 1
                    known = known and bool(held)
                types = set(map(address_of, map(type, held)))
                if self._states:
                    state = hash(_encoded(part, held, types))
                    if part.prepare is None:
                        fixed = hash((fixed, state))
                    else:
                        loose = hash((loose, state))
                if not types <= ATOMS:
                    inside = [
                        item
                        for item in held
                        if address_of(type(item)) not in ATOMS and item is not MISSING
                    ]
                    children += map(address_of, inside)
                    pending += inside
            if kind.has_memory:
                block = block_of(value)
        except Exception:  # `UncomparableError`, or a library's object in a state that nobody foresaw: only which object it is counts
            self._ending.append(address_of(value))
            return Node(value, 0, 0, (), None, known=False)
        if kind.is_own:
            pending.append(type(value))
        if kind.is_weak:
            self._weak.append(address_of(value))
        if ends:
            self._ending.append(address_of(value))
        return Node(value, fixed, loose, tuple(children), block, known)


def _encoded(part: Part, values: Values, types: set[int]) -> bytes:
    """Return values as bytes that are equal if plain values are equal and all others are the same
    objects. types: the addresses of their types."""
    if part.ordered and types.isdisjoint(ATOMS):
        return b"objects" + array("q", map(address_of, values)).tobytes()
    if not types <= ATOMS:
        values = [
            value if address_of(type(value)) in ATOMS else (address_of(value),) for value in values
        ]
    version = (
        0 if address_of(str) in types else 2
    )  # from 1 on, marshal tells whether a text is interned, and that may change
    if part.ordered:
        return marshal.dumps(values, version)
    return b"".join(sorted([marshal.dumps(value, version) for value in values]))


def rows_of(graph: Graph) -> array[int]:
    """Return a graph as numbers, six for each object: address, address of the type, fixed, loose,
    address and size of its memory."""
    rows: array[int] = array("q")
    for address, node in graph.nodes.items():
        rows.extend(
            (address, address_of(type(node.value)), node.fixed, node.loose, *(node.block or (0, 0)))
        )
    return rows


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
