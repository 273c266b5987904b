"""What an undo of files does: which names lead to what, and what is left as it is, with the reason.

A name is taken away or given to something else, and a content is replaced, only if it is exactly what
the cells (or an earlier undo) have left there. A file loses its last name only if it had none before
the cells that are undone."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..tools.line_diff import unified_diff
from .copies import read_free_bytes
from .file_step import FileStep
from .journal import FileJournal
from .nodes import Name, Node, Version
from .states import FILE, FOLDER, OTHER, read_state

MAX_DIFF_BYTES = 65_536
"""Bytes of a text whose differences are shown, before or after."""
MAX_DIFF_LINES = 30

COPY_CHANGED = "its copy was changed by something outside the cells"
NO_ROOM = "there is no room for a copy, without which it would be lost"
_OLD_NAME_STAYS = "its old name could not be restored, so it keeps the new one"
_STILL_CHANGING = "it was changed in the background after a cell, so it stays as it is now"
_OTHER_NAMES = (
    "it has its content again, but is not the same file as its other names any more (hard links)"
)
_STILL_OPEN = "it is open for writing and has changed since the cell, so it stays as it is now"
_CHANGED_SINCE = "it was changed since by something outside the cells, so it stays as it is now"
_NOT_EMPTY = "it could not be restored (Directory not empty)"
_FOLDER_IS_MISSING = "the folder in which it was could not be restored"
PLACE_IS_TAKEN = "it could not be restored (something else has this name now)"
_MOVED_AWAY = "it was moved to a folder that is not watched, and stays there"
_DISK_IS_FULL = f"it could not be restored ({os.strerror(errno.ENOSPC)})"
_IS_SPECIAL = "it is a device or a socket, which cannot be created again"


class PathRestoration(NamedTuple):
    """What an undo does to a path. The fields are those on the wire."""

    path: str
    action: str
    """restore, create again, remove, or rename back."""
    diff: str = ""
    """How the content changes by it; empty for what is not a small text."""


class UnrestoredFile(NamedTuple):
    """A path that stays as it is. The fields are those on the wire."""

    name: str
    reason: str


class UndoPlan:
    """What taking back steps does. Making it changes nothing."""

    def __init__(self, journal: FileJournal, steps: Sequence[FileStep]) -> None:
        self._journal = journal
        self.nodes = journal.nodes
        self._steps = steps
        self.actual: dict[Name, Node | None]
        """What the places lead to that the steps have changed."""
        self.final: dict[Name, Node | None] = {}
        """What they lead to after the undo."""
        self.changed: list[Name] = []
        """Places that are different after the undo."""
        self._targets: dict[Name, Node | None] = {}
        """What they should lead to, as far as nobody else has changed them."""
        self._versions: dict[Node, Version] = {}
        """What files and folders should be."""
        self._nameless: set[Node] = set()
        """Files and folders that had no name before the steps, and may lose theirs."""
        self._links: dict[Node, int] = {}
        """How many names they should have."""
        self._limits: dict[Node, int] = {}
        """The newest step that cannot be taken back for a file, because something else has changed it."""
        self._places: dict[Node, list[Name]] = {}
        """Where files and folders are now."""
        self._stays: dict[Name, str] = {}
        """Reasons why places stay as they are."""
        self._kept: dict[Node, str] = {}
        """Reasons why contents stay as they are."""
        self._name_reasons: dict[Name, str] = {}
        """Why places are not what they were before all steps."""
        self._node_reasons: dict[Node, str] = {}
        """Why files are not what they were before all steps."""
        self.failures: dict[str, str] = {}
        """By path, what could not be done."""
        self._other_counts: dict[Node, int] = {}
        self._look()
        self._decide()
        self._made_again = {node for node in self._holders if self._must_make(node)}
        self._files = self._describe()
        self._unrestored = self._name_unrestored()
        self._problems = dict.fromkeys(problem for step in steps for problem in step.problems)

    # What is there, and what was

    def _look(self) -> None:
        nodes: dict[Node, None] = {}
        names: dict[Name, None] = {}
        for step in reversed(self._steps):
            names.update(dict.fromkeys(step.names))
            nodes.update(dict.fromkeys(step.nodes))
            # Beyond the limit of a cell, nothing else is known of these.
            before = [change.before for change in step.names.values()]
            nodes.update(dict.fromkeys(node for node in before if node is not None))
        present = self.nodes.find_all(names, self.nodes.identify)
        self.actual = {name: present.get(name) for name in names}
        for node in nodes:
            path = self.nodes.path_of(node)
            if path:
                self.nodes.sync(node, self.nodes.read_state(path), path)
        nodes.update(dict.fromkeys(node for node in self.actual.values() if node is not None))
        for node in nodes:
            self._places[node] = self.nodes.names_of(node)
            self._trace_node(node)
        for name in names:
            self._trace_name(name)

    def _trace_node(self, node: Node) -> None:
        """Find what a file or folder was before all steps; or after the newest of them that something
        outside the cells has followed."""
        version = node.version
        links = node.count_names(node.seen) if self._places[node] else 0
        for index in reversed(range(len(self._steps))):
            change = self._steps[index].nodes.get(node)
            if change is None:
                continue
            is_changed = self._steps[index].is_background or change.after is not version
            # What is written into a file would be in a name, too, that something else has given it.
            has_new_name = node.kind == FILE and links > change.links_after
            links = change.links
            if is_changed or has_new_name:
                self._limits[node] = index
                self._node_reasons[node] = self._reason(node, index)
                break
            # What the cells have made stays as it is for a redo.
            version = change.before or node.version
            self._links[node] = change.links
            if change.is_nameless:
                self._nameless.add(node)
                break
        self._versions[node] = version

    def _trace_name(self, name: Name) -> None:
        """Find what a place led to before all steps, as `_trace_node` does for a file."""
        node = self.actual[name]
        changes = [
            (index, step.names[name])
            for index, step in enumerate(self._steps)
            if name in step.names
        ]
        for index, change in reversed(changes):
            files = [file for file in (change.before, change.after) if file is not None]
            limited = [file for file in files if self._limits.get(file, -1) >= index]
            if self._steps[index].is_background or change.after is not node or limited:
                is_original = node is changes[0][1].before and change is changes[-1][1]
                if is_original and not self._steps[index].is_background:
                    pass  # something else has given it back what it led to
                elif limited:
                    self._name_reasons[name] = self._node_reasons[limited[0]]
                else:
                    self._name_reasons[name] = self._reason(node, index)
                break
            node = change.before
        self._targets[name] = node

    def _reason(self, node: Node | None, index: int) -> str:
        """Return why a step cannot be taken back for something."""
        if self._steps[index].is_background:
            return _STILL_CHANGING
        return _STILL_OPEN if node in self._journal.open_nodes else _CHANGED_SINCE

    # What is done

    def _decide(self) -> None:
        """Refuse what cannot be done, and what depends on it, until the rest can be done."""
        while True:
            self.final = {
                name: self.actual[name] if name in self._stays else target
                for name, target in self._targets.items()
            }
            self.changed = [
                name for name, node in self.final.items() if node is not self.actual[name]
            ]
            self._holders: dict[Node, list[Name]] = {}
            for name, node in self.final.items():
                if node is not None:
                    self._holders.setdefault(node, []).append(name)
            kept_count = len(self._kept)
            refusals = (
                self._find_missing_contents()
                or self._find_impossible_places()
                or self._find_losses()
                or self._find_missing_room()
            )
            if not refusals and len(self._kept) == kept_count:
                return
            self._stays.update(refusals)

    def _refuse_node(self, node: Node, reason: str) -> dict[Name, str]:
        """Keep a file as it is, and return its places, which must stay, too."""
        self._kept[node] = reason
        return {
            name: reason for name in self.changed if node in (self.actual[name], self.final[name])
        }

    def _find_missing_contents(self) -> dict[Name, str]:
        refusals: dict[Name, str] = {}
        for node, version in self._versions.items():
            if node in self._kept or not self.has_name(node):
                continue
            reason = self._missing_content(node, version)
            if reason:
                refusals.update(self._refuse_node(node, reason))
        return refusals

    def _missing_content(self, node: Node, version: Version) -> str:
        """Return why a file cannot become what it was, as a clause; empty if it can."""
        is_special = node.kind == OTHER and not stat.S_ISFIFO(version.state.mode)
        if is_special and not self._places[node]:
            return _IS_SPECIAL
        if node in self._journal.moved_away and not self._places[node]:
            return _MOVED_AWAY
        if node.kind != FILE:
            return ""
        content = version.content
        if content is node.version.content and (self._places[node] or node.is_held):
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
                refusals[name] = self._name_reasons.get(name, _FOLDER_IS_MISSING)
            elif node.kind == FOLDER:
                others = [place for place in self._places[node] if place not in self.final]
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
        for name in self._all_places(folder):
            if name not in self.final:
                return name
        return None

    def _all_places(self, node: Node) -> list[Name]:
        if node not in self._places:
            self._places[node] = self.nodes.names_of(node)
        return self._places[node]

    def _count_other_names(self, node: Node) -> int:
        """Return how many names a file has beside those that the undo changes."""
        if node not in self._other_counts:
            places = self._places[node]
            unknown_count = 0
            if node.kind == FILE and node.inode is not None:
                unknown_count = node.count_names(node.seen) - len(places)
            other_places = sum(place not in self.actual for place in places)
            self._other_counts[node] = max(unknown_count, 0) + other_places
        return self._other_counts[node]

    def has_name(self, node: Node) -> bool:
        """Return whether something is in a folder after the undo."""
        return bool(self._holders.get(node)) or (
            bool(self._places[node]) and self._count_other_names(node) > 0
        )

    def removes(self, node: Node) -> bool:
        """Return whether something that the steps have touched has no name after the undo."""
        return node in self._places and not self.has_name(node)

    def loses_known_names(self, node: Node) -> bool:
        """Return whether something is only at places after the undo that are not known."""
        others = [place for place in self._places[node] if place not in self.final]
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
            if node not in self._nameless:
                refusals[name] = self._node_reasons.get(node, _OLD_NAME_STAYS)
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
            if node.kind != FILE or is_same or not self._places[node]:
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
            if node.kind == FILE and self._places[node]:
                is_written = version.content is not node.version.content
                if is_written:
                    yield node

    def contents(self) -> dict[Node, Version]:
        """Return what files and folders become, of which more than the names change."""
        return {
            node: version
            for node, version in self._versions.items()
            if version is not node.version and node not in self._kept and self.has_name(node)
        }

    def version(self, node: Node) -> Version:
        """Return what a file or folder is after the undo."""
        if node in self._kept:
            return node.version
        return self._versions.get(node, node.version)

    def is_shared(self, node: Node) -> bool:
        """Return whether a file is open, or has several names, so that it has to be written in place."""
        other_count = self._count_other_names(node)
        places = [name for name in self._places[node] if name in self.final]
        name_count = max(len(self._holders.get(node, ())), len(places)) + other_count
        return node in self._journal.open_nodes or name_count > 1

    def is_made_again(self, node: Node) -> bool:
        """Return whether a file has to become another one, because it does not exist, or would have a name
        that nothing is known of."""
        return node in self._made_again

    def _must_make(self, node: Node) -> bool:
        if not self._places[node] and not node.is_held:
            return True
        has_one_name = len(self._holders.get(node, ())) >= self._links.get(node, 1)
        return node.kind == FILE and has_one_name and self._count_other_names(node) > 0

    def refused_part(self, step: FileStep) -> FileStep:
        """Return what of a step could not be taken back."""
        refused = FileStep(step.cell, step.known_count)
        refused.is_closed = True
        refused.names = {
            name: change
            for name, change in step.names.items()
            if name in self._name_reasons or name in self._stays or self.path(name) in self.failures
        }
        named = {change.before for change in refused.names.values()}
        refused.nodes = {
            node: change
            for node, change in step.nodes.items()
            if node in named or node in self._node_reasons or node in self._kept
        }
        return refused

    # What is said of it

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

    @property
    def files(self) -> dict[str, PathRestoration]:
        """What is done, by path."""
        return {path: file for path, file in self._files.items() if path not in self.failures}

    @property
    def unrestored(self) -> list[UnrestoredFile]:
        reasons = {**self._unrestored, **self.failures}
        return [
            *(UnrestoredFile(path, reason) for path, reason in reasons.items()),
            *(UnrestoredFile("", sentence) for sentence in self._problems),
        ]

    def _describe(self) -> dict[str, PathRestoration]:
        files: dict[str, PathRestoration] = {}
        moved = {self.actual[name] for name in self.changed} & {
            self.final[name] for name in self.changed
        }
        for name in self.changed:
            before = self.actual[name]
            after = self.final[name]
            path = self.path(name)
            diff = ""
            if after is None:
                action = "remove"
                if before in moved:
                    continue
            elif before is not None:
                action = "restore"
                diff = self._diff(before, after)
            else:
                action = "rename back" if after in moved else "create again"
            files[path] = PathRestoration(path, action, diff)
        for node in self.contents():
            diff = self._diff(node, node)
            for path in self._final_paths(node):
                files.setdefault(path, PathRestoration(path, "restore", diff))
        return files

    def _final_paths(self, node: Node) -> list[str]:
        names = dict.fromkeys(self._holders.get(node, ()))
        names.update(
            dict.fromkeys(name for name in self._all_places(node) if name not in self.final)
        )
        return [self.path(name) for name in names]

    def _diff(self, before: Node, after: Node) -> str:
        if before.kind != FILE or after.kind != FILE:
            return ""
        old_content = self.version(after).content
        old_path = old_content.copy.path if old_content.copy is not None else ""
        if not old_path and old_content is after.version.content:
            old_path = self.nodes.path_of(after)
        return _diff(_read_text(self.nodes.path_of(before)), _read_text(old_path))

    def _name_unrestored(self) -> dict[str, str]:
        """Return why paths are not as they were before the steps."""
        reasons = {
            self.path(name): reason
            for name, reason in {**self._name_reasons, **self._stays}.items()
        }
        for node, reason in {**self._node_reasons, **self._kept}.items():
            for path in self._final_paths(node):
                reasons.setdefault(path, reason)
        for name in self._missing_names():
            reasons.setdefault(self.path(name), _CHANGED_SINCE)
        for name in self.changed:
            if self._loses_names(self.final[name]):
                reasons.setdefault(self.path(name), _OTHER_NAMES)
        return reasons

    def _loses_names(self, node: Node | None) -> bool:
        """Return whether a file gets fewer names than it had."""
        if node is None or node.kind != FILE:
            return False
        count = len(self._holders[node])
        count += 0 if self.is_made_again(node) else self._count_other_names(node)
        return self._links.get(node, 1) > count

    def _missing_names(self) -> Iterable[Name]:
        """Yield the names of files that would change, if something else had not removed them."""
        renamed = {
            node
            for step in self._steps
            for change in step.names.values()
            for node in (change.before, change.after)
        }
        for node, version in self._versions.items():
            is_there = self._places[node] or node.is_held or node in renamed
            if not is_there and version is not node.version:
                yield from list(node.names)[-1:]


def _diff(now_text: str | None, old_text: str | None) -> str:
    """Return the lines that change when a text is restored; empty for what is not a small text."""
    if now_text is None or old_text is None:
        return ""
    lines = unified_diff(now_text.splitlines(), old_text.splitlines(), context_lines=1)
    omitted_count = len(lines) - MAX_DIFF_LINES
    if omitted_count > 0:
        lines[MAX_DIFF_LINES:] = [f"… {omitted_count:,} more lines"]
    return "\n".join(lines)


def _read_text(path: str) -> str | None:
    """Return the text in a file; None if it is not a small text."""
    with suppress(OSError, UnicodeDecodeError):
        if read_state(path).kind == FILE:
            with open(path, "rb") as file:
                data = file.read(MAX_DIFF_BYTES + 1)
            if len(data) <= MAX_DIFF_BYTES and b"\0" not in data:
                return data.decode()
    return None
