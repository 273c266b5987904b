"""Sorts variables that share objects into groups; a group is saved as a whole."""

from __future__ import annotations

import time
import types
from collections.abc import Iterable
from typing import NamedTuple

from ..undo.graph import Graph, Node, find_ancestors
from ..undo.kinds import Kinds
from ..values.objects import ATOMS, address_of, get_if_loaded, is_class, is_subclass, is_table

_WALK_TIMEOUT_S = 20.0
"""Seconds for walking through all objects; after that they become one group."""
_UNCHANGING = (
    ("pandas", "Index"),
    ("pandas.core.dtypes.base", "ExtensionDtype"),
    ("numpy", "dtype"),
)
"""Modules and names of classes whose objects nobody changes."""


class VariableGroup(NamedTuple):
    """Variables that are saved together."""

    names: list[str]
    size: int
    """Bytes of their arrays."""


def group_variables(
    variables: dict[str, object], namespace: dict[str, object]
) -> list[VariableGroup]:
    """Sort variables that share objects into groups, the smallest first.

    Args:
        variables: The variables to be saved, by name.
        namespace: The user's namespace, which may have other variables.
    """
    graph = Graph(Kinds(namespace), states=False)
    if not graph.add(variables.values(), time.monotonic() + _WALK_TIMEOUT_S):
        return _group_unwalked(variables, graph)
    sharing = _SharedObjects(graph)

    names_by_root: dict[int, list[str]] = {}
    for name, value in variables.items():
        if _is_plain(value):
            # Addresses are positive, so that no object has this number.
            root = -len(names_by_root) - 1
        else:
            root = sharing.root_of(address_of(value))
        names_by_root.setdefault(root, []).append(name)

    sizes = sharing.sizes_by_root()
    groups = [VariableGroup(names, sizes.get(root, 0)) for root, names in names_by_root.items()]
    return sorted(groups, key=lambda group: group.size)


def _is_plain(value: object) -> bool:
    return address_of(type(value)) in ATOMS


def _group_unwalked(variables: dict[str, object], graph: Graph) -> list[VariableGroup]:
    """Return one group of all but plain values, because there was no time to see what they share."""
    size = sum(node.memory.size for node in graph.nodes.values() if node.memory)
    plain_groups = [
        VariableGroup([name], 0) for name, value in variables.items() if _is_plain(value)
    ]
    other_names = [name for name, value in variables.items() if not _is_plain(value)]
    return [*plain_groups, VariableGroup(other_names, size)]


class _SharedObjects:
    """Objects that must be saved together: those that lead to the same object that can change."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        edges = {address: _edges(graph, node) for address, node in graph.nodes.items()}
        holders: dict[int, list[int]] = {}
        for address, inner_addresses in edges.items():
            for inner_address in inner_addresses:
                holders.setdefault(inner_address, []).append(address)

        changing_addresses = [
            address
            for address, node in graph.nodes.items()
            if _can_change(graph, node, holders.get(address, []))
        ]
        self._sharing = find_ancestors(changing_addresses, holders)
        self._sets = _DisjointSets()
        for address in self._sharing:
            for inner_address in self._sharing.intersection(edges[address]):
                self._sets.unite(address, inner_address)

    def root_of(self, address: int) -> int:
        """Return the number of the set that an object belongs to."""
        if address in self._sharing:
            return self._sets.root(address)
        return address

    def sizes_by_root(self) -> dict[int, int]:
        """Return the bytes of the arrays of each set."""
        sizes: dict[int, int] = {}
        for address, node in self._graph.nodes.items():
            if node.memory is not None:
                root = self._sets.root(address)
                sizes[root] = sizes.get(root, 0) + node.memory.size
        return sizes


def _edges(graph: Graph, node: Node) -> list[int]:
    """Return the addresses of the objects inside an object, and of its class if that is the user's."""
    if _never_changes(node.value):
        return []
    inner_addresses = [child for child in node.children if child in graph.nodes]
    if graph.kinds.kind(node.value).is_user_defined:
        inner_addresses.append(address_of(type(node.value)))
    return inner_addresses


def _can_change(graph: Graph, node: Node, holders: Iterable[int]) -> bool:
    """Return whether an object can change in place; functions do not if only classes contain them.

    Args:
        graph: The objects.
        node: The object.
        holders: Addresses of the objects that contain it.
    """
    value = node.value
    if is_class(value) or type(value) is types.ModuleType:
        return False
    if type(value) is types.FunctionType:
        return any(not is_class(graph.nodes[holder].value) for holder in holders)
    if _never_changes(value):
        return False
    kind = graph.kinds.kind(value)
    return is_table(value) or kind.can_change or not kind.is_complete


def _never_changes(value: object) -> bool:
    """Return whether tables freely share such objects, because nobody changes them."""
    return any(
        is_subclass(type(value), get_if_loaded(module, name)) for module, name in _UNCHANGING
    )


class _DisjointSets:
    """Sets of numbers that are united step by step."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        """The parent of each number that is not the root of its set."""

    def root(self, number: int) -> int:
        """Return the number that stands for the set of a number."""
        parents = self._parents
        while (parent := parents.get(number, number)) != number:
            # Shorten the way for the next time.
            grandparent = parents.get(parent, parent)
            parents[number] = grandparent
            number = grandparent
        return number

    def unite(self, first: int, second: int) -> None:
        """Unite the sets of two numbers."""
        self._parents[self.root(first)] = self.root(second)
