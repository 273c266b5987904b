"""What cells have done to files, and how to take it back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .copies import Copies, Snapshot
from .states import (
    FILE,
    FOLDER,
    MISSING,
    MISSING_KIND,
    FileFingerprint,
    FileState,
    read_digest,
    read_state,
    take_fingerprint,
)

MAX_CELL_PATHS = 10_000
"""Paths of a cell that are noted; memory for them is limited."""


class Touch:
    """A path that a cell may have changed."""

    __slots__ = ("after", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        """Before the cell."""
        self.after: FileFingerprint | None = None
        """At the end of the cell; None while it runs, or if it was changed later."""

    def leads_to(self, newer: Touch) -> bool:
        """Return whether nothing changed the path between this change and the next one."""
        after = self.after
        if after is None:
            return False
        before = newer.snapshot.state
        if after.state.kind != before.kind:
            return False
        if before.kind in (MISSING_KIND, FOLDER):
            return True
        if after.state[:5] == before[:5] and after.state.target == before.target:
            return True
        # The same content under another time, or in another file after an undo, is the same.
        copy = newer.snapshot.file
        is_comparable = bool(copy and after.digest) and after.state.mode == before.mode
        return is_comparable and after.digest == read_digest(copy, read_state(copy))

    def merges_with(self, newer: Touch) -> bool:
        """Return whether both can be taken back in one step: the content of a file with several names
        must come back before one of them leads elsewhere, and only the newer change knows its own content."""
        has_other_names = self.snapshot.has_other_names or newer.snapshot.has_other_names
        only_newer_writes = self.snapshot.is_for_marks and not newer.snapshot.is_for_marks
        return not (has_other_names or only_newer_writes) and self.leads_to(newer)


class Epoch:
    """A part of a cell whose changes can be taken back in any order."""

    def __init__(self) -> None:
        self.touches: dict[str, Touch] = {}
        """By path."""
        self.move: Move | None = None
        """The rename of a folder at its end."""
        self.written: dict[tuple[int, int], str] = {}
        """Files with several names that were written, by device and number, and by which name."""


class Move(NamedTuple):
    """A folder that was renamed."""

    source: str
    target: str
    inode: tuple[int, int]


class FileStep:
    """What a cell has done to files, in order."""

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self.epochs = [Epoch()]
        self.problems: dict[str, None] = {}
        """What was done and could not be seen, or is left alone on purpose, as sentences."""
        self.path_count = 0
        self.unsettled: dict[int, Epoch] = {}
        """Epochs with a rename that may not have happened yet, by the thread that does it."""

    @property
    def moves(self) -> list[Move]:
        return [epoch.move for epoch in self.epochs if epoch.move is not None]

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.problems or any(epoch.touches for epoch in self.epochs))


class PathChange(NamedTuple):
    """What a cell has done to a path."""

    change: str
    """new, changed, renamed or removed."""
    path: str
    old_path: str = ""
    """Of a renamed one."""


class Group(NamedTuple):
    """Changes that can be taken back in any order."""

    touches: dict[str, Touch]
    """By path; with the oldest snapshot, and the newest fingerprint."""
    earlier_move: Move | None
    """The rename of a folder before all of these, to be reversed after them."""


class FileJournal:
    """The steps of all cells that can be undone."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self.steps: list[FileStep] = []
        self.open_paths: set[str] = set()
        """Files that a process of the kernel has open for writing, as far as it is known."""
        self.mapped_paths: set[str] = set()
        """Those of them that a process has in its memory."""
        self.shared_paths: dict[tuple[int, int], set[str]] = {}
        """By device and number of a file that has had several names, paths that have led to it, also in
        steps that are undone."""

    def step(self, cell: int) -> FileStep:
        """Return the step of a cell, which is the newest."""
        if not self.steps or self.steps[-1].cell != cell:
            if self.steps:
                # What was written between the cells, by processes of earlier ones, counts as theirs.
                self.close_epoch(self.steps[-1])
            self.steps.append(FileStep(cell))
            self.copies.begin_cell()
        return self.steps[-1]

    def forget_before(self, cell: int) -> None:
        """Forget the steps before a cell."""
        while self.steps and self.steps[0].cell < cell:
            self.forget(self.steps.pop(0))

    def forget(self, step: FileStep) -> None:
        for epoch in step.epochs:
            for touch in epoch.touches.values():
                self.copies.release(touch.snapshot)

    # Before a call goes on

    def touch(
        self, step: FileStep, path: str, *, writes: bool, keeps_content: bool = False
    ) -> None:
        """Note that a cell is about to change a path. The parameters are those of `note`."""
        self._separate_names(step, path, changes_file=not keeps_content)
        self.note(step, path, writes=writes, keeps_content=keeps_content)

    def note(self, step: FileStep, path: str, *, writes: bool, keeps_content: bool) -> None:
        """Note a path in the newest epoch, before it changes.

        Args:
            step: That of the cell.
            path: Resolved.
            writes: Whether the content of a file may change, or its name is taken away.
            keeps_content: Whether only the name is taken away.
        """
        now = read_state(path)
        # Also of a path that is not noted below: its file may be the copy of one that is.
        if writes and not keeps_content and now.kind == FILE:
            self.copies.separate(now.inode)
            now = read_state(path)
        if not writes:
            self.copies.note_new_time(now.inode)

        epoch = step.epochs[-1]
        touch = epoch.touches.get(path)
        if touch is None:
            if step.path_count >= MAX_CELL_PATHS:
                step.problems[f"Only the first {MAX_CELL_PATHS:,} files of a cell are noted."] = (
                    None
                )
                return
            step.path_count += 1
            snapshot = self.snapshot(path, now)
            if keeps_content and snapshot.has_other_names:
                # The copy becomes a name of the file, by which the path can be made one again.
                snapshot = Snapshot(now, has_other_names=True)
            snapshot.is_mapped = path in self.mapped_paths
            touch = Touch(snapshot)
            touch.snapshot.users += 1
            epoch.touches[path] = touch
        touch.after = None

        snapshot = touch.snapshot
        is_original = now.inode == snapshot.state.inode
        needs_copy = snapshot.state.kind == FILE and not snapshot.file and not snapshot.reason
        if writes and needs_copy and is_original:
            may_link = keeps_content and path not in self.open_paths
            self.copies.save(path, snapshot, may_link=may_link)

    def _separate_names(self, step: FileStep, path: str, *, changes_file: bool) -> None:
        """Begin a new epoch if a file with several names was changed by one of them in this one, and now
        changes by another, or loses one. changes_file: whether not only the name is taken away."""
        now = read_state(path)
        if now.kind != FILE:
            return
        epoch = step.epochs[-1]
        touch = epoch.touches.get(path)
        has_other_names = self.has_other_names(now)
        is_other_file = touch is not None and touch.snapshot.state.inode != now.inode
        writer = epoch.written.get(now.inode)
        if (is_other_file and has_other_names) or (
            writer is not None and (writer != path or not changes_file)
        ):
            self.begin_epoch(step)
        if has_other_names and changes_file:
            step.epochs[-1].written[now.inode] = path

    def has_other_names(self, state: FileState) -> bool:
        """Return whether a file has names beside its path and those of copies."""
        return state.kind == FILE and state.links - self.copies.count_links(state.inode) > 1

    def snapshot(self, path: str, state: FileState) -> Snapshot:
        """Return a snapshot of a path; an earlier one if nothing has changed since. state: that of the
        path."""
        has_other_names = self.has_other_names(state)
        for step in reversed(self.steps):
            for epoch in reversed(step.epochs):
                touch = epoch.touches.get(path)
                if touch is None:
                    continue
                earlier = touch.snapshot
                is_unchanged = (
                    earlier.state[:5] == state[:5] and earlier.has_other_names == has_other_names
                )
                is_mapped = path in self.mapped_paths
                if is_unchanged and earlier.may_be_shared and not is_mapped:
                    return earlier
                return Snapshot(state, has_other_names=has_other_names)
        return Snapshot(state, has_other_names=has_other_names)

    def move_folder(
        self, step: FileStep, source: str, target: str, state: FileState, thread: int
    ) -> None:
        """Note that a folder is about to be renamed, to a path that was touched.

        Args:
            step: That of the cell.
            source: The path of the folder.
            target: Its new path.
            state: That of the folder.
            thread: Which renames it.
        """
        self.close_epoch(step)
        step.epochs[-1].move = Move(source, target, state.inode)
        replaced = step.epochs[-1].touches.get(target)
        if replaced is not None:
            # The rename takes an empty folder away.
            replaced.after = FileFingerprint(MISSING, b"")
        step.unsettled[thread] = step.epochs[-1]
        step.epochs.append(Epoch())

    def settle_move(self, step: FileStep, thread: int) -> None:
        """Forget the rename of a folder by a thread if the system has refused it. The thread has returned
        from it."""
        epoch = step.unsettled.pop(thread, None)
        if epoch is None or epoch.move is None:
            return
        if read_state(epoch.move.source).inode == epoch.move.inode:
            target = epoch.touches.get(epoch.move.target)
            if target is not None:
                target.after = take_fingerprint(epoch.move.target)
            epoch.move = None

    def begin_epoch(self, step: FileStep) -> None:
        self.close_epoch(step)
        step.epochs.append(Epoch())

    def close_epoch(self, step: FileStep) -> None:
        """Note how the paths of the newest epoch are now."""
        for path, touch in step.epochs[-1].touches.items():
            if touch.after is None:
                touch.after = take_fingerprint(path)

    # At the end of a cell

    def finish(self, step: FileStep) -> list[PathChange]:
        """Forget what is as it was before the cell; return the rest."""
        for thread in list(step.unsettled):
            self.settle_move(step, thread)
        self.close_epoch(step)
        changes: list[PathChange] = []
        old_paths: dict[tuple[int, int], str] = {}
        new_inodes: dict[str, tuple[int, int]] = {}
        for path, (path_before, snapshot) in self._first_snapshots(step).items():
            before = snapshot.state
            now = read_state(path)
            if snapshot.is_same(path, now):
                if len(step.epochs) == 1 and path not in self.open_paths:
                    self.copies.release(snapshot)
                    del step.epochs[0].touches[path]
            elif now.kind == MISSING_KIND:
                changes.append(PathChange("removed", path_before))
                old_paths[before.inode] = path_before
            elif before.kind == MISSING_KIND:
                changes.append(PathChange("new", path))
                new_inodes[path] = now.inode
            else:
                changes.append(PathChange("changed", path))
        changes += [PathChange("renamed", move.target, move.source) for move in step.moves]
        return _join_changes(changes, old_paths, new_inodes, step.moves)

    def _first_snapshots(self, step: FileStep) -> dict[str, tuple[str, Snapshot]]:
        """Return the paths of a step by where they lead now, with the oldest snapshot of each."""
        snapshots: dict[str, tuple[str, Snapshot]] = {}
        later_moves = step.moves
        for epoch in step.epochs:
            for path, touch in epoch.touches.items():
                path_now = path
                for move in later_moves:
                    path_now = moved_path(path_now, move)
                snapshots.setdefault(path_now, (path, touch.snapshot))
            if epoch.move is not None:
                later_moves = later_moves[1:]
        return snapshots

    # Undo and redo

    def note_shared_paths(self, steps: Sequence[FileStep]) -> None:
        """Note the files that have had several names, before steps are taken back."""
        epochs = [epoch for step in (*self.steps, *steps) for epoch in step.epochs]
        touches = [item for epoch in epochs for item in epoch.touches.items()]
        for path, touch in touches:
            if touch.snapshot.has_other_names:
                self.shared_paths.setdefault(touch.snapshot.state.inode, set()).add(path)
        for path, touch in touches:
            after = touch.after.state if touch.after is not None else MISSING
            for state in (touch.snapshot.state, after):
                if state.inode in self.shared_paths:
                    self.shared_paths[state.inode].add(path)

    def groups(self, steps: Sequence[FileStep]) -> list[Group]:
        """Return what to restore, the newest first."""
        groups: list[Group] = []
        touches: dict[str, Touch] = {}
        epochs = [epoch for step in steps for epoch in step.epochs]
        for epoch in reversed(epochs):
            is_apart = any(
                path in touches and not touch.merges_with(touches[path])
                for path, touch in epoch.touches.items()
            )
            if epoch.move is not None or is_apart:
                groups.append(Group(touches, epoch.move))
                touches = {}
            for path, touch in epoch.touches.items():
                merged = Touch(touch.snapshot)
                merged.after = touches.get(path, touch).after
                touches[path] = merged
        groups.append(Group(touches, None))
        return groups


def lies_in(path: str, folder: str) -> bool:
    """Return whether a path is that of a folder, or lies in it."""
    return path == folder or path.startswith(folder + os.sep)


def moved_path(path: str, move: Move) -> str:
    """Return where a path leads after a folder was renamed."""
    if lies_in(path, move.source):
        return move.target + path[len(move.source) :]
    return path


def _join_changes(
    changes: Sequence[PathChange],
    old_paths: dict[tuple[int, int], str],
    new_inodes: dict[str, tuple[int, int]],
    moves: Sequence[Move],
) -> list[PathChange]:
    """Make one change of a removed and a new path of the same file, and leave out what lies in a new or
    removed folder.

    Args:
        changes: All changes.
        old_paths: Removed paths, by device and number.
        new_inodes: Device and number of new paths.
        moves: Renamed folders, which are among the changes.
    """
    renamed = {old_paths[inode]: path for path, inode in new_inodes.items() if inode in old_paths}
    renamed_targets = {target: source for source, target in renamed.items()}
    moved_paths = {path for move in moves for path in (move.source, move.target)}
    whole_paths = {change.path for change in changes if change.change in ("new", "removed")}
    joined: list[PathChange] = []
    for change in changes:
        path = change.path
        if change.change == "renamed":
            joined.append(change)
        elif path in renamed or path in moved_paths:
            continue
        elif path in renamed_targets:
            joined.append(PathChange("renamed", path, renamed_targets[path]))
        elif not any(parent in whole_paths for parent in _parents(path)):
            joined.append(change)
    return joined


def _parents(path: str) -> Iterable[str]:
    parent = os.path.dirname(path)
    while parent != path:
        yield parent
        path = parent
        parent = os.path.dirname(path)
