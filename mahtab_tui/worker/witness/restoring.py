"""Takes back what cells have done to files: what that would do, and doing it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from .copies import Snapshot, set_marks
from .journal import Group, Journal, Move, Step, Touch, moved_path
from .states import (
    FILE,
    FOLDER,
    LINK,
    MISSING_KIND,
    FileState,
    Fingerprint,
    read_state,
    take_fingerprint,
)

MAX_DIFF_BYTES = 65_536
"""Of a text before and after, to show what differs."""
MAX_DIFF_LINES = 30

_COPY_CHANGED = "its copy was changed by something outside the cells"
_NO_ROOM = "there is no room for a copy, without which it would be lost"
_OLD_NAME_STAYS = "its old name could not be restored, so it keeps the new one"
_STILL_CHANGING = (
    "it was changed in the background after the last cell; try again after the next cell"
)
_CHANGED_BETWEEN = "something outside the cells changed it between two of them"
_CHANGED_SINCE = "it was changed since by something outside the cells, so it stays as it is now"


class FileRestoration(NamedTuple):
    """What an undo does to a path. The fields are those on the wire."""

    path: str
    action: str
    """restore, create again, remove, or rename back."""
    diff: str = ""
    """How the content changes by it; empty for what is not a small text."""


class Unrestored(NamedTuple):
    """A path that stays as it is. The fields are those on the wire."""

    name: str
    reason: str


class _Item(NamedTuple):
    """A path to restore."""

    path: str
    current_path: str
    """Where it is now, if renames of folders are not reversed yet."""
    touch: Touch
    now: FileState

    @property
    def before(self) -> FileState:
        return self.touch.snapshot.state

    @property
    def depth(self) -> int:
        return self.path.count(os.sep)

    @property
    def loses_content(self) -> bool:
        """Whether restoring it replaces or removes the content of a file."""
        if self.now.kind != FILE:
            return False
        return self.before.kind != FILE or _needs_content(
            self.touch.snapshot, self.current_path, self.now
        )


class _Rename(NamedTuple):
    """A file that gets its old name back, and needs no copy for it."""

    old: _Item
    """The name that is missing now."""
    new: _Item
    """The name that did not exist before."""


class Restorer:
    """Takes back steps, in order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.files: dict[str, FileRestoration] = {}
        """By path."""
        self.unrestored: list[Unrestored] = []
        self._backups: dict[str, Snapshot] = {}
        """By path, the copies of what is replaced."""
        self._missing_inodes: set[tuple[int, int]] = set()
        """Of files whose old names are not restored: they may have others, which must stay."""

    def preview(self, steps: Sequence[Step]) -> None:
        """Describe what `apply` would do."""
        groups = self._journal.groups(steps)
        copies = self._journal.copies
        available_bytes = copies.max_undo_bytes
        moves = [group.earlier_move for group in groups if group.earlier_move is not None]
        for index, group in enumerate(groups):
            # The renames that happened after these changes are not reversed yet.
            later_moves = list(reversed(moves[:index]))
            renames, items = self._plan(group, later_moves)
            for rename in renames:
                self._describe_rename(rename)
            restorable: list[_Item] = []
            for item in items:
                if item.loses_content:
                    may_link = self._keeps_content(item)
                    needed_bytes = copies.needed_bytes(item.now, may_link=may_link)
                    if needed_bytes > available_bytes:
                        self._refuse_with(item, _NO_ROOM)
                        continue
                    available_bytes -= needed_bytes
                restorable.append(item)
            for item in self._without_orphans(restorable):
                self._describe(item)
            if group.earlier_move is not None:
                self._describe_move(group.earlier_move)
        self._name_problems(steps)

    def apply(self, steps: Sequence[Step], record: Step) -> None:
        """Restore files. record: gets the present states, for a redo."""
        journal = self._journal
        for group in journal.groups(steps):
            renames, items = self._plan(group, ())
            for rename in renames:
                self._describe_rename(rename)
                for item in rename:
                    journal.touch(record, item.path, writes=False)
            # The copies for a redo.
            for item in items:
                keeps_content = self._keeps_content(item)
                writes = item.loses_content
                journal.touch(record, item.path, writes=writes, keeps_content=keeps_content)
            items = [item for item in items if not self._refuse_unsafe(item, record)]
            items = self._without_orphans(items)
            for item in items:
                self._describe(item)
            self._restore_all(items, renames)
            if group.earlier_move is not None:
                self._move_back(group.earlier_move, record)
        journal.close_epoch(record)
        self._name_problems(steps)

    def _items(self, group: Group, later_moves: Sequence[Move]) -> Iterator[_Item]:
        """Yield what is different now."""
        for path, touch in group.touches.items():
            current_path = path
            for move in later_moves:
                current_path = moved_path(current_path, move)
            now = read_state(current_path)
            if not touch.snapshot.is_same(current_path, now):
                yield _Item(path, current_path, touch, now)

    def _plan(self, group: Group, later_moves: Sequence[Move]) -> tuple[list[_Rename], list[_Item]]:
        """Return the files to rename back and the other paths to restore, and name the rest."""
        items = list(self._items(group, later_moves))
        new_names = {
            item.now.inode: item
            for item in items
            if item.before.kind == MISSING_KIND
            and item.now.kind == FILE
            and not self._change_since(item)
        }
        renames: list[_Rename] = []
        for item in items:
            if item.before.kind != FILE or item.now.kind != MISSING_KIND:
                continue
            new = new_names.get(item.before.inode)
            is_unchanged = new is not None and _is_same_file(item.before, new.now)
            if new is not None and is_unchanged and not self._change_since(item):
                renames.append(_Rename(item, new))
                del new_names[item.before.inode]
        renamed_paths = {item.path for rename in renames for item in rename}
        others = [item for item in items if item.path not in renamed_paths]
        return renames, [item for item in others if not self._refuse(item)]

    def _without_orphans(self, items: Sequence[_Item]) -> list[_Item]:
        """Leave out, and name, the new names of files whose old names are not restored."""
        kept: list[_Item] = []
        for item in items:
            is_removed = item.before.kind == MISSING_KIND and item.now.kind == FILE
            if is_removed and item.now.inode in self._missing_inodes:
                self._refuse_with(item, _OLD_NAME_STAYS)
            else:
                kept.append(item)
        return kept

    def _keeps_content(self, item: _Item) -> bool:
        """Return whether restoring a path takes only a name from its file."""
        if item.path in self._journal.open_paths:
            return False
        return item.before.kind != FILE or not self._has_other_names(item)

    def _has_other_names(self, item: _Item) -> bool:
        """Return whether a file has names beside its path and those of our copies."""
        own_links = self._journal.copies.count_links(item.now.inode)
        return item.now.links - own_links > 1

    def _refuse_unsafe(self, item: _Item, record: Step) -> bool:
        """Name a path whose content would be lost, or whose copy had to go for the others; return
        whether it is one."""
        kept = record.epochs[-1].touches.get(item.path)
        if item.loses_content and (kept is None or not kept.snapshot.file):
            self._refuse_with(item, _NO_ROOM)
            return True
        if kept is not None:
            self._backups[item.path] = kept.snapshot
        return self._refuse(item)

    def _change_since(self, item: _Item) -> str:
        """Return how something outside the cells has changed a path, as a clause; empty if not."""
        after = item.touch.after
        if after is None:
            return _STILL_CHANGING
        if not after.matches(item.current_path):
            return _CHANGED_SINCE
        return _CHANGED_BETWEEN if item.touch.has_gap else ""

    def _obstacle(self, item: _Item) -> str:
        """Return why a path is not restored, as a clause; empty if it is."""
        change = self._change_since(item)
        if change:
            return change
        before = item.before
        has_content = before.kind != FILE or item.touch.snapshot.file
        if not has_content and _needs_content(item.touch.snapshot, item.path, item.now):
            return item.touch.snapshot.reason or "its content was not copied"
        if item.touch.snapshot.is_spoiled and _needs_content(
            item.touch.snapshot, item.path, item.now
        ):
            return _COPY_CHANGED
        is_special = before.kind not in (MISSING_KIND, FILE, FOLDER, LINK)
        if is_special and not stat.S_ISFIFO(before.mode) and item.now.kind != before.kind:
            return "it is a device or a socket, which cannot be created again"
        return ""

    def _refuse(self, item: _Item) -> bool:
        """Name a path that is not restored; return whether it is not."""
        reason = self._obstacle(item)
        if reason:
            self._refuse_with(item, reason)
        return bool(reason)

    def _refuse_with(self, item: _Item, reason: str) -> None:
        self.unrestored.append(Unrestored(item.current_path, reason))
        if item.before.kind == FILE and item.now.kind == MISSING_KIND:
            self._missing_inodes.add(item.before.inode)

    def _describe(self, item: _Item) -> None:
        if item.before.kind == MISSING_KIND:
            action = "remove"
        elif item.now.kind == MISSING_KIND:
            action = "create again"
        else:
            action = "restore"
        diff = ""
        if action == "restore":
            diff = _diff(item.current_path, item.touch.snapshot, item.now)
        earlier = self.files.get(item.path)
        if earlier is not None and action != "remove":  # restored before in a renamed folder
            action = earlier.action
        self.files[item.path] = FileRestoration(item.path, action, diff)

    def _describe_rename(self, rename: _Rename) -> None:
        self.files[rename.old.path] = FileRestoration(rename.old.path, "rename back")
        self.files.pop(rename.new.path, None)

    def _describe_move(self, move: Move) -> None:
        self.files[move.source] = FileRestoration(move.source, "rename back")

    def _name_problems(self, steps: Sequence[Step]) -> None:
        sentences = dict.fromkeys(problem for step in steps for problem in step.problems)
        self.unrestored += [Unrestored("", sentence) for sentence in sentences]

    # Changing files

    def _restore_all(self, items: Sequence[_Item], renames: Sequence[_Rename]) -> None:
        # Folders lose what is in them before they go, and exist before something comes into them.
        removed = [item for item in items if item.now.kind not in (MISSING_KIND, item.before.kind)]
        removed.sort(key=lambda item: -item.depth)
        made = [item for item in items if item.before.kind != MISSING_KIND]
        made.sort(key=lambda item: item.depth)
        for item in removed:
            if item.now.kind != FOLDER:
                self._try(item, self._remove)
        for item in made:
            if item.before.kind == FOLDER:
                self._try(item, self._make)
        for rename in renames:
            self._rename_back(rename)
        for item in removed:
            if item.now.kind == FOLDER:
                self._try(item, self._remove)
        for item in made:
            if item.before.kind != FOLDER:
                self._try(item, self._make)

    def _rename_back(self, rename: _Rename) -> None:
        old_path = rename.old.path
        if read_state(old_path).kind != MISSING_KIND:
            self._fail(old_path, "something else has this name now")
            return
        try:
            os.rename(rename.new.path, old_path)
            set_marks(old_path, rename.old.before)
        except OSError as error:
            self._fail(old_path, str(error.strerror))

    def _try(self, item: _Item, work: object) -> None:
        try:
            work(item)  # type: ignore[operator]
        except OSError as error:
            self._fail(item.path, str(error.strerror))

    def _fail(self, path: str, reason: str) -> None:
        self.files.pop(path, None)
        self.unrestored.append(Unrestored(path, f"it could not be restored ({reason})"))

    def _remove(self, item: _Item) -> None:
        if item.now.kind == FOLDER:
            os.rmdir(item.path)
        else:
            os.unlink(item.path)

    def _make(self, item: _Item) -> None:
        before = item.before
        now = read_state(item.path)
        if before.kind == FOLDER:
            if now.kind == MISSING_KIND:
                os.mkdir(item.path)
            os.chmod(item.path, stat.S_IMODE(before.mode))
        elif before.kind == LINK:
            # A new link takes the place of the old one in one step.
            draft = f"{item.path}.{os.getpid()}.restored"
            os.symlink(before.target, draft)
            os.rename(draft, item.path)
        elif before.kind not in (FILE, FOLDER) and now.kind == MISSING_KIND:
            os.mkfifo(item.path)
            set_marks(item.path, before)
        elif before.kind == FILE and _needs_content(item.touch.snapshot, item.path, now):
            # Another file that has got this name may have the names of others, too.
            is_old_file = now.inode == before.inode
            in_place = is_old_file and not self._keeps_content(item._replace(now=now))
            self._journal.copies.restore(
                item.touch.snapshot,
                item.path,
                in_place=in_place,
                backup=self._backups.get(item.path),
            )
        else:
            set_marks(item.path, before)

    def _move_back(self, move: Move, record: Step) -> None:
        state = read_state(move.target)
        if state.inode != move.inode:
            self.unrestored.append(Unrestored(move.target, _CHANGED_SINCE))
            return
        if read_state(move.source).kind != MISSING_KIND:
            self.unrestored.append(Unrestored(move.source, "something else has this name now"))
            return
        self._journal.move_folder(record, move.target, move.source, state)
        try:
            os.rename(move.target, move.source)
        except OSError as error:
            self._fail(move.source, str(error.strerror))
            return
        self._describe_move(move)


def _is_same_file(before: FileState, now: FileState) -> bool:
    """Return whether a file has only got another name, permissions or owner."""
    return (before.inode, before.size, before.mtime_ns) == (now.inode, now.size, now.mtime_ns)


def _needs_content(snapshot: Snapshot, path: str, now: FileState) -> bool:
    """Return whether the content of a file has to be written, not only permissions."""
    before = snapshot.state
    if not snapshot.file and not snapshot.reason:  # only permissions and times were to change
        return (now.inode, now.size) != (before.inode, before.size)
    has_old_marks = now._replace(mode=snapshot.state.mode)
    return not snapshot.is_same(path, has_old_marks)


def _diff(path: str, snapshot: Snapshot, now: FileState) -> str:
    """Return the lines that change when a small text is restored; empty for others."""
    if not snapshot.file or max(now.size, snapshot.state.size) > MAX_DIFF_BYTES:
        return ""
    now_text = _read_text(path)
    old_text = _read_text(snapshot.file)
    if now_text is None or old_text is None:
        return ""
    import difflib

    lines = list(
        difflib.unified_diff(now_text.splitlines(), old_text.splitlines(), lineterm="", n=1)
    )[2:]
    omitted_count = len(lines) - MAX_DIFF_LINES
    if omitted_count > 0:
        lines[MAX_DIFF_LINES:] = [f"… {omitted_count:,} more lines"]
    return "\n".join(lines)


def _read_text(path: str) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        with open(path, "rb") as file:
            data = file.read(MAX_DIFF_BYTES + 1)
        if b"\0" not in data:
            return data.decode()
    return None


class _Undo(NamedTuple):
    """An undo that can be reversed."""

    record: Step
    """What restores the state before it."""
    steps: list[Step]
    """Those that it removed."""
    earlier: list[tuple[Touch, Fingerprint | None]]
    """The changes before these, whose paths it made again, with what was noted of them before."""


class RedoStack:
    """The undone steps, until another cell runs."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._undone: list[_Undo] = []

    def undo(self, cell: int) -> Restorer:
        """Take back the steps from a cell on."""
        journal = self._journal
        steps = [step for step in journal.steps if step.cell >= cell]
        record = Step(cell)
        # The copies of the state before are not limited by what the cells have copied.
        journal.copies.begin_undo()
        restorer = Restorer(journal)
        restorer.apply(steps, record)
        journal.steps = [step for step in journal.steps if step.cell < cell]
        earlier = _note_restored(journal.steps, steps, restorer, journal.open_paths)
        self._undone.append(_Undo(record, steps, earlier))
        return restorer

    def redo(self) -> Restorer:
        """Reverse the last undo."""
        restorer = Restorer(self._journal)
        if self._undone:
            record, steps, earlier = self._undone.pop()
            scratch = Step(0)
            self._journal.copies.begin_undo()
            restorer.apply([record], scratch)
            records = [undo.record for undo in self._undone]
            _note_restored(records, [record], restorer, self._journal.open_paths)
            self._journal.forget(record)
            self._journal.forget(scratch)
            for touch, fingerprint in earlier:
                touch.after = fingerprint
            # What a process has written since the undo comes after these steps.
            earlier_steps = [step for step in self._journal.steps if step.cell < record.cell]
            later_steps = [step for step in self._journal.steps if step.cell >= record.cell]
            self._journal.steps = [*earlier_steps, *steps, *later_steps]
            _refresh(steps, restorer, self._journal)
        return restorer

    def forget(self) -> None:
        """Forget the undone steps, because another cell runs."""
        for undo in self._undone:
            for step in (undo.record, *undo.steps):
                self._journal.forget(step)
        self._undone = []


def _note_restored(
    earlier_steps: Sequence[Step],
    steps: Sequence[Step],
    restorer: Restorer,
    open_paths: Collection[str],
) -> list[tuple[Touch, Fingerprint | None]]:
    """Note for earlier steps, which can still be taken back, how the paths of later ones have been made
    again. Returns what was noted before."""
    earlier: list[tuple[Touch, Fingerprint | None]] = []
    undone_touches: dict[str, Touch] = {}
    for step in steps:
        for epoch in step.epochs:
            undone_touches = {**epoch.touches, **undone_touches}
    paths = restorer.files.keys() & undone_touches.keys()
    for step in reversed(earlier_steps):
        for epoch in reversed(step.epochs):
            for path in paths & epoch.touches.keys():
                touch = epoch.touches[path]
                if touch.leads_to(undone_touches[path]):
                    earlier.append((touch, touch.after))
                    touch.after = take_fingerprint(path, path in open_paths)
            paths -= epoch.touches.keys()
    return earlier


def _refresh(steps: Sequence[Step], restorer: Restorer, journal: Journal) -> None:
    """Note how the paths of steps are now, after a redo has made them again. Others keep what was
    noted, by which a change of somebody else is seen."""
    paths = set(restorer.files)
    epochs = [epoch for step in steps for epoch in step.epochs]
    for epoch in reversed(epochs):
        for path in paths & epoch.touches.keys():
            touch = epoch.touches[path]
            if touch.after is not None:
                touch.after = take_fingerprint(path, path in journal.open_paths)
            paths.remove(path)
