"""What cells have done to files: names, and what they lead to.

A place in a folder (`Name`) and a file that stands there (`Node`) are told apart, because a file may have
several names, or get another one. A step of a cell notes both before the cell changes them, and what
they are after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial
from itertools import chain

from .copies import Copies
from .file_step import FileStep, NameChange, NodeChange
from .node_table import NodeTable
from .nodes import Content, Name, Node, Version
from .path_changes import PathChange, list_path_changes
from .states import FOLDER, MISSING_KIND, FileState, read_state

MIN_PACKED_FILES = 50
"""A step with fewer files is not packed."""
MAX_CELL_PATHS = 10_000
"""Paths of a cell that are noted; memory for them is limited."""


class FileJournal:
    """The steps of all cells that can be undone."""

    def __init__(self, copies: Copies) -> None:
        """Begin without steps.

        Args:
            copies: Where files are copied.
        """
        self.copies = copies
        self.steps: list[FileStep] = []
        """The oldest first."""
        self.nodes = NodeTable(copies, self._unpack_number)
        self.open_nodes: set[Node] = set()
        """Files that a process of the kernel has open for writing, as far as it is known."""
        self.moved_away: set[Node] = set()
        """Folders that were moved to one that is not watched, and may have been moved on since."""

    def step(self, cell: int, *, is_background: bool = False) -> FileStep:
        """Return the step of a cell, which is the newest.

        Args:
            cell: The cell.
            is_background: Whether it has ended, and no other one runs.
        """
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
        """Pack what the steps know of many files, except files that several of them know.

        Call this only when nothing can be redone, because such steps also know these files.

        Returns:
            Whether there were any.
        """
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
        """Return whether a step has many files, and gets no further ones."""
        may_grow = not step.is_closed or (step.is_background and step is self.steps[-1])
        return len(step.nodes) >= MIN_PACKED_FILES and not may_grow

    def _unpack_number(self, number: int) -> None:
        """Unpack what the steps have packed of the file with an inode number."""
        for step in self.steps:
            step.unpack(self.nodes, number)

    # At the beginning of a cell

    def note_open_files(self, cell: int) -> None:
        """Note and copy the files that are open for writing, because the cell can write them without
        another call."""
        for node in self.open_nodes:
            step = self.step(cell)
            path = self.nodes.path_of(node)
            state = read_state(path)
            if state.inode != node.inode or self._is_full(step, step.nodes):
                continue
            self.nodes.sync(node, state, path)
            self._note_before(step, node, state)
            self._note_write(step, node, path, is_written=True)

    # Before a call goes on

    def note_name(self, step: FileStep, path: str) -> None:
        """Note that a cell is about to create a path, to take it away, or to give it to something else.

        Args:
            step: The step of the cell.
            path: The path, without links.
        """
        name = self.nodes.name(path)
        if name is None:
            return
        node = self._note_what_is_at(step, name)
        if name not in step.names:
            if node not in step.folders and self._is_full(step, step.names):
                return
            step.names[name] = NameChange(node)
            step.folders.add(name.folder)
        if node is None:
            return
        node_change = step.nodes.get(node)
        existed_before = node_change is not None and node_change.before is not None
        if existed_before:  # it may lose its last name
            self.nodes.hold(node, path)

    def note_content(self, step: FileStep, path: str, *, is_written: bool = True) -> None:
        """Note that a cell is about to write a file, or to change its permissions or times.

        Args:
            step: The step of the cell.
            path: The path of the file, without links.
            is_written: Whether its content may change.
        """
        name = self.nodes.name(path)
        node = self._note_what_is_at(step, name) if name is not None else None
        if node is not None:
            self._note_write(step, node, path, is_written=is_written)

    def note_existing(self, step: FileStep, path: str) -> None:
        """Note that a path leads to something that the cell has not made."""
        name = self.nodes.name(path)
        if name is not None:
            self._note_what_is_at(step, name)

    def note_leaving(self, path: str) -> None:
        """Note that what a path leads to is about to be moved to a folder that is not watched."""
        node = self.nodes.known(read_state(path))
        if node is not None and node.kind == FOLDER:
            self.moved_away.add(node)

    def _note_write(self, step: FileStep, node: Node, path: str, *, is_written: bool) -> None:
        """Copy a file that a cell is about to write, the first time.

        Args:
            step: The step of the cell.
            node: The file.
            path: Where it is.
            is_written: Whether its content may change, and not only its permissions or times.
        """
        change = step.nodes.get(node)
        if change is None:  # one too many to be noted; an earlier step may need its content
            self.nodes.copy(node.version, path)
        elif is_written and not change.is_written:
            change.is_written = True
            if change.before is not None:
                self.nodes.copy(change.before, path)

    def _note_what_is_at(self, step: FileStep, name: Name) -> Node | None:
        """Return what is at a place that a cell is about to change, and note it the first time.

        Args:
            step: The step of the cell.
            name: The place.

        Returns:
            None if nothing is there.
        """
        path = name.path
        state = read_state(path)
        if state.kind == MISSING_KIND:
            return None
        known_node = self.nodes.known(state)
        # The step has it already, and what is different now was changed by the cell.
        if known_node is not None and known_node in step.nodes:
            return self.nodes.identify(name, state)
        if name in step.names:
            return self._note_made(step, name, state)
        node = self.nodes.identify(name, state)
        if known_node is not None:
            self.nodes.sync(node, state, path)
        if node not in step.folders and self._is_full(step, step.nodes):
            step.unnoted.add(state.inode)
        else:
            self._note_before(step, node, state)
        return node

    @staticmethod
    def _note_before(step: FileStep, node: Node, state: FileState) -> None:
        """Note what a file is before a cell changes it."""
        step.nodes[node] = NodeChange(node.version, node.count_names(state))
        # If an earlier cell could not copy it, there may be room now.
        node.version.content.reason = ""

    def _note_made(self, step: FileStep, name: Name, state: FileState) -> Node:
        """Return what a cell has put in a place, and note whether the cell has made it.

        Args:
            step: The step of the cell.
            name: The place.
            state: What is there.
        """
        known_node = self.nodes.known(state)
        is_new = state.inode not in step.unnoted
        # A node with this number that was known before the cell is another file, whose number the system
        # has used again: if the cell had moved that file here, the step would have it from its old place.
        if is_new and known_node is not None and known_node.serial < step.known_count:
            self.nodes.add(state)
        node = self.nodes.identify(name, state)
        if is_new:
            step.nodes[node] = NodeChange(None, 0)
        else:
            step.nodes[node] = NodeChange(node.version, 1)
        return node

    def _is_full(self, step: FileStep, entries: Collection[object]) -> bool:
        """Return whether a step has as many entries as are allowed, and add a problem to it then.

        Args:
            step: The step.
            entries: Its names or its files.
        """
        is_full = len(entries) >= MAX_CELL_PATHS
        if is_full:
            step.problems[f"Only the first {MAX_CELL_PATHS:,} files of a cell are noted."] = None
        return is_full

    # At the end of a cell

    def close(self, step: FileStep) -> None:
        """Note what the places and files of a step are after the cell."""
        step.is_closed = True
        with self.nodes.opening(step.places):
            self._close(step)

    def _close(self, step: FileStep) -> None:
        """Do what `close` does, while the folders of the places are open."""
        results = self.nodes.find_all(step.names, partial(self._result_at, step))
        for name, change in step.names.items():
            change.after = results.get(name)
        for node, node_change in step.nodes.items():
            path = self.nodes.path_of(node)
            if path:
                may_be_written = node_change.is_written or node_change.before is None
                self.nodes.settle(node, path, may_be_written=may_be_written)
            else:
                self.nodes.drop(node)
                if node_change.is_written:  # nobody can read what it holds now
                    node.version = Version(node.version.state, Content())
            node_change.after = node.version
            node_change.links_after = node.count_names(node.seen) if path else 0

    def _result_at(self, step: FileStep, name: Name, state: FileState) -> Node:
        """Return what a cell has left in a place."""
        known_node = self.nodes.known(state)
        if known_node is None or known_node not in step.nodes:
            return self._note_made(step, name, state)
        return self.nodes.identify(name, state)

    def finish(self, step: FileStep) -> list[PathChange]:
        """Close a step, take out of it what is as it was before the cell, and return the changes."""
        self.close(step)
        step.names = {
            name: change for name, change in step.names.items() if change.before is not change.after
        }
        moved_nodes = {change.before for change in step.names.values()}
        moved_nodes |= {change.after for change in step.names.values()}
        step.nodes = {
            node: change
            for node, change in step.nodes.items()
            if node in moved_nodes or change.before not in (None, change.after)
        }
        with self.nodes.opening(step.places):
            return list(list_path_changes(step, self.nodes))
