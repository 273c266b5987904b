"""Decides what an undo of files does: which names lead to what, and what stays as it is.

A name is taken away or given to something else, and a content is replaced, only if it is exactly what the cells
(or an earlier undo) have left there. A file loses its last name only if it had none before the cells that are
undone. What cannot be done keeps other things from being done: if a folder stays, so does what would get its
name. So refusals are looked for until there are no more.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

from .content_copying import read_free_bytes
from .earlier_files import EarlierFiles
from .file_step import FileStep
from .journal import FileJournal
from .nodes import Name, Node, Version
from .states import FILE, FOLDER, OTHER

COPY_CHANGED = "its copy was changed by something outside the cells"
NO_ROOM = "there is no room for a copy, without which it would be lost"
_OLD_NAME_STAYS = "its old name could not be restored, so it keeps the new one"
_NOT_EMPTY = "it could not be restored (Directory not empty)"
_FOLDER_IS_MISSING = "the folder in which it was could not be restored"
PLACE_IS_TAKEN = "it could not be restored (something else has this name now)"
_MOVED_AWAY = "it was moved to a folder that is not watched, and stays there"
_DISK_IS_FULL = f"it could not be restored ({os.strerror(errno.ENOSPC)})"
_IS_SPECIAL = "it is a device or a socket, which cannot be created again"


class UndoDecision:
    """What taking back steps does to places and files. Making it changes nothing."""

    def __init__(self, journal: FileJournal, steps: Sequence[FileStep]) -> None:
        """Decide.

        Args:
            journal: Has the steps, and the copies of files.
            steps: The steps to take back, the oldest first.
        """
        self._journal = journal
        self.nodes = journal.nodes
        self.earlier = EarlierFiles(journal, steps)
        self.actual = self.earlier.actual
        """What the places lead to that the steps have changed."""
        self.final: dict[Name, Node | None] = {}
        """What they lead to after the undo."""
        self.changed: list[Name] = []
        """Places that are different after the undo."""
        self.name_refusals: dict[Name, str] = {}
        """Reasons why places stay as they are."""
        self.node_refusals: dict[Node, str] = {}
        """Reasons why contents stay as they are."""
        self._holders: dict[Node, list[Name]] = {}
        """The places that lead to each file or folder after the undo, among those that are touched."""
        self._other_counts: dict[Node, int] = {}
        """What `_count_other_names` has returned."""
        self._decide()
        self._made_again = {node for node in self._holders if self._must_make(node)}

    def _decide(self) -> None:
        """Refuse what cannot be done, and what depends on it, until the rest can be done."""
        while True:
            self.final = {
                name: self.actual[name] if name in self.name_refusals else target
                for name, target in self.earlier.targets.items()
            }
            self.changed = [
                name for name, node in self.final.items() if node is not self.actual[name]
            ]
            self._holders = {}
            for name, node in self.final.items():
                if node is not None:
                    self._holders.setdefault(node, []).append(name)
            kept_count = len(self.node_refusals)
            refusals = (
                self._find_missing_contents()
                or self._find_impossible_places()
                or self._find_losses()
                or self._find_missing_room()
            )
            if not refusals and len(self.node_refusals) == kept_count:
                return
            self.name_refusals.update(refusals)

    def _refuse_node(self, node: Node, reason: str) -> dict[Name, str]:
        """Keep a file as it is, and return its places, which must stay, too."""
        self.node_refusals[node] = reason
        return {
            name: reason for name in self.changed if node in (self.actual[name], self.final[name])
        }

    def _find_missing_contents(self) -> dict[Name, str]:
        refusals: dict[Name, str] = {}
        for node, version in self.earlier.versions.items():
            if node in self.node_refusals or not self.has_name(node):
                continue
            reason = self._missing_content(node, version)
            if reason:
                refusals.update(self._refuse_node(node, reason))
        return refusals

    def _missing_content(self, node: Node, version: Version) -> str:
        """Return why a file cannot become what it was, as a clause; empty if it can."""
        is_special = node.kind == OTHER and not stat.S_ISFIFO(version.state.mode)
        if is_special and not self.earlier.places(node):
            return _IS_SPECIAL
        if node in self._journal.moved_away and not self.earlier.places(node):
            return _MOVED_AWAY
        if node.kind != FILE:
            return ""
        content = version.content
        if content is node.version.content and (self.earlier.places(node) or node.is_held):
            return ""
        if content.copy is not None:
            if content.copy.is_usable:
                return ""
            return content.copy.reason or COPY_CHANGED
        if content.reason:
            return content.reason
        if node.hold is not None:
            return node.hold.reason or COPY_CHANGED
        return "its content was not copied"

    def _find_impossible_places(self) -> dict[Name, str]:
        refusals: dict[Name, str] = {}
        for name in self.changed:
            node = self.final[name]
            if node is None:
                continue
            if not self._is_reachable(name.folder):
                refusals[name] = self.earlier.name_reasons.get(name, _FOLDER_IS_MISSING)
            elif node.kind == FOLDER:
                others = [place for place in self.earlier.places(node) if place not in self.final]
                if len(self._holders[node]) + len(others) > 1:
                    refusals[name] = PLACE_IS_TAKEN
        return refusals

    def _is_reachable(self, folder: Node) -> bool:
        """Return whether a folder is there after the undo."""
        seen: set[Node] = set()
        while not self.nodes.is_root(folder):
            if folder in seen:
                return False
            seen.add(folder)
            place = self._place(folder)
            if place is None:
                return False
            folder = place.folder
        return True

    def _place(self, folder: Node) -> Name | None:
        """Return where a folder is after the undo; None if it is not there."""
        for name in self._holders.get(folder, ()):
            return name
        for name in self.earlier.places(folder):
            if name not in self.final:
                return name
        return None

    def _count_other_names(self, node: Node) -> int:
        """Return how many names a file has beside those that the undo changes."""
        if node not in self._other_counts:
            places = self.earlier.places(node)
            unknown_count = 0
            if node.kind == FILE and node.inode is not None:
                unknown_count = node.count_names(node.seen) - len(places)
            other_places = sum(place not in self.actual for place in places)
            self._other_counts[node] = max(unknown_count, 0) + other_places
        return self._other_counts[node]

    def has_name(self, node: Node) -> bool:
        """Return whether something is in a folder after the undo."""
        return bool(self._holders.get(node)) or (
            bool(self.earlier.places(node)) and self._count_other_names(node) > 0
        )

    def removes(self, node: Node) -> bool:
        """Return whether something that the steps have touched has no name after the undo."""
        return self.earlier.is_touched(node) and not self.has_name(node)

    def loses_known_names(self, node: Node) -> bool:
        """Return whether something is only at places after the undo that are not known."""
        others = [place for place in self.earlier.places(node) if place not in self.final]
        return not self._holders.get(node) and not others

    def _find_losses(self) -> dict[Name, str]:
        places: dict[Node, list[Name]] = {}
        for name in self.changed:
            node = self.actual[name]
            if node is not None:
                places.setdefault(node, []).append(name)
        refusals: dict[Name, str] = {}
        pending = list(self.changed)
        for name in pending:  # which grows meanwhile
            node = self.actual[name]
            if name in refusals or node is None or self.has_name(node):
                continue
            if node not in self.earlier.nameless:
                refusals[name] = self.earlier.node_reasons.get(node, _OLD_NAME_STAYS)
            elif node.kind == FOLDER and not self._becomes_empty(node):
                refusals[name] = _NOT_EMPTY
            else:
                continue
            # What does not get this place may need the one where it is.
            new_node = self.final[name]
            if new_node is not None:
                self._holders[new_node].remove(name)
                pending += places.get(new_node, ())
        return refusals

    def _becomes_empty(self, folder: Node) -> bool:
        with suppress(OSError):
            names = [Name(folder, text) for text in os.listdir(folder.path)]
            return not any(name not in self.final or self.final[name] for name in names)
        return False

    def _find_missing_room(self) -> dict[Name, str]:
        """Find what could not be kept for a redo."""
        copies = self._journal.copies
        refusals: dict[Name, str] = {}
        kept_bytes = 0
        copied_bytes = 0
        for node in self._replaced():
            copy = node.version.content.copy
            if copy is not None and copy.is_usable and not copy.is_name:
                continue
            size = node.seen.used_bytes
            copied_size = 0
            if not copies.can_name(node.seen) or (self.has_name(node) and self.is_shared(node)):
                copied_size = size
            has_room = kept_bytes + size <= copies.max_bytes
            obstacle = ""
            if not has_room or copied_bytes + copied_size > copies.max_cell_bytes:
                obstacle = NO_ROOM
            elif copied_size:
                obstacle = copies.find_obstacle(self.nodes.path_of(node), node.seen, copied_bytes)
            if obstacle:
                refusals.update(self._refuse_node(node, obstacle))
            else:
                kept_bytes += size
                copied_bytes += copied_size
        return refusals or self._find_full_disks()

    def _find_full_disks(self) -> dict[Name, str]:
        """Find files whose earlier content has no place beside the present one."""
        refusals: dict[Name, str] = {}
        written_bytes: Counter[int] = Counter()
        for node, version in self.contents().items():
            path = self.nodes.path_of(node)
            is_same = version.content is node.version.content
            if node.kind != FILE or is_same or not self.earlier.places(node):
                continue
            size = version.state.used_bytes
            if self.is_shared(node):  # it is written over the present one
                size = max(0, size - node.seen.used_bytes)
            device = node.seen.inode[0]
            written_bytes[device] += size
            with suppress(OSError):
                if written_bytes[device] <= read_free_bytes(os.path.dirname(path)):
                    continue
                written_bytes[device] -= size
                if not self._journal.copies.can_share_blocks(path):
                    refusals.update(self._refuse_node(node, _DISK_IS_FULL))
        return refusals

    def _replaced(self) -> Iterable[Node]:
        """Yield the files whose content is lost, but for a copy."""
        for name in self.changed:
            node = self.actual[name]
            if node is not None and node.kind == FILE and not self.has_name(node):
                yield node
        for node, version in self.contents().items():
            if node.kind == FILE and self.earlier.places(node):
                is_written = version.content is not node.version.content
                if is_written:
                    yield node

    def contents(self) -> dict[Node, Version]:
        """Return what files and folders become, of which more than the names change."""
        return {
            node: version
            for node, version in self.earlier.versions.items()
            if version is not node.version
            and node not in self.node_refusals
            and self.has_name(node)
        }

    def version(self, node: Node) -> Version:
        """Return what a file or folder is after the undo."""
        if node in self.node_refusals:
            return node.version
        return self.earlier.versions.get(node, node.version)

    def is_shared(self, node: Node) -> bool:
        """Return whether a file is open, or has several names, so that it has to be written in place."""
        other_count = self._count_other_names(node)
        places = [name for name in self.earlier.places(node) if name in self.final]
        name_count = max(len(self._holders.get(node, ())), len(places)) + other_count
        return node in self._journal.open_nodes or name_count > 1

    def is_made_again(self, node: Node) -> bool:
        """Return whether a file has to become another one, because it does not exist, or would have a name
        that nothing is known of."""
        return node in self._made_again

    def _must_make(self, node: Node) -> bool:
        if not self.earlier.places(node) and not node.is_held:
            return True
        has_one_name = len(self._holders.get(node, ())) >= self.earlier.link_counts.get(node, 1)
        return node.kind == FILE and has_one_name and self._count_other_names(node) > 0

    def path(self, name: Name) -> str:
        """Return the path of a place after the undo; if its folder is gone then, the present one."""
        if not self._is_reachable(name.folder):
            return name.path
        parts = [name.text]
        folder = name.folder
        while not self.nodes.is_root(folder):
            place = self._place(folder)
            assert place is not None
            parts.append(place.text)
            folder = place.folder
        return "/" + "/".join(reversed(parts))

    def final_paths(self, node: Node) -> list[str]:
        """Return the known paths of a file or folder after the undo."""
        names = dict.fromkeys(self._holders.get(node, ()))
        names.update(
            dict.fromkeys(name for name in self.earlier.places(node) if name not in self.final)
        )
        return [self.path(name) for name in names]

    def loses_names(self, node: Node | None) -> bool:
        """Return whether a file gets fewer names than it had."""
        if node is None or node.kind != FILE:
            return False
        name_count = len(self._holders[node])
        if not self.is_made_again(node):
            name_count += self._count_other_names(node)
        return self.earlier.link_counts.get(node, 1) > name_count
