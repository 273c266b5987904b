"""Does what an undo of files has planned.

`Restorer` first keeps what a redo needs, then changes places (in the order that `PlaceQueue` finds), then has
`FileContents` write contents, and at last gives folders their permissions, which may keep this process out.
Something else may change files at any moment. So each is compared once more, just before it is changed; what is
different then stays, and is among the failures of the plan.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import partial
from typing import Callable, NamedTuple

from .content_copying import set_marks
from .file_contents import CHANGED_MEANWHILE, FileContents
from .file_step import FileStep, NameChange, NodeChange
from .journal import FileJournal
from .nodes import Name, Node, Version
from .place_queue import PlaceQueue
from .plan import UndoPlan
from .states import FILE, FOLDER, MISSING_KIND, read_state
from .undo_decision import PLACE_IS_TAKEN

_OLD_NAME_IS_MISSING = "what has this name now could not get its old one back"


class _MovedAside(NamedTuple):
    """Something that was moved out of the way."""

    draft: Name
    """Where it is."""
    origin: Name
    """Where it was."""


class Restorer:
    """Gives names back what they led to, and files what they held."""

    def __init__(self, journal: FileJournal, plan: UndoPlan, record: FileStep) -> None:
        """Begin with nothing changed.

        Args:
            journal: Has the files, and the copies of their contents.
            plan: What to do. It gets the failures.
            record: Gets what is there now, for a redo.
        """
        self._journal = journal
        self._nodes = journal.nodes
        self._plan = plan
        self._decision = plan.decision
        self._record = record
        self._contents = FileContents(journal, plan)
        self._queue = PlaceQueue(self._decision.changed, self._decision.final)
        self._present = dict(self._decision.actual)
        """What the places lead to, while this changes them."""
        self._moved_aside: dict[Node, _MovedAside] = {}
        """Files and folders that were moved out of the way."""
        self._unplaced: set[Node] = set()
        """Files and folders that could not get one of their places."""
        self._made: set[Node] = set()
        """Files that exist again."""
        self._made_folders: list[Node] = []

    def restore(self) -> None:
        """Do it. What cannot be done is among the failures of the plan."""
        contents = self._decision.contents()
        self._keep_present(contents)
        rewritten = [
            node
            for node in contents
            if node.kind != FOLDER and not self._decision.is_made_again(node)
        ]
        # A file with several names may lose those that are known.
        self._contents.restore([node for node in rewritten if self._decision.is_shared(node)])
        self._change_names()
        self._contents.restore(rewritten)
        folders = {*self._made_folders, *(node for node in contents if node.kind == FOLDER)}
        for node in sorted(folders, key=lambda folder: -folder.path.count(os.sep)):
            version = self._decision.version(node)
            self._contents.attempt(node.path, partial(self._contents.restore_marks, node, version))
        for node in self._record.nodes:
            self._forget_content(node)
        self._journal.close(self._record)

    def _forget_content(self, node: Node) -> None:
        """Let a file that has no name again be what it was when it had none."""
        version = self._decision.version(node)
        if node.version is version or self._nodes.names_of(node):
            return
        hold = node.hold
        if hold is not None and hold.path and node.version.content is version.content:
            with suppress(OSError):
                set_marks(hold.path, version.state)
                node.see(read_state(hold.path))
        else:
            node.hold = None
            self._nodes.drop(node)
        node.version = version

    # What a redo needs

    def _keep_present(self, contents: dict[Node, Version]) -> None:
        """Note what is there now, and keep the files that get lost or are written.

        Args:
            contents: What files and folders become.
        """
        record = self._record
        decision = self._decision
        for name in decision.changed:
            record.names[name] = NameChange(decision.actual[name])
        named_nodes = [decision.actual[name] for name in decision.changed]
        named_nodes += [decision.final[name] for name in decision.changed]
        nodes = [node for node in (*named_nodes, *contents) if node is not None]
        for node in nodes:
            if node not in record.nodes:
                record.nodes[node] = NodeChange(
                    node.version,
                    node.count_names(node.seen),
                    is_nameless=decision.is_made_again(node) or self._nodes.is_nameless(node),
                )
        for node in nodes:
            path = self._nodes.path_of(node)
            if node.kind == FILE and path:
                self._contents.keep(node, path, contents)

    # Names

    def _change_names(self) -> None:
        """Change all places, each as soon as nothing is in its way."""
        while self._queue.pending:
            while (name := self._queue.pop_ready()) is not None:
                self._try_name(name, self._change_name)
            # Each of the others waits for another one.
            name = self._queue.pop_blocked()
            if name is not None:
                self._try_name(name, self._move_aside)
                continue
            error = OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            for name in self._queue.pending:
                self._fail(name, error)
        for node in list(self._moved_aside):
            self._move_back(node)

    def _try_name(self, name: Name, change: Callable[[Name], bool]) -> None:
        """Try to change a place.

        Args:
            name: The place.
            change: Changes it, and returns whether it needs nothing more. Raises `OSError`.
        """
        try:
            is_done = change(name)
        except OSError as error:
            self._fail(name, error)
        else:
            if is_done:
                self._queue.settle(name)

    def _fail(self, name: Name, error: OSError) -> None:
        """Note that a place cannot be changed."""
        reason = f"it could not be restored ({error.strerror})"
        self._plan.failures[self._decision.path(name)] = reason
        node = self._decision.final[name]
        if node is not None:
            self._unplaced.add(node)
        self._queue.settle(name)

    def _move_aside(self, name: Name) -> bool:
        """Move what a place leads to out of the way, if another place waits for it. Returns whether the
        place needs nothing more, which is never so. Raises `OSError`."""
        node = self._present[name]
        if node is not None and self._queue.is_awaited(node, name):
            self._check(name)
            if node in self._moved_aside:
                os.unlink(name.path)  # one of its names is enough
            else:
                draft = self._rename_to_draft(name)
                node.names[draft] = None
                self._moved_aside[node] = _MovedAside(draft, name)
            self._leave(name, node)
            self._queue.wake(node)
            self._queue.retry(name)
        return False

    def _rename_to_draft(self, name: Name) -> Name:
        """Rename what a place leads to; return its new place."""
        # No folder that is removed can hold it meanwhile.
        folder = next(folder for folder in name.folders() if not self._decision.removes(folder))
        path = self._journal.copies.drafts.new_path(
            Name(folder, name.text).path, moved_from=name.path
        )
        os.rename(name.path, path)
        return Name(folder, os.path.basename(path))

    def _move_back(self, node: Node) -> None:
        """Return what was moved aside and waits in vain for another place to where it was."""
        draft, name = self._moved_aside.pop(node)
        path = name.path
        if os.path.lexists(path):
            has_other_name = any(place != draft for place in self._nodes.names_of(node))
            if not has_other_name:
                self._plan.failures[draft.path] = PLACE_IS_TAKEN
            elif self._contents.attempt(draft.path, partial(os.unlink, draft.path)):
                node.names.pop(draft, None)
        elif self._contents.attempt(draft.path, partial(os.rename, draft.path, path)):
            node.names.pop(draft, None)
            node.names[name] = None

    def _leave(self, name: Name, node: Node) -> None:
        """Note that a place leads to a file or folder no more."""
        self._present[name] = None
        node.names.pop(name, None)

    def _check(self, name: Name) -> None:
        """Raise `OSError` if a place does not lead to what it did when the undo was planned."""
        node = self._present[name]
        state = read_state(name.path)
        is_same = state.kind == MISSING_KIND if node is None else state.inode == node.inode
        if not is_same or not self._nodes.is_there(name.folder):
            raise OSError(errno.EBUSY, CHANGED_MEANWHILE)

    def _change_name(self, name: Name) -> bool:
        """Make a place lead to what it should; return whether that was possible yet. Raises `OSError`."""
        old = self._present[name]
        new = self._decision.final[name]
        if self._must_wait(name, old, new):
            return False
        if old is not None:
            self._check(name)
            self._check_other_name(old, name)
            if not self._decision.has_name(old) and old in self._contents.unkept:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if old.kind == FOLDER or new is None or new.kind == FOLDER:
                self._clear(name, old)
        if new is not None:
            self._check(name)
            if old is not None and self._present[name] is not None:
                self._check_content(old, name)
            self._put(name, new)
        return True

    def _must_wait(self, name: Name, old: Node | None, new: Node | None) -> bool:
        """Let a place wait, if something is in its way; return whether this is so.

        Args:
            name: The place.
            old: What it leads to now.
            new: What it should lead to.
        """
        queue = self._queue
        if not self._nodes.is_there(name.folder):
            queue.wait(name, self._missing_folders(name))
            return True
        is_old_awaited = old is not None and queue.is_awaited(old, name)
        if is_old_awaited:
            queue.block(name)
        if new is not None and new.kind == FOLDER and name.lies_in(new):
            queue.wait(name, name.folders())
            return True
        if old is None:
            return False
        if is_old_awaited or (old.kind == FOLDER and queue.has_changes_in(old)):
            queue.wait(name, [old])
            return True
        return False

    def _clear(self, name: Name, node: Node) -> None:
        """Remove what a place leads to, which nothing can take the place of. Raises `OSError`."""
        if node.kind == FOLDER:
            os.rmdir(name.path)
            self._nodes.drop(node)
            # It keeps its name, by which a redo names what was in it.
            self._present[name] = None
        else:
            self._check_content(node, name)
            os.unlink(name.path)
            self._leave(name, node)

    def _missing_folders(self, name: Name) -> list[Node]:
        """Return the outermost folder above a place that is not where it belongs."""
        folders = [folder for folder in name.folders() if not self._nodes.is_there(folder)]
        return folders[-1:]

    def _check_other_name(self, node: Node, name: Name) -> None:
        """Raise `OSError` if something would lose its last name because it could not get another one."""
        if node not in self._unplaced or not self._decision.has_name(node):
            return
        if all(other == name for other in self._nodes.names_of(node)):
            raise OSError(errno.EBUSY, _OLD_NAME_IS_MISSING)

    def _check_content(self, node: Node, name: Name) -> None:
        """Raise `OSError` if a file that loses its last name is not what it was when it was kept."""
        if not self._decision.has_name(node):
            state = read_state(name.path)
            if not state.looks_like(node.seen):
                raise OSError(errno.EBUSY, CHANGED_MEANWHILE)

    def _put(self, name: Name, node: Node) -> None:
        """Put something at a place: rename it if it leaves another place, else give it one more name, or
        make it again. Raises `OSError`."""
        path = name.path
        old = self._present[name]
        source = self._source(node)
        must_make = self._decision.is_made_again(node) and node not in self._made
        if source is not None and not must_make and self._may_leave(source, node, name):
            os.rename(source.path, path)
            self._leave(source, node)
            self._moved_aside.pop(node, None)
        elif node.kind == FOLDER:
            os.mkdir(path, 0o700)
            self._nodes.assign(node, read_state(path))
            node.version = self._decision.version(node)
            self._made_folders.append(node)
        elif node.kind == FILE and not must_make:
            self._add_name(node, source, path)
        else:
            self._contents.make(node, path)
            node.names.clear()
            self._made.add(node)
        if old is not None:
            self._leave(name, old)
        self._present[name] = node
        if node.kind == FOLDER:
            node.names.clear()
            self._queue.wake(node)
        node.names[name] = None

    def _may_leave(self, source: Name, node: Node, target: Name) -> bool:
        """Return whether something is to leave the place where it is, and no other place than the target
        waits for it."""
        is_aside = node in self._moved_aside
        is_leaving = source in self._queue and self._decision.final[source] is not node
        return (is_aside or is_leaving) and not self._queue.is_awaited(node, target)

    def _source(self, node: Node) -> Name | None:
        """Return where something is; None if it has no name."""
        if node in self._moved_aside:
            return self._moved_aside[node].draft
        names = self._nodes.names_of(node)
        # Rather one that it is to leave.
        pending_names = [name for name in names if name in self._queue]
        return next(iter((*pending_names, *names)), None)

    def _add_name(self, node: Node, source: Name | None, path: str) -> None:
        """Make a path another name of a file, in place of the file that it leads to. Raises `OSError`.

        Args:
            node: The file.
            source: Where it is; None if it has no name but that of a copy.
            path: The path.
        """
        source_path = self._nodes.path_of(node) if source is None else source.path
        with self._journal.copies.drafts.replacing(path) as draft:
            os.link(source_path, draft, follow_symlinks=False)
        if source is None:
            node.hold = None
        node.see(read_state(path))
