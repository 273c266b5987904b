"""What cells have done to files: names, and what they lead to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence, Set
from functools import partial
from itertools import chain
from typing import NamedTuple

from .archive import Archive
from .copies import Copies
from .nodes import Content, Name, Node, NodeTable, Version
from .states import FOLDER, MISSING_KIND, FileState, read_state

MIN_PACKED_FILES = 50
"""A step with fewer files is not packed."""
MAX_ARCHIVED_NAMES = 250
"""Names that are packed together. If one of their files is asked for, all are unpacked."""
MAX_CELL_PATHS = 10_000
"""Paths of a cell that are noted; memory for them is limited."""


class NameChange:
    """A place in a folder, before and after a cell."""

    __slots__ = ("after", "before")

    def __init__(self, before: Node | None) -> None:
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
        self.before = before
        """None if the cell has made it."""
        self.is_nameless = is_nameless or before is None
        """Whether it had no name before, so that it may lose its names when the cell is undone."""
        self.after: Version | None = None
        self.links = links
        """Its names before the cell."""
        self.links_after = 0
        """Its names after the cell."""
        self.is_written = False
        """Whether its content may have changed."""


class FileStep:
    """What a cell has done to files."""

    def __init__(self, cell: int, known_count: int, *, is_background: bool = False) -> None:
        self.cell = cell
        self.known_count = known_count
        """How many files and folders were known before it."""
        self.is_background = is_background
        """Whether its processes did this between two cells, so that their end is not known."""
        self.is_closed = is_background
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
        """Pack the names, and what is known of some files. own_nodes: files that nothing else knows."""
        if self.archive is None:
            self.archive = Archive(copies)
        for names, nodes in self._divide(own_nodes):
            name_changes = {name: self.names[name] for name in names}
            node_changes = {node: self.nodes[node] for node in nodes & self.nodes.keys()}
            self.archive.pack((name_changes, node_changes), nodes)
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
        part_of_node: dict[Node, int] = {}
        divided_nodes: set[Node] = set()
        for index, change in enumerate(self.names.values()):
            part = index // MAX_ARCHIVED_NAMES
            for node in change.nodes & own_nodes:
                if part_of_node.setdefault(node, part) != part:
                    divided_nodes.add(node)
        for index, node in enumerate(node for node in self.nodes if node in own_nodes):
            part_of_node.setdefault(node, index // MAX_ARCHIVED_NAMES)

        nodes_of_part: defaultdict[int, set[Node]] = defaultdict(set)
        for node in part_of_node.keys() - divided_nodes:
            nodes_of_part[part_of_node[node]].add(node)
        names = list(self.names)
        for part in range(max(len(names), len(own_nodes)) // MAX_ARCHIVED_NAMES + 1):
            start = part * MAX_ARCHIVED_NAMES
            part_names = names[start : start + MAX_ARCHIVED_NAMES]
            part_nodes = nodes_of_part.pop(part, set())
            if part_names or part_nodes:
                yield part_names, part_nodes

    def unpack(self, nodes: NodeTable, number: int | None = None) -> None:
        """Have names and nodes at hand again. If this fails, what is not at hand stays packed.

        Args:
            nodes: Gets to know them.
            number: That of a file, if only what is packed with it is needed.
        """
        if self.archive is None or not (number is None or self.archive.has_number(number)):
            return
        for name_changes, node_changes in self.archive.unpack(number):
            all_names = {**self.names, **name_changes}
            all_nodes = {**self.nodes, **node_changes}
            for node in set(node_changes).union(
                *(change.nodes for change in name_changes.values())
            ):
                nodes.register(node)
            self.names = all_names
            self.nodes = all_nodes
        if number is None:
            self.archive = None


class PathChange(NamedTuple):
    """What a cell has done to a path."""

    change: str
    """new, changed, renamed or removed."""
    path: str
    old_path: str = ""
    """The path before a renaming; empty if there was none."""


class FileJournal:
    """The steps of all cells that can be undone."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self.nodes = NodeTable(copies)
        self.nodes.unpack_number = self._unpack_number
        self.steps: list[FileStep] = []
        self.open_nodes: set[Node] = set()
        """Files that a process of the kernel has open for writing, as far as it is known."""
        self.moved_away: set[Node] = set()
        """Folders that were moved to one that is not watched, and may have been moved on since."""

    def step(self, cell: int, *, is_background: bool = False) -> FileStep:
        """Return the step of a cell, which is the newest. is_background: whether none runs."""
        newest = self.steps[-1] if self.steps else None
        if newest is None or newest.cell != cell:
            self.copies.begin_cell()
        elif is_background and newest.is_background:
            return newest
        elif not is_background:
            # A process may have written between the cell and its end, as the witness learns of them.
            for step in reversed(self.steps):
                if step.cell == cell and not step.is_closed:
                    return step
        self.steps.append(FileStep(cell, self.nodes.count, is_background=is_background))
        return self.steps[-1]

    def forget_before(self, cell: int) -> None:
        """Forget the steps before a cell."""
        while self.steps and self.steps[0].cell < cell:
            self.steps[0].unpack(self.nodes)  # its copies go with it
            del self.steps[0]

    # Memory

    def pack(self) -> bool:
        """Pack what the steps know of many files, except files that several of them know. Call this only
        when nothing can be redone, because such steps also know these files. Returns whether there were
        any."""
        if not any(self._can_be_packed(step) for step in self.steps):
            return False
        use_counts = Counter(chain.from_iterable(step.all_nodes() for step in self.steps))
        has_packed = False
        for step in self.steps:
            if self._can_be_packed(step):
                own_nodes = {
                    node
                    for node in step.unpacked_nodes() - self.open_nodes
                    if use_counts[node] == 1 and node.kind != FOLDER
                }
                if len(step.names) + len(own_nodes) >= MIN_PACKED_FILES:
                    step.pack(own_nodes, self.copies)
                    has_packed = True
        return has_packed

    def _can_be_packed(self, step: FileStep) -> bool:
        may_grow = not step.is_closed or (step.is_background and step is self.steps[-1])
        return len(step.nodes) >= MIN_PACKED_FILES and not may_grow

    def _unpack_number(self, number: int) -> None:
        for step in self.steps:
            step.unpack(self.nodes, number)

    # Before a call goes on

    def note_name(self, step: FileStep, path: str) -> None:
        """Note that a cell is about to create a path, to take it away, or to give it to something else."""
        name = self.nodes.name(path)
        if name is None:
            return
        node = self._look_at(step, name)
        if name not in step.names:
            if node not in step.folders and self._is_full(step, step.names):
                return
            step.names[name] = NameChange(node)
            step.folders.add(name.folder)
        node_change = step.nodes.get(node) if node is not None else None
        if node is not None and node_change is not None and node_change.before is not None:
            self.nodes.hold(node, path)

    def note_content(self, step: FileStep, path: str, *, is_written: bool = True) -> None:
        """Note that a cell is about to write a file; or only to change its permissions or times."""
        name = self.nodes.name(path)
        node = self._look_at(step, name) if name is not None else None
        if node is not None:
            self._note_write(step, node, path, is_written=is_written)

    def note_existing(self, step: FileStep, path: str) -> None:
        """Note that a path leads to something that the cell has not made."""
        name = self.nodes.name(path)
        if name is not None:
            self._look_at(step, name)

    def note_leaving(self, path: str) -> None:
        """Note that what a path leads to is about to be moved to a folder that is not watched."""
        node = self.nodes.known(read_state(path))
        if node is not None and node.kind == FOLDER:
            self.moved_away.add(node)

    def _note_write(self, step: FileStep, node: Node, path: str, *, is_written: bool) -> None:
        change = step.nodes.get(node)
        if change is None:  # one too many to be noted; an earlier step may need its content
            self.nodes.copy(node.version, path)
        elif is_written and not change.is_written:
            change.is_written = True
            if change.before is not None:
                self.nodes.copy(change.before, path)

    def _look_at(self, step: FileStep, name: Name) -> Node | None:
        """Return what is at a place, before a cell changes it."""
        path = name.path
        state = read_state(path)
        if state.kind == MISSING_KIND:
            return None
        known_node = self.nodes.known(state)
        if (
            known_node is not None and known_node in step.nodes
        ):  # what is different now comes from the cell
            return self.nodes.identify(name, state)
        if name in step.names:
            return self._find_new(step, name, state)
        node = self.nodes.identify(name, state)
        if known_node is not None:
            self.nodes.sync(node, state, path)
        if node not in step.folders and self._is_full(step, step.nodes):
            step.unnoted.add(state.inode)
        else:
            self._note_node(step, node, state)
        return node

    @staticmethod
    def _note_node(step: FileStep, node: Node, state: FileState) -> None:
        step.nodes[node] = NodeChange(node.version, node.count_names(state))
        # If an earlier cell could not copy it, there may be room now.
        node.version.content.reason = ""

    def _find_new(self, step: FileStep, name: Name, state: FileState) -> Node:
        """Return what a cell has put in a place, and did not have before."""
        known_node = self.nodes.known(state)
        is_new = state.inode not in step.unnoted
        # What was known before it is not this, but its number was used again: the cell would have taken it
        # from another place.
        if is_new and known_node is not None and known_node.serial < step.known_count:
            self.nodes.add(state)
        node = self.nodes.identify(name, state)
        step.nodes[node] = NodeChange(None if is_new else node.version, 0 if is_new else 1)
        return node

    def _is_full(self, step: FileStep, noted: Collection[object]) -> bool:
        is_full = len(noted) >= MAX_CELL_PATHS
        if is_full:
            step.problems[f"Only the first {MAX_CELL_PATHS:,} files of a cell are noted."] = None
        return is_full

    def begin(self, cell: int) -> None:
        """Copy what is open for writing, because a cell can write it without another call."""
        for node in self.open_nodes:
            step = self.step(cell)
            path = self.nodes.path_of(node)
            state = read_state(path)
            if state.inode != node.inode or self._is_full(step, step.nodes):
                continue
            self.nodes.sync(node, state, path)
            self._note_node(step, node, state)
            self._note_write(step, node, path, is_written=True)

    # At the end of a cell

    def close(self, step: FileStep) -> None:
        """Note what the paths of a step lead to now."""
        step.is_closed = True
        with self.nodes.opening(step.places):
            self._close(step)

    def _close(self, step: FileStep) -> None:
        results = self.nodes.find_all(step.names, partial(self._find_result, step))
        for name, change in step.names.items():
            change.after = results.get(name)
        for node, node_change in step.nodes.items():
            path = self.nodes.path_of(node)
            if path:
                self.nodes.settle(
                    node, path, may_be_written=node_change.is_written or node_change.before is None
                )
            else:
                self.nodes.drop(node)
                if node_change.is_written:  # what it holds is not known
                    node.version = Version(node.version.state, Content())
            node_change.after = node.version
            node_change.links_after = node.count_names(node.seen) if path else 0

    def _find_result(self, step: FileStep, name: Name, state: FileState) -> Node:
        known_node = self.nodes.known(state)
        if known_node is None or known_node not in step.nodes:
            return self._find_new(step, name, state)
        return self.nodes.identify(name, state)

    def finish(self, step: FileStep) -> list[PathChange]:
        """Close a step, and forget what is as it was before the cell; return the rest."""
        self.close(step)
        step.names = {
            name: change for name, change in step.names.items() if change.before is not change.after
        }
        named = {change.before for change in step.names.values()}
        named |= {change.after for change in step.names.values()}
        step.nodes = {
            node: change
            for node, change in step.nodes.items()
            if node in named or change.before not in (None, change.after)
        }
        with self.nodes.opening(step.places):
            return list(_path_changes(step, self.nodes))


def _path_changes(step: FileStep, nodes: NodeTable) -> Iterator[PathChange]:
    """Yield what a step has done to paths, but for what is new in a new folder, or was in a removed one."""
    new_places = {
        change.after: name
        for name, change in step.names.items()
        if change.after is not None and change.before is None
    }
    old_places = {
        change.before: name
        for name, change in step.names.items()
        if change.before is not None and change.after is None
    }
    renamed = new_places.keys() & old_places.keys()
    hidden = {node for node in (*new_places, *old_places) if node not in renamed}
    changed_names: dict[Name, None] = {}
    for name, change in step.names.items():
        is_rename = change.before is None and change.after in renamed
        if not is_rename and not hidden.isdisjoint(name.folders()):
            continue
        if change.before is None and change.after is not None:
            if change.after in renamed:
                old_path = _old_path(old_places[change.after], old_places)
                yield PathChange("renamed", name.path, old_path)
            else:
                yield PathChange("new", name.path)
        elif change.after is not None:
            changed_names[name] = None
        elif change.before not in renamed:
            yield PathChange("removed", _old_path(name, old_places))
    for node, node_change in step.nodes.items():
        if node_change.before is None or node_change.before is node_change.after:
            continue
        for name in nodes.names_of(node)[:1]:
            is_shown = name in step.names or not hidden.isdisjoint(name.folders())
            if not is_shown:
                changed_names[name] = None
    for name in changed_names:
        yield PathChange("changed", name.path)


def _old_path(name: Name, old_places: dict[Node, Name]) -> str:
    """Return a path as it was before folders were renamed."""
    parts = [name.text]
    folder = name.folder
    renamed: set[Node] = set()
    while folder in old_places and folder not in renamed:
        renamed.add(folder)
        place = old_places[folder]
        parts.append(place.text)
        folder = place.folder
    return "/".join((folder.path, *reversed(parts)))
