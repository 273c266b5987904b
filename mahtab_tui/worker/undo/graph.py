"""The objects reachable from a namespace, and the state of each.

Undo compares the graphs of two moments: of the kernel before and after a cell (`mutations`), or of a
checkpoint and the kernel (`earlier_state`, `restoring`). A checkpoint is a fork, so both processes have the
same objects at the same addresses. `saving.variable_groups` finds out which variables share objects.
"""

from __future__ import annotations

import marshal
import time
import weakref
from array import array
from collections.abc import Iterable, Mapping
from typing import Callable, NamedTuple

from ..values.objects import ATOMS, MISSING, OwnReference, address_of
from .kinds import Kind, Kinds
from .memory import MemorySpan, find_memory
from .parts import ObjectPart, Values

_CLOCK_INTERVAL_OBJECTS = 128
"""Objects between two looks at the clock."""
VALUES_PER_OBJECT = 16
"""Values inside an object that cost as much time as one more object."""
_FOREVER = float("inf")


class Node(NamedTuple):
    """An object of a graph, and its state as numbers."""

    value: object
    fixed_state: int
    """A hash of what undo cannot write back; another one means another object."""
    mutable_state: int
    """A hash of what undo can write back."""
    children: tuple[int, ...]
    """Addresses of the objects inside it, without plain values."""
    memory: MemorySpan | None
    """That of an array, whose bytes are compared apart."""
    is_complete: bool
    """Whether these numbers cover all of its state."""

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        """The numbers of which one differs if the object has changed or is another one: the address of its
        type, its fixed and its mutable state, start and end of its memory."""
        start, end = self.memory or (0, 0)
        return address_of(type(self.value)), self.fixed_state, self.mutable_state, start, end


class Limits(NamedTuple):
    """How much of a graph is read in one go."""

    work: int
    """Number of objects; `VALUES_PER_OBJECT` values inside an object count as one more."""
    size: int
    """Values in one object; a larger one is not read."""


class _Content(NamedTuple):
    """What was read of one object."""

    fixed_state: int
    """As in `Node`."""
    mutable_state: int
    """As in `Node`."""
    objects: list[object]
    """The objects inside it, without plain values."""
    is_complete: bool
    """Whether no part of it was too large to be read."""


class Graph:
    """Walks through objects, and keeps them alive until it ends. No code of the user's runs."""

    def __init__(
        self, kinds: Kinds, states: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without objects.

        Args:
            kinds: Says how objects are read.
            states: Whether to compute the states of the nodes; otherwise these are 0.
            clock: Returns the seconds that `add` compares with its deadline.
        """
        self.kinds = kinds
        self.nodes: dict[int, Node] = {}
        """By address, in the order in which they were reached."""
        self._has_states = states
        self._clock = clock
        self._work = 0
        """What has been read, counted as in `Limits.work`."""
        self._holders: dict[int, list[int]] | None = None
        """What `find_holders` returns; None if objects have been added since."""
        self._weak_references: list[int] = []
        """Addresses of the nodes that are weak references."""
        self._finalizable: list[int] = []
        """Addresses of the objects whose end has, or may have, an effect."""

    def __del__(self) -> None:
        """Drop weak references first, so that their callbacks do not run on what was restored."""
        for address in self._weak_references:
            self.nodes.pop(address, None)

    def add(
        self, roots: Iterable[object], until: float = _FOREVER, limits: Limits | None = None
    ) -> bool:
        """Walk through everything reachable from `roots`, nearest first.

        Args:
            roots: Objects to begin with.
            until: Deadline on the graph's clock, in seconds.
            limits: How much to read now; None for everything.

        Returns:
            Whether everything was reached before the deadline and within `limits.work`.
        """
        self._holders = None
        max_work = _FOREVER if limits is None else self._work + limits.work
        max_size = _FOREVER if limits is None else limits.size
        next_clock_work = self._work + _CLOCK_INTERVAL_OBJECTS

        pending = [root for root in roots if address_of(type(root)) not in ATOMS]
        for value in pending:  # to which `_read_node` adds the objects inside each
            if address_of(value) in self.nodes:
                continue
            self._work += 1
            if self._work > max_work:
                return False
            if self._work >= next_clock_work:
                next_clock_work = self._work + _CLOCK_INTERVAL_OBJECTS
                if self._clock() > until:
                    return False
            self.nodes[address_of(value)] = self._read_node(value, pending, max_size)
        return True

    def finalizable(self) -> set[int]:
        """Return the addresses of objects whose end has an effect, or may have one because they were not
        read, and of what leads to them."""
        unread_addresses = [child for child in self.find_holders() if child not in self.nodes]
        return self.ancestors([*self._finalizable, *unread_addresses])

    def retained_objects(self) -> list[object]:
        """Return the objects, weak references last, because a list drops its last items first (see
        `__del__`). References to objects outside the graph are left out."""
        reference_addresses = set(self._weak_references)
        objects = [
            node.value for address, node in self.nodes.items() if address not in reference_addresses
        ]
        references = [self.nodes[address].value for address in self._weak_references]
        return objects + [
            reference
            for reference in references
            if address_of(weakref.ref.__call__(reference)) in self.nodes  # type: ignore[arg-type]
        ]

    def ancestors(self, start: Iterable[int]) -> set[int]:
        """Return the addresses of objects that lead to others, and of these themselves.

        Args:
            start: The addresses of the others.
        """
        start_addresses = set(start)
        if not start_addresses:
            return start_addresses
        return find_ancestors(start_addresses, self.find_holders())

    def find_holders(self) -> dict[int, list[int]]:
        """Return the addresses of the objects that directly contain each object, by its address."""
        if self._holders is None:
            self._holders = {}
            for address, node in self.nodes.items():
                for child in node.children:
                    self._holders.setdefault(child, []).append(address)
        return self._holders

    def _read_node(self, value: object, pending: list[object], max_size: float) -> Node:
        """Read an object.

        Args:
            value: The object.
            pending: Gets the objects inside it.
            max_size: Parts with more values are not read.
        """
        kind = self.kinds.kind(value)
        try:
            content = self._read_content(value, kind, max_size)
            memory = find_memory(value) if kind.has_memory else None
        except Exception:  # its state cannot be read: only which object it is counts
            self._finalizable.append(address_of(value))
            return Node(value, 0, 0, (), None, is_complete=False)

        pending += content.objects
        if kind.is_user_defined:
            pending.append(type(value))
        if kind.is_weak:
            self._weak_references.append(address_of(value))
        if not content.is_complete or _has_end_effect(value, kind):
            self._finalizable.append(address_of(value))
        return Node(
            value,
            content.fixed_state,
            content.mutable_state,
            tuple(map(address_of, content.objects)),
            memory,
            is_complete=kind.is_complete and content.is_complete,
        )

    def _read_content(self, value: object, kind: Kind, max_size: float) -> _Content:
        """Read the parts of an object. May raise anything for an inconsistent object.

        Args:
            value: The object.
            kind: Its kind.
            max_size: Parts with more values are not read.
        """
        fixed_state = 0
        mutable_state = 0
        objects: list[object] = []
        is_complete = True
        for part in kind.parts:
            if part.size is not None:
                size = part.size(value)
                if size > max_size:
                    is_complete = False
                    continue
                self._work += size // VALUES_PER_OBJECT

            values = part.read(value)
            types = set(map(address_of, map(type, values)))
            if self._has_states:
                part_state = hash(_encode_values(part, values, types))
                if part.write is None:
                    fixed_state = hash((fixed_state, part_state))
                else:
                    mutable_state = hash((mutable_state, part_state))
            if not types <= ATOMS:
                objects += [
                    item
                    for item in values
                    if address_of(type(item)) not in ATOMS and item is not MISSING
                ]
        return _Content(fixed_state, mutable_state, objects, is_complete)


def _has_end_effect(value: object, kind: Kind) -> bool:
    """Return whether something happens when an object ends."""
    if kind.has_finalizer:
        return True
    if not kind.referable or not weakref.getweakrefcount(value):
        return False
    return any(type(reference) is not OwnReference for reference in weakref.getweakrefs(value))


def _encode_values(part: ObjectPart, values: Values, types: set[int]) -> bytes:
    """Return bytes that are equal if plain values are equal and all others are the same objects.

    Args:
        part: The part that has the values.
        values: The values.
        types: The addresses of their types.
    """
    if part.ordered and types.isdisjoint(ATOMS):
        return b"objects" + array("q", map(address_of, values)).tobytes()
    if not types <= ATOMS:
        # In a tuple, so that an address differs from a number of the same size.
        values = [
            value if address_of(type(value)) in ATOMS else (address_of(value),) for value in values
        ]

    # From version 1 on, marshal records whether a string is interned, which may change.
    version = 0 if address_of(str) in types else 2
    if part.ordered:
        return marshal.dumps(values, version)
    return b"".join(sorted([marshal.dumps(value, version) for value in values]))


def find_ancestors(start: Iterable[int], holders: Mapping[int, list[int]]) -> set[int]:
    """Return the addresses of everything that leads to some objects, and of these themselves.

    Args:
        start: The addresses of the objects.
        holders: The addresses of what directly contains each object, by its address.
    """
    reached = set(start)
    pending = list(reached)
    while pending:
        for holder in holders.get(pending.pop(), ()):
            if holder not in reached:
                reached.add(holder)
                pending.append(holder)
    return reached
