"""Files and folders as the witness knows them, whatever their names are.

A `Node` stays the same when its file is renamed, written, or made again. Its `Version` says what the file is at a
time, and its names (`Name`) are places in folders, which are nodes, too. `NodeTable` finds them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from .copies import Copy
from .states import FileState, read_digest, unpack_state

_FRESH_NS = 50_000_000
"""A file written less than this before it was looked at may change again without a new time."""


class Content:
    """What a file holds, with a copy if one was needed."""

    __slots__ = ("copy", "known_digest", "reason")

    def __init__(self, digest: bytes = b"") -> None:
        """Begin without a copy.

        Args:
            digest: The digest, if the content was read, and is small.
        """
        self.known_digest = digest
        """Digest of a small content; empty if it was not read."""
        self.copy: Copy | None = None
        """None if none was needed, or possible."""
        self.reason = ""
        """Why there is no copy, although one was needed, as a clause."""

    @property
    def digest(self) -> bytes:
        """Digest of a small content; empty if the content is not known."""
        if not self.known_digest and self.copy is not None and self.copy.is_usable:
            self.known_digest = read_digest(self.copy.path)
        return self.known_digest


class Version:
    """What a file, folder or link is at a time: its permissions, owner and time, and its content."""

    __slots__ = ("_packed_state", "content")

    def __init__(self, state: FileState, content: Content) -> None:
        """Note what something is.

        Args:
            state: Its metadata.
            content: What it holds; of folders and links, an empty one.
        """
        self._packed_state = state.pack()
        self.content = content

    @property
    def state(self) -> FileState:
        """The metadata."""
        return unpack_state(self._packed_state)

    @state.setter
    def state(self, state: FileState) -> None:
        self._packed_state = state.pack()


class Node:
    """A file, folder or link. It stays the same when it is renamed, or made again by an undo."""

    __slots__ = (
        "__weakref__",
        "_packed_seen",
        "hold",
        "inode",
        "is_mapped",
        "names",
        "seen_ns",
        "serial",
        "version",
    )

    def __init__(self, state: FileState, version: Version, serial: int) -> None:
        """Note a file that was not known.

        Args:
            state: What it is now.
            version: The same, with its content.
            serial: How many others were known before.
        """
        self.serial = serial
        """By which those that were known earlier are told from others."""
        self.inode: tuple[int, int] | None = state.inode
        """Device and number; None if it does not exist any more."""
        self._packed_seen = state.pack()
        self.seen_ns = time.time_ns()
        """When it was looked at last."""
        self.version = version
        """What it is, as far as the witness knows."""
        self.names: dict[Name, None] = {}
        """Where it was found, the newest last; of a folder, only the newest."""
        self.hold: Copy | None = None
        """Another name of the file, by which it exists when it has lost its names."""
        self.is_mapped = False
        """Whether a process of the kernel has the file in its memory, and can change it there."""

    @property
    def seen(self) -> FileState:
        """Its state when it was looked at last."""
        return unpack_state(self._packed_seen)

    @property
    def kind(self) -> str:
        """What it is, as in `FileState.kind`."""
        return self.version.state.kind

    @property
    def path(self) -> str:
        """Where it was found last; empty for the root."""
        parts = []
        node = self
        while node.names:
            name = next(reversed(node.names))
            parts.append(name.text)
            node = name.folder
        return "/" + "/".join(reversed(parts)) if parts else ""

    @property
    def is_held(self) -> bool:
        """Whether it exists by another name, whatever becomes of its own."""
        return self.hold is not None and bool(self.hold.path)

    @property
    def is_fresh(self) -> bool:
        """Whether it could have changed since it was seen, without another time."""
        return self.is_mapped or self.seen_ns - self.seen.mtime_ns < _FRESH_NS

    def see(self, state: FileState) -> None:
        """Note that it was looked at now."""
        self._packed_seen = state.pack()
        self.seen_ns = time.time_ns()

    def count_names(self, state: FileState) -> int:
        """Return how many names it has, without those that copies are.

        Args:
            state: What it is.
        """
        copies = [copy for copy in (self.hold, self.version.content.copy) if copy is not None]
        return state.links - sum(copy.is_name_of(state) for copy in copies)


class Name(NamedTuple):
    """A place in a folder, wherever that folder is."""

    folder: Node
    text: str
    """What it is called there."""

    @property
    def path(self) -> str:
        """Where it was, when its folder was found last."""
        return f"{self.folder.path}/{self.text}"

    def folders(self) -> Iterator[Node]:
        """Yield the folder in which it is, that in which this is, and so on."""
        folder = self.folder
        yield folder
        while folder.names:
            folder = next(reversed(folder.names)).folder
            yield folder

    def lies_in(self, folder: Node) -> bool:
        """Return whether it is in a folder, or in one that is in it."""
        return folder in self.folders()
