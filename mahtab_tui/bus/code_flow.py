"""What reading a cell has shown about its names at one point of the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Self

MAX_SOURCES = 100
"""Variables from which one value may be computed. With more, they count as not known, because each of
very many values could have very many."""
_TOO_MANY_SOURCES = frozenset(map(str, range(MAX_SOURCES + 1)))
"""Stands for any sources above the limit, also together with others. It contains no names."""


class Definition(NamedTuple):
    """Code that runs when a variable is used: a function, a class or an instance of one."""

    names: frozenset[str]
    """Names that the code reads."""
    is_class: bool = False
    global_names: frozenset[str] = frozenset()
    """Names that functions in it declare as global, and may bind."""


class Origin(NamedTuple):
    """The variable from before a cell that a variable got its code from.

    After ``g = f`` the origin of `g` is `f`, not called. After ``k = K()`` the origin of `k` is `K`,
    called: `k` has the code of `K` only if that is a class.
    """

    name: str
    is_called: bool


class FollowedDefinition(NamedTuple):
    """What a function or class of a cell does when it is used."""

    sources: frozenset[str]
    """The names from before the cell that it reads; see `limit_sources`."""
    global_names: frozenset[str]
    """Names of the cell that it may bind."""
    name_count: int
    """How many names were looked at for this."""


@dataclass
class Flow:
    """What is known about names at one point of a cell's code.

    Each branch of a statement goes on with a copy, and after the statement the copies are joined.
    """

    bound_names: set[str] = field(default_factory=set)
    """Names that the cell has bound, whatever branches were taken."""
    unchangeable_names: set[str] = field(default_factory=set)
    """Names of values that a call with them as an argument does not change."""
    namespace_names: set[str] = field(default_factory=set)
    """Names of modules and classes, which calls of their functions do not change."""
    sources: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names from before the cell from which each name has been computed; see `limit_sources`."""
    call_sources: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names from before the cell in statements with calls that may have changed what a name stands
    for, by that name."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    """Functions and classes of the cell, and instances of these, by their names."""
    origins: dict[str, Origin] = field(default_factory=dict)
    """Where names that the cell has bound got their code from, if that is not in the cell."""
    followed_definitions: dict[str, FollowedDefinition] = field(default_factory=dict)
    """What the functions and classes that were used do, as long as nothing is bound or changed."""

    def copy(self) -> Self:
        """Return a copy that changes on its own."""
        return type(self)(
            set(self.bound_names),
            set(self.unchangeable_names),
            set(self.namespace_names),
            dict(self.sources),
            dict(self.call_sources),
            dict(self.definitions),
            dict(self.origins),
        )

    def bind(self, name: str, sources: Set[str]) -> None:
        """Note that a name is bound to a value whose code is not known."""
        self.bound_names.add(name)
        self.sources[name] = limit_sources(sources)
        self.unchangeable_names.discard(name)
        self.namespace_names.discard(name)
        self.call_sources.pop(name, None)
        self.definitions.pop(name, None)
        self.origins.pop(name, None)
        self.followed_definitions.clear()

    def change(self, name: str, sources: Set[str]) -> None:
        """Note that the value of a name may be changed in place."""
        self.sources[name] = limit_sources(self.sources_of(name) | sources)
        self.followed_definitions.clear()

    def sources_of(self, name: str) -> frozenset[str]:
        """Return the names from before the cell from which a name has been computed.

        The name itself, if it may be as before.
        """
        sources = self.sources.get(name, frozenset())
        return sources if name in self.bound_names else sources | {name}

    def follow_definition(self, name: str) -> FollowedDefinition:
        """Return what a function or class of the cell reads and binds when it is used, also by the
        functions that it calls."""
        sources: set[str] = set()
        global_names: set[str] = set()
        seen_names = {name}
        pending_names = [name]
        name_count = 1
        while pending_names and len(sources) <= MAX_SOURCES:
            definition = self.definitions.get(pending_names.pop())
            if definition is None:
                continue
            global_names |= definition.global_names
            name_count += len(definition.names)
            for read_name in definition.names - seen_names:
                seen_names.add(read_name)
                pending_names.append(read_name)
                read_sources = self.sources_of(read_name)
                sources |= read_sources
                name_count += len(read_sources)
        return FollowedDefinition(limit_sources(sources), frozenset(global_names), name_count)

    def count_names(self) -> int:
        """Return how many names it knows something about."""
        return (
            len(self.bound_names)
            + len(self.unchangeable_names)
            + len(self.namespace_names)
            + len(self.sources)
            + len(self.call_sources)
            + len(self.definitions)
            + len(self.origins)
        )


def join_flows(flows: Sequence[Flow]) -> Flow:
    """Return what is known after a statement, of whose branches any may have run.

    Args:
        flows: What is known at the end of each branch; at least one.
    """
    flow = Flow(
        bound_names=set.intersection(*(flow.bound_names for flow in flows)),
        unchangeable_names=set.intersection(*(flow.unchangeable_names for flow in flows)),
        # An optional import may have left a constant instead of a module.
        namespace_names=set.intersection(
            *(flow.namespace_names | flow.unchangeable_names for flow in flows)
        ),
        sources=_unite_sources([flow.sources for flow in flows]),
        call_sources=_unite_sources([flow.call_sources for flow in flows]),
    )
    for branch in flows:
        flow.origins.update(branch.origins)
        for name, definition in branch.definitions.items():
            other = flow.definitions.get(name, definition)
            # Most definitions are the same object in all branches.
            if other is not definition:
                definition = Definition(
                    definition.names | other.names,
                    definition.is_class or other.is_class,
                    definition.global_names | other.global_names,
                )
            flow.definitions[name] = definition
    return flow


def _unite_sources(
    sources_by_branch: Iterable[Mapping[str, frozenset[str]]],
) -> dict[str, frozenset[str]]:
    united_sources: dict[str, frozenset[str]] = {}
    for sources_by_name in sources_by_branch:
        for name, sources in sources_by_name.items():
            old_sources = united_sources.get(name, sources)
            # Most sources are the same object in all branches.
            if old_sources is not sources:
                sources = limit_sources(old_sources | sources)
            united_sources[name] = sources
    return united_sources


def limit_sources(sources: Set[str]) -> frozenset[str]:
    """Return the names; in place of too many, a set that stands for too many.

    This set is itself larger than the limit, so what is computed from it also has too many sources.
    """
    if len(sources) > MAX_SOURCES:
        return _TOO_MANY_SOURCES
    return frozenset(sources)


def known_sources(sources_by_name: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the sources of names; none for a name with too many."""
    return {
        name: sources if len(sources) <= MAX_SOURCES else frozenset()
        for name, sources in sources_by_name.items()
    }
