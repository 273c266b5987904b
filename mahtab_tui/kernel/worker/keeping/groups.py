"""Which variables belong together: those whose objects share something that can change in place.
(Kishu calls them co-variables.)"""

from __future__ import annotations

import time
import types
from typing import Any, NamedTuple

from ..library_types import is_table
from ..statics import address_of, descends, is_class, loaded
from ..undo.graph import Graph, Node, ancestors
from ..undo.kinds import Kinds
from ..undo.part import ATOMS

_UNCHANGING = (
    ("pandas", "Index"),
    ("pandas.core.dtypes.base", "ExtensionDtype"),
    ("numpy", "dtype"),
)

_SECONDS = 20.0
"""For walking through all objects; where they are more, nobody knows what is shared, and they
become one group."""


class Group(NamedTuple):
    """Variables that are written together."""

    names: list[str]
    size: int
    """Bytes of the arrays in it."""


def groups_of(variables: dict[str, Any], namespace: dict[str, Any]) -> list[Group]:
    """Sort variables into groups, the smallest first."""
    graph = Graph(Kinds(namespace), states=False)
    if not graph.add(variables.values(), time.monotonic() + _SECONDS):
        large = [name for name, value in variables.items() if address_of(type(value)) not in ATOMS]
        alone = [Group([name], 0) for name in variables if name not in large]
        return [
            *alone,
            Group(large, sum(node.block.size for node in graph.nodes.values() if node.block)),
        ]
    edges = {address: _edges(graph, node) for address, node in graph.nodes.items()}
    holders: dict[int, list[int]] = {}
    for address, inside in edges.items():
        for child in inside:
            holders.setdefault(child, []).append(address)
    sharing = ancestors(
        [
            address
            for address, node in graph.nodes.items()
            if _changes(graph, node, holders.get(address, []))
        ],
        holders,
    )
    sets = _Sets()
    for address in sharing:
        for child in sharing.intersection(edges[address]):
            sets.unite(address, child)
    by_root: dict[int, list[str]] = {}
    for name, value in variables.items():
        own = -len(by_root) - 1 if address_of(type(value)) in ATOMS else address_of(value)
        by_root.setdefault(sets.root(own) if own in sharing else own, []).append(name)
    sizes: dict[int, int] = {}
    for address, node in graph.nodes.items():
        if node.block is not None:
            root = sets.root(address)
            sizes[root] = sizes.get(root, 0) + node.block.size
    return sorted(
        (Group(names, sizes.get(root, 0)) for root, names in by_root.items()),
        key=lambda group: group.size,
    )


def _edges(graph: Graph, node: Node) -> list[int]:
    """The objects inside that count."""
    if _never_changes(node.value):
        return []
    inside = [child for child in node.children if child in graph.nodes]
    return (
        [*inside, address_of(type(node.value))] if graph.kinds.kind(node.value).is_own else inside
    )


def _changes(graph: Graph, node: Node, holders: list[int]) -> bool:
    """Whether an object can change in place; functions do not if only classes hold them."""
    value = node.value
    if is_class(value) or type(value) is types.ModuleType:
        return False
    if type(value) is types.FunctionType:
        return any(not is_class(graph.nodes[holder].value) for holder in holders)
    if _never_changes(value):
        return False
    return is_table(value) or any(part.prepare is not None for part in graph.kinds.parts(value))


def _never_changes(value: Any) -> bool:
    """Whether it is of a class whose objects tables share freely, because nobody changes them."""
    return any(descends(type(value), loaded(module, name)) for module, name in _UNCHANGING)


class _Sets:
    """Disjoint sets of numbers."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def root(self, item: int) -> int:
        above = self._above
        while (higher := above.get(item, item)) != item:
            above[item] = above.get(higher, higher)
            item = above[item]
        return item

    def unite(self, one: int, other: int) -> None:
        self._above[self.root(one)] = self.root(other)
