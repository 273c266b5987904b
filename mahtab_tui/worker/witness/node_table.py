"""The files and folders that the witness knows, by the numbers that the system has for them.

The table finds out where they are now, and whether they are still what they were. It lets this process into
folders that are closed to their owner, and has copies made of files.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Callable

from .copies import Copies
from .nodes import Content, Name, Node, Version
from .states import FILE, FOLDER, MISSING_KIND, FileState, read_digest, read_state

_COMPARED_BYTES = 2**20
"""Bytes of two files that are compared at once."""


class NodeTable:
    """The files and folders that are known, by their numbers."""

    def __init__(self, copies: Copies, unpack_number: Callable[[int], None]) -> None:
        """Begin with the root folder.

        Args:
            copies: Where files are copied.
            unpack_number: Unpacks the nodes with an inode number, if there are any that are packed.
        """
        self._copies = copies
        self._nodes: weakref.WeakValueDictionary[tuple[int, int], Node] = (
            weakref.WeakValueDictionary()
        )
        self._unpack_number = unpack_number
        state = read_state("/")
        self._root = Node(state, Version(state, Content()), 0)
        self.count = 0
        """How many files and folders have become known."""
        self._closed_modes: dict[Node, int] = {}
        """Permissions of folders that are open for the moment, because their owner may not enter them."""

    def name(self, path: str) -> Name | None:
        """Return the place to which a path without links leads; None if its folder does not exist."""
        folder_path, text = os.path.split(path)
        folder = self._folder(folder_path)
        return Name(folder, text) if folder is not None and text else None

    def _folder(self, path: str) -> Node | None:
        """Return the folder at a path without links; None if there is none."""
        folder = self._root
        unknown: list[tuple[str, FileState]] = []
        while path not in ("", "/"):
            state = read_state(path)
            if state.kind != FOLDER:
                return None
            node = self.known(state)
            if node is not None and node.path == path:
                folder = node
                break
            path, text = os.path.split(path)
            unknown.append((text, state))
        for text, state in reversed(unknown):
            folder = self.identify(Name(folder, text), state)
        return folder

    def _with_inode(self, inode: tuple[int, int]) -> Node | None:
        """Return the node with a device and number, packed or not; None if there is none."""
        _device, number = inode
        self._unpack_number(number)
        return self._nodes.get(inode)

    def register(self, node: Node) -> None:
        """Note the number of a node that was unpacked."""
        if node.inode is not None:
            self._nodes[node.inode] = node

    def known(self, state: FileState) -> Node | None:
        """Return the node with a state, if there is one. A link that leads elsewhere is another one, whose
        number was used again."""
        node = self._with_inode(state.inode)
        if node is None or (node.kind, node.version.state.target) != (state.kind, state.target):
            return None
        return node

    def identify(self, name: Name, state: FileState) -> Node:
        """Return the node at a place, which gets to be known.

        Args:
            name: The place.
            state: What is there.
        """
        node = self.known(state) or self.add(state)
        if state.kind == FOLDER and name.lies_in(node):
            # A mount shows a folder in itself. Its path must end.
            node = self.add(state)
        if state.kind == FOLDER:
            node.names.clear()
        node.names.pop(name, None)
        node.names[name] = None
        return node

    def add(self, state: FileState) -> Node:
        """Return a new node, in place of one whose number was used again."""
        old = self._with_inode(state.inode)
        if old is not None:
            old.inode = None
        node = Node(state, Version(state, Content()), self.count)
        self.count += 1
        self._nodes[state.inode] = node
        return node

    def assign(self, node: Node, state: FileState) -> None:
        """Note that a node was made again."""
        self.drop(node)
        old = self._with_inode(state.inode)
        if old is not None and old is not node:
            old.inode = None
        node.inode = state.inode
        self._nodes[state.inode] = node

    def drop(self, node: Node) -> None:
        """Note that a node does not exist any more."""
        if node.inode is not None and self._nodes.get(node.inode) is node:
            del self._nodes[node.inode]
        node.inode = None

    # Where nodes are

    def is_root(self, node: Node) -> bool:
        """Return whether a node is the root folder, which has no name."""
        return node is self._root

    def find_all(
        self, names: Iterable[Name], find: Callable[[Name, FileState], Node]
    ) -> dict[Name, Node]:
        """Return what is at some places now, but for those where nothing is.

        Args:
            names: The places.
            find: Returns what is at a place, and notes where it is: the places in a folder can be found
                only when that is known.
        """
        nodes: dict[Name, Node] = {}
        remaining_names = dict.fromkeys(names)
        while True:
            reachable_names = [name for name in remaining_names if self.is_there(name.folder)]
            if not reachable_names:
                return nodes
            for name in reachable_names:
                del remaining_names[name]
                state = read_state(name.path)
                if state.kind != MISSING_KIND and self.is_there(name.folder):
                    nodes[name] = find(name, state)

    def names_of(self, node: Node) -> list[Name]:
        """Return the known places at which a node is."""
        if node is self._root:
            return []
        return [name for name in node.names if self.is_at(node, name)]

    def is_nameless(self, node: Node) -> bool:
        """Return whether a node has no name, as far as it is known."""
        if self.names_of(node):
            return False
        return node.kind != FILE or node.inode is None or node.count_names(node.seen) < 1

    def is_at(self, node: Node, name: Name) -> bool:
        """Return whether a node is at a place."""
        state = read_state(name.path)
        return state.inode == node.inode and state.kind == node.kind and self.is_there(name.folder)

    def is_there(self, folder: Node) -> bool:
        """Return whether a folder is where it was found last."""
        if folder is self._root:
            return True
        return folder.inode is not None and read_state(folder.path).inode == folder.inode

    def path_of(self, node: Node) -> str:
        """Return a path by which a node can be reached, perhaps that of its copy; empty if there is none."""
        for name in self.names_of(node):
            return name.path
        if node.hold is not None and node.hold.path and node.inode is not None:
            return node.hold.path
        return ""

    # Folders that are closed to their owner

    @contextmanager
    def opening(self, names: Iterable[Name], *, needed: int = os.R_OK | os.X_OK) -> Iterator[None]:
        """Let this process into folders whose permissions keep it out, although it is their owner.

        Args:
            names: The places in and below the folders.
            needed: What is needed of a folder, as of `os.access`.
        """
        opened: dict[Node, None] = {}
        seen: set[Node] = set()
        try:
            for name in names:
                for folder in reversed(list(name.folders())):
                    if folder not in seen:
                        seen.add(folder)
                        if self._open(folder, needed):
                            opened[folder] = None
            yield
        finally:
            for folder in reversed(list(opened)):
                mode = self._closed_modes.pop(folder, None)
                if mode is not None and self.is_there(folder):
                    with suppress(OSError):
                        os.chmod(folder.path, mode)
            if not self._closed_modes:
                self._copies.opened_folders.forget()

    def _open(self, folder: Node, needed: int) -> bool:
        """Let this process into a folder, if it is its owner; return whether that had to be done."""
        path = folder.path or "/"
        if folder in self._closed_modes or os.access(path, needed, effective_ids=True):
            return False
        state = read_state(path)
        if state.inode != folder.inode or state.owner[0] != os.geteuid():
            return False
        mode = stat.S_IMODE(state.mode)
        self._closed_modes[folder] = mode
        self._copies.opened_folders.add(path, state, mode)
        with suppress(OSError):
            os.chmod(path, mode | stat.S_IRWXU)
        return True

    def read_state(self, path: str) -> FileState:
        """Return what a path leads to, with the permissions that an opened folder has otherwise."""
        state = read_state(path)
        node = self._nodes.get(state.inode)
        if node is None or node not in self._closed_modes:
            return state
        return state._replace(mode=stat.S_IFMT(state.mode) | self._closed_modes[node])

    def set_mode(self, folder: Node, mode: int) -> None:
        """Give a folder permissions, for good. Raises `OSError`."""
        path = folder.path
        if self._closed_modes.pop(folder, None) is not None:
            self._copies.opened_folders.add(path, read_state(path), mode)
        os.chmod(path, mode)

    # What nodes are

    def sync(self, node: Node, state: FileState, path: str) -> bool:
        """Compare a node with what is known of it. If something that the witness has not seen has changed
        it, it gets a new version.

        Args:
            node: The node.
            state: What it is now.
            path: Where it is.

        Returns:
            Whether it has a new version.
        """
        version = node.version
        seen = node.seen
        is_same = state.looks_like(version.state) and (
            # Other names that came and went change this time, too.
            state.kind != FILE or state.ctime_ns == seen.ctime_ns or state.links != seen.links
        )
        if is_same and not (node.is_fresh and version.content.digest):
            node.see(state)
            return False
        if state.marks == version.state.marks and self._has_content(version, state, path):
            # The same content with another time is not a change.
            version.state = version.state._replace(mtime_ns=state.mtime_ns)
            node.see(state)
            return False
        node.version = Version(state, Content())
        node.see(state)
        return True

    @staticmethod
    def _has_content(version: Version, state: FileState, path: str) -> bool:
        """Return whether a node surely holds what it held in a version; only small files are read."""
        if state.kind != FILE:
            return True
        if state.size != version.state.size:
            return False
        digest = version.content.digest
        return bool(digest) and digest == read_digest(path)

    def settle(self, node: Node, path: str, *, may_be_written: bool) -> None:
        """Note what a cell has made of a node.

        Args:
            node: A file, folder or link.
            path: Where it is.
            may_be_written: Whether the cell could write its content.
        """
        state = self.read_state(path)
        version = node.version
        content = version.content
        is_same = state.looks_like(version.state)
        if state.kind == FILE and (may_be_written or state.size != version.state.size):
            digest = read_digest(path)
            if is_same and node.is_fresh:
                is_same = self._is_unwritten(content, digest, path)
            if not is_same and not (digest and digest == content.digest):
                content = Content(digest)
            elif not content.known_digest:
                content.known_digest = digest
        if not is_same:
            node.version = Version(state, content)
        node.see(state)

    @staticmethod
    def _is_unwritten(content: Content, digest: bytes, path: str) -> bool:
        """Return whether a file whose time is too new to say it still holds what it held."""
        if digest or content.copy is None:
            return content.digest == digest
        return have_same_content(content.copy.path, path)

    # Copies

    def hold(self, node: Node, path: str) -> None:
        """Keep a file that may lose its names, by another name or a copy.

        Args:
            node: The file. Others need not be kept.
            path: Where it is.
        """
        if node.kind != FILE or node.is_held:
            return
        try:
            node.hold = self._copies.name(path, node.seen)
        except OSError:
            self.copy(node.version, path)
        else:
            node.see(read_state(path))

    def copy(self, version: Version, path: str) -> None:
        """Copy the content of a file, or note why that is impossible.

        Args:
            version: What the file is.
            path: Where it is.
        """
        content = version.content
        if version.state.kind != FILE or content.reason:
            return
        if content.copy is not None and content.copy.is_usable and not content.copy.is_name:
            return
        try:
            content.copy = self._copies.copy(path, read_state(path))
        except OSError as error:
            content.reason = str(error.strerror)


def have_same_content(path: str, other_path: str) -> bool:
    """Return whether two files hold the same; False if one cannot be read."""
    try:
        with open(path, "rb") as file, open(other_path, "rb") as other_file:
            while True:
                data = file.read(_COMPARED_BYTES)
                if data != other_file.read(_COMPARED_BYTES):
                    return False
                if not data:
                    return True
    except OSError:
        return False
