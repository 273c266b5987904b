"""What cells have done to files, and how to take it back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .copies import Copies, Snapshot
from .states import (
    FILE,
    FOLDER,
    MISSING_KIND,
    FileState,
    Fingerprint,
    read_digest,
    read_state,
    take_fingerprint,
)

MAX_CELL_PATHS = 10_000
"""Paths of a cell that are noted; memory for them is limited."""


class Touch:
    """A path that a cell may have changed."""

    __slots__ = ("after", "has_gap", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        """Before the cell."""
        self.after: Fingerprint | None = None
        """At the end of the cell; None while it runs, or if it was changed later."""
        self.has_gap = False
        """Whether it stands for several changes, between which something else changed the path."""

    def leads_to(self, newer: Touch) -> bool:
        """Return whether nothing changed the path between this change and the next one."""
        after = self.after
        if after is None:
            return False
        before = newer.snapshot.state
        if after.state.kind != before.kind:
            return False
        if after.may_change or before.kind in (MISSING_KIND, FOLDER):
            return True
        if after.state[:5] == before[:5] and after.state.target == before.target:
            return True
        # The same content under another time, or in another file after an undo, is the same.
        copy = newer.snapshot.file
        is_comparable = bool(copy and after.digest) and after.state.mode == before.mode
        return is_comparable and after.digest == read_digest(copy, read_state(copy))


class Epoch:
    """A part of a cell in which no folder was renamed."""

    def __init__(self) -> None:
        self.touches: dict[str, Touch] = {}
        """By path."""
        self.move: Move | None = None
        """The rename at its end."""


class Move(NamedTuple):
    """A folder that was renamed."""

    source: str
    target: str
    inode: tuple[int, int]


class Step:
    """What a cell has done to files, in order."""

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self.epochs = [Epoch()]
        self.problems: dict[str, None] = {}
        """What was done and could not be seen, or is left alone on purpose, as sentences."""
        self.path_count = 0

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
    """Paths whose states before and after are known, between two renames of folders."""

    touches: dict[str, Touch]
    """By path; with the oldest snapshot, and the newest fingerprint."""
    earlier_move: Move | None
    """The rename before all of these, to be reversed after them."""


class Journal:
    """The steps of all cells that can be undone."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self.steps: list[Step] = []
        self.open_paths: set[str] = set()
        """Files that a process of the kernel has open for writing, as far as it is known."""

    def step(self, cell: int) -> Step:
        """Return the step of a cell, which is the newest."""
        if not self.steps or self.steps[-1].cell != cell:
            if self.steps:
                # What was written between the cells, by processes of earlier ones, counts as theirs.
                self.close_epoch(self.steps[-1])
            self.steps.append(Step(cell))
            self.copies.begin_cell()
        return self.steps[-1]

    def forget_before(self, cell: int) -> None:
        """Forget the steps before a cell."""
        while self.steps and self.steps[0].cell < cell:
            self.forget(self.steps.pop(0))

    def forget(self, step: Step) -> None:
        for epoch in step.epochs:
            for touch in epoch.touches.values():
                self.copies.release(touch.snapshot)

    # Before a call goes on

    def touch(self, step: Step, path: str, *, writes: bool, keeps_content: bool = False) -> None:
        """Note that a path is about to change.

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
        if not writes:
            self.copies.note_new_time(now.inode)

        touches = step.epochs[-1].touches
        touch = touches.get(path)
        if touch is None:
            if step.path_count >= MAX_CELL_PATHS:
                step.problems[f"Only the first {MAX_CELL_PATHS:,} files of a cell are noted."] = (
                    None
                )
                return
            step.path_count += 1
            touch = Touch(self._snapshot(path))
            touch.snapshot.users += 1
            touches[path] = touch
        touch.after = None

        snapshot = touch.snapshot
        is_original = now.inode == snapshot.state.inode
        needs_copy = snapshot.state.kind == FILE and not snapshot.file and not snapshot.reason
        if writes and needs_copy and is_original:
            may_link = keeps_content and path not in self.open_paths
            self.copies.save(path, snapshot, may_link=may_link)

    def _snapshot(self, path: str) -> Snapshot:
        """Return a snapshot of a path; an earlier one if nothing has changed since."""
        state = read_state(path)
        for step in reversed(self.steps):
            for epoch in reversed(step.epochs):
                touch = epoch.touches.get(path)
                if touch is not None:
                    earlier = touch.snapshot
                    is_unchanged = earlier.state[:5] == state[:5] and earlier.may_be_shared
                    return earlier if is_unchanged else Snapshot(state)
        return Snapshot(state)

    def move_folder(self, step: Step, source: str, target: str, state: FileState) -> None:
        """Note that a folder is about to be renamed, to a path that was touched. state: of it."""
        self.close_epoch(step)
        step.epochs[-1].move = Move(source, target, state.inode)
        step.epochs.append(Epoch())

    def settle_move(self, step: Step) -> None:
        """Forget the last rename of a folder if the system has refused it."""
        if len(step.epochs) < 2 or step.epochs[-1].touches:
            return
        move = step.epochs[-2].move
        if move is not None and read_state(move.target).inode != move.inode:
            step.epochs.pop()
            step.epochs[-1].move = None

    def close_epoch(self, step: Step) -> None:
        """Note how the paths of the newest epoch are now."""
        for path, touch in step.epochs[-1].touches.items():
            if touch.after is None:
                touch.after = take_fingerprint(path, path in self.open_paths)

    # At the end of a cell

    def finish(self, step: Step) -> list[PathChange]:
        """Forget what is as it was before the cell; return the rest."""
        self.settle_move(step)
        self.close_epoch(step)
        has_moves = bool(step.moves)
        changes: list[PathChange] = []
        old_paths: dict[tuple[int, int], str] = {}
        new_inodes: dict[str, tuple[int, int]] = {}
        for path, touch in list(step.epochs[-1].touches.items()):
            before = touch.snapshot.state
            now = read_state(path)
            if touch.snapshot.is_same(path, now):
                if not has_moves and path not in self.open_paths:
                    self.copies.release(touch.snapshot)
                    del step.epochs[-1].touches[path]
                continue
            if now.kind == MISSING_KIND:
                changes.append(PathChange("removed", path))
                old_paths[before.inode] = path
            elif before.kind == MISSING_KIND:
                changes.append(PathChange("new", path))
                new_inodes[path] = now.inode
            else:
                changes.append(PathChange("changed", path))
        changes += [PathChange("renamed", move.target, move.source) for move in step.moves]
        for epoch in step.epochs[:-1]:
            for path, touch in epoch.touches.items():
                path_now = _follow(path, step.epochs[step.epochs.index(epoch) :])
                if not touch.snapshot.is_same(path_now, read_state(path_now)):
                    changes.append(_name_change(path, path_now, touch))
        return _join_changes(changes, old_paths, new_inodes, step.moves)

    # Undo and redo

    def groups(self, steps: Sequence[Step]) -> list[Group]:
        """Return what to restore, the newest first."""
        groups: list[Group] = []
        touches: dict[str, Touch] = {}
        epochs = [epoch for step in steps for epoch in step.epochs]
        for epoch in reversed(epochs):
            if epoch.move is not None:
                groups.append(Group(touches, epoch.move))
                touches = {}
            for path, touch in epoch.touches.items():
                merged = Touch(touch.snapshot)
                newer = touches.get(path)
                if newer is None:
                    merged.after = touch.after
                else:
                    merged.after = newer.after
                    merged.has_gap = newer.has_gap or not touch.leads_to(newer)
                touches[path] = merged
        groups.append(Group(touches, None))
        return groups


def _name_change(path: str, path_now: str, touch: Touch) -> PathChange:
    now = read_state(path_now)
    if now.kind == MISSING_KIND:
        return PathChange("removed", path)
    if touch.snapshot.state.kind == MISSING_KIND:
        return PathChange("new", path_now)
    return PathChange("changed", path_now)


def _follow(path: str, epochs: Iterable[Epoch]) -> str:
    """Return where a path of the first of these epochs leads after their renames."""
    for epoch in epochs:
        if epoch.move is not None:
            path = moved_path(path, epoch.move)
    return path


def moved_path(path: str, move: Move) -> str:
    """Return where a path leads after a folder was renamed."""
    if path == move.source or path.startswith(move.source + os.sep):
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
