"""What one cell has done to files: its places in folders, and the files that stood or stand there.

`journal.FileJournal` fills a `FileStep` while the cell runs, and `plan` reads it for an undo. Of many files,
a step is packed (`archive`) until it is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from .archive import Archive
from .copies import Copies
from .node_table import NodeTable
from .nodes import Name, Node, Version

MAX_ARCHIVED_NAMES = 250
"""Names that are packed together. If one of their files is asked for, all are unpacked."""


class NameChange:
    """A place in a folder, before and after a cell."""

    __slots__ = ("after", "before")

    def __init__(self, before: Node | None) -> None:
        """Begin without a change.

        Args:
            before: What it leads to before the cell; None if nothing is there.
        """
        self.before = before
        self.after = before

    @property
    def nodes(self) -> set[Node]:
        """What it leads to before or after the cell."""
        return {node for node in (self.before, self.after) if node is not None}


class NodeChange:
    """A file, folder or link, before and after a cell."""

    __slots__ = ("after", "before", "is_nameless", "is_written", "links", "links_after")

    def __init__(self, before: Version | None, links: int, *, is_nameless: bool = False) -> None:
        """Begin without a change.

        Args:
            before: What it is before the cell; None if the cell has made it.
            links: How many names it has before the cell.
            is_nameless: Whether it exists before the cell, but has no name there.
        """
        self.before = before
        """None if the cell has made it."""
        self.is_nameless = is_nameless or before is None
        """Whether it had no name before, so that it may lose its names when the cell is undone."""
        self.after: Version | None = None
        """What it is after the cell; None as long as the cell runs."""
        self.links = links
        """Its names before the cell."""
        self.links_after = 0
        """Its names after the cell."""
        self.is_written = False
        """Whether its content may have changed."""


class FileStep:
    """What a cell has done to files."""

    def __init__(self, cell: int, known_count: int, *, is_background: bool = False) -> None:
        """Begin without changes.

        Args:
            cell: The cell.
            known_count: How many files and folders are known before it.
            is_background: Whether this is what processes do between this cell and the next one.
        """
        self.cell = cell
        self.known_count = known_count
        """How many files and folders were known before it."""
        self.is_background = is_background
        """Whether its processes did this between two cells, so that their end is not known."""
        self.is_closed = is_background
        """Whether the changes are complete, because the cell has ended."""
        self.names: dict[Name, NameChange] = {}
        self.nodes: dict[Node, NodeChange] = {}
        self.folders: set[Node] = set()
        """Folders of the places. They are noted even beyond the limit: without its folder, no place can
        be restored."""
        self.unnoted: set[tuple[int, int]] = set()
        """Numbers of what it has touched beyond the limit."""
        self.problems: dict[str, None] = {}
        """What was done and could not be seen, or is left alone on purpose, as sentences."""
        self.archive: Archive | None = None
        """Names, and what is known of files that nothing else knows, if they are packed."""

    @property
    def places(self) -> Iterator[Name]:
        """Yield the names that the cell has changed, and all names of the files and folders that it has
        changed."""
        yield from self.names
        for node in self.nodes:
            yield from node.names

    @property
    def is_empty(self) -> bool:
        """Whether the cell has done nothing to files, as far as it is known."""
        return not (self.names or self.nodes or self.problems or self.archive)

    def all_nodes(self) -> set[Node]:
        """Return the files and folders of which it says what they were, or where, if that is not
        packed."""
        nodes = set(self.nodes)
        for change in self.names.values():
            nodes |= change.nodes
        if self.archive is not None:
            nodes.update(self.archive.outer_nodes)
        return nodes

    def unpacked_nodes(self) -> set[Node]:
        """Return the files and folders to which nothing that is packed refers."""
        outer_nodes = self.archive.outer_nodes if self.archive is not None else ()
        return self.all_nodes().difference(outer_nodes)

    def pack(self, own_nodes: Set[Node], copies: Copies) -> None:
        """Pack the names, and what is known of some files.

        Args:
            own_nodes: Files that nothing else knows.
            copies: All copies of files.
        """
        if self.archive is None:
            self.archive = Archive(copies)
        for names, nodes in self._divide(own_nodes):
            name_changes = {name: self.names[name] for name in names}
            node_changes = {node: self.nodes[node] for node in nodes & self.nodes.keys()}
            self.archive.pack((name_changes, node_changes), nodes)
            # Only now, because packing may fail.
            for name in name_changes:
                del self.names[name]
            for node in node_changes:
                del self.nodes[node]

        # A dictionary gives no memory back when its items are removed.
        self.names = {}
        self.nodes = dict(self.nodes)
        self.folders.clear()
        self.unnoted.clear()

    def _divide(self, own_nodes: Set[Node]) -> Iterator[tuple[Sequence[Name], Set[Node]]]:
        """Yield names and files that are packed together. A file is packed with its names, or not at all
        if these are packed apart."""
        nodes_by_part = self._divide_nodes(own_nodes)
        names = list(self.names)
        for part in range(max(len(names), len(own_nodes)) // MAX_ARCHIVED_NAMES + 1):
            start = part * MAX_ARCHIVED_NAMES
            part_names = names[start : start + MAX_ARCHIVED_NAMES]
            part_nodes = nodes_by_part.get(part, set())
            if part_names or part_nodes:
                yield part_names, part_nodes

    def _divide_nodes(self, own_nodes: Set[Node]) -> Mapping[int, set[Node]]:
        """Return the files of each part by its number: the first `MAX_ARCHIVED_NAMES` names belong to
        part 0, the next ones to part 1. Files with names in several parts are left out."""
        part_by_node: dict[Node, int] = {}
        divided_nodes: set[Node] = set()
        for index, change in enumerate(self.names.values()):
            part = index // MAX_ARCHIVED_NAMES
            for node in change.nodes & own_nodes:
                if part_by_node.setdefault(node, part) != part:
                    divided_nodes.add(node)
        # The others are only written: their names are the same.
        for index, node in enumerate(node for node in self.nodes if node in own_nodes):
            part_by_node.setdefault(node, index // MAX_ARCHIVED_NAMES)

        nodes_by_part: defaultdict[int, set[Node]] = defaultdict(set)
        for node in part_by_node.keys() - divided_nodes:
            nodes_by_part[part_by_node[node]].add(node)
        return nodes_by_part

    def unpack(self, nodes: NodeTable, number: int | None = None) -> None:
        """Have names and nodes at hand again. If this fails, what is not at hand stays packed.

        Args:
            nodes: Gets to know them.
            number: The number of a file, if only what is packed with it is needed.
        """
        if self.archive is None:
            return
        if number is not None and not self.archive.has_number(number):
            return
        for name_changes, node_changes in self.archive.unpack(number):
            all_names = {**self.names, **name_changes}
            all_nodes = {**self.nodes, **node_changes}
            named_nodes = (change.nodes for change in name_changes.values())
            for node in set(node_changes).union(*named_nodes):
                nodes.register(node)
            self.names = all_names
            self.nodes = all_nodes
        if number is None:
            self.archive = None
