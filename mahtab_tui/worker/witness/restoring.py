"""Takes back what cells have done to files: what that would do, and doing it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Callable, NamedTuple

from ..tools.line_diff import unified_diff
from .copies import Copies, Snapshot
from .files import Files, PlannedFiles
from .journal import FileJournal, FileStep, Group, Move, Touch, moved_path
from .states import FILE, FOLDER, LINK, MISSING_KIND, FileState, is_restored, read_state

MAX_DIFF_BYTES = 65_536
"""Of a text before and after, to show what differs."""
MAX_DIFF_LINES = 30

_THREAD = -1
"""Stands for this process among those that rename folders."""
_COPY_CHANGED = "its copy was changed by something outside the cells"
_NO_ROOM = "there is no room for a copy, without which it would be lost"
_OLD_NAME_STAYS = "its old name could not be restored, so it keeps the new one"
_STILL_CHANGING = (
    "it was changed in the background after the last cell; try again after the next cell"
)
_OTHER_NAMES = (
    "it has its content again, but is not the same file as its other names any more (hard links)"
)
_NAME_IS_TAKEN = "something else has this name now"
_STILL_OPEN = "it is open for writing and has changed since the cell, so it stays as it is now"
_CHANGED_SINCE = "it was changed since by something outside the cells, so it stays as it is now"


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


class _Item(NamedTuple):
    """A path to restore."""

    path: str
    touch: Touch
    now: FileState
    content: str
    """Where the present content can be read."""

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
        return self.before.kind != FILE or self.needs_content

    @property
    def needs_content(self) -> bool:
        """Whether the content of a file has to be written, not only permissions."""
        return _needs_content(self.touch.snapshot, self.content, self.now)


class _Rename(NamedTuple):
    """A file that gets its old name back, and needs no copy for it."""

    old: _Item
    """The name that is missing now."""
    new: _Item
    """The name that did not exist before."""


class _Start(NamedTuple):
    """What a restored path led to at first."""

    kind: str
    text: str | None
    """Of a small text."""


class Restorer:
    """Takes back steps, or says what that would do."""

    def __init__(self, journal: FileJournal, record: FileStep | None = None) -> None:
        """record: gets the present states, for a redo. Without it, nothing is changed."""
        self._journal = journal
        self._record = record
        self._files = PlannedFiles(journal.copies) if record is None else Files(journal.copies)
        self.files: dict[str, PathRestoration] = {}
        """By path."""
        self._unrestored: dict[str, str] = {}
        """Reasons by path."""
        self._imperfections: dict[str, str] = {}
        """By restored path, how it is not as it was."""
        self._problems: dict[str, None] = {}
        """Sentences about what is not known."""
        self._starts: dict[str, _Start] = {}
        """By restored path."""
        self._backups: dict[str, Snapshot] = {}
        """By path, the copies of what is replaced."""
        self._missing_inodes: set[tuple[int, int]] = set()
        """Of files whose old names are not restored: they may have others, which must stay."""
        self._made_inodes: set[tuple[int, int]] = set()
        """Of files that are made by this, and may have got the number of one that is gone."""
        self._stuck_moves: list[Move] = []
        """Renames of folders that could not be reversed, the newest first."""
        self._kept_bytes = 0
        """Of the copies that a redo would need."""
        self._copied_bytes = 0
        """Of those that are not names of the files themselves."""

    @property
    def unrestored(self) -> list[UnrestoredFile]:
        reasons = {**self._imperfections, **self._unrestored}
        paths = [UnrestoredFile(path, reason) for path, reason in reasons.items()]
        return paths + [UnrestoredFile("", sentence) for sentence in self._problems]

    def restore(self, steps: Sequence[FileStep]) -> None:
        """Take back steps, the newest first."""
        self._journal.note_shared_paths(steps)
        for group in self._journal.groups(steps):
            if self._record is not None:
                self._journal.begin_epoch(self._record)
            self._restore_group(group)
            if group.earlier_move is not None:
                self._move_back(group.earlier_move)
        if self._record is not None:
            self._journal.close_epoch(self._record)
        self._problems.update(dict.fromkeys(problem for step in steps for problem in step.problems))

    # What to restore

    def _is_shared(self, now: FileState, snapshot: Snapshot) -> bool:
        """Return whether a file has several names; or had them before it had one, so that an earlier change
        may have to be taken back in it by another of them."""
        has_had_names = not snapshot.has_other_names and now.inode in self._journal.shared_paths
        return self._files.has_other_names(now) or has_had_names

    def _restore_group(self, group: Group) -> None:
        touches = {self._place(path): touch for path, touch in group.touches.items()}
        renames, items = self._plan(touches)
        for rename in renames:
            for item in rename:
                self._note_for_redo(item, writes=False)
        items = self._without_orphans([item for item in items if self._keep_for_redo(item)])
        for item in items:
            self._starts.setdefault(item.path, _Start(item.now.kind, _read_text(item.content)))
        self._restore_all(items, renames, _Names(self._files, self._journal.copies, touches))
        for rename in renames:
            self._describe_rename(rename)
        for item in items:
            self._describe(item)
        self._name_differences(touches)

    def _place(self, path: str) -> str:
        """Return where a path is now, if renames of folders could not be reversed."""
        for move in reversed(self._stuck_moves):
            path = moved_path(path, move)
        return path

    def _items(self, touches: Mapping[str, Touch]) -> Iterator[_Item]:
        """Yield what is different now."""
        for path, touch in touches.items():
            now = self._files.state(path)
            content = self._files.content(path)
            if not touch.snapshot.is_same(content, now):
                yield _Item(path, touch, now, content)

    def _plan(self, touches: Mapping[str, Touch]) -> tuple[list[_Rename], list[_Item]]:
        """Return the files to rename back and the other paths to restore, and name the rest."""
        items = list(self._items(touches))
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
            inode = item.now.inode
            loses_name = item.now.kind == FILE and inode != item.before.inode
            may_be_only_name = inode in self._missing_inodes and inode not in self._made_inodes
            if loses_name and may_be_only_name:
                self._refuse_with(item, _OLD_NAME_STAYS)
            else:
                kept.append(item)
        return kept

    def _change_since(self, item: _Item) -> str:
        """Return how something outside the cells has changed a path, as a clause; empty if not."""
        after = item.touch.after
        if after is None:
            return _STILL_CHANGING
        if after.matches(item.now, item.content):
            return ""
        return _STILL_OPEN if item.path in self._journal.open_paths else _CHANGED_SINCE

    def _obstacle(self, item: _Item) -> str:
        """Return why a path is not restored, as a clause; empty if it is."""
        change = self._change_since(item)
        if change:
            return change
        before = item.before
        snapshot = item.touch.snapshot
        if before.kind == FILE and item.needs_content:
            if not snapshot.file:
                return snapshot.reason or "its content was not copied"
            if snapshot.is_spoiled:
                return _COPY_CHANGED
        is_special = before.kind not in (MISSING_KIND, FILE, FOLDER, LINK)
        if is_special and not stat.S_ISFIFO(before.mode) and item.now.kind != before.kind:
            return "it is a device or a socket, which cannot be created again"
        return ""

    def _refuse(self, item: _Item) -> bool:
        """Name a path that is not restored; return whether it is not."""
        reason = self._unrestored.get(item.path) or self._obstacle(item)
        if reason:
            self._refuse_with(item, reason)
        return bool(reason)

    def _refuse_with(self, item: _Item, reason: str) -> None:
        self._name(item.path, reason)
        if item.before.kind == FILE and item.now.inode != item.before.inode:
            self._missing_inodes.add(item.before.inode)

    def _name(self, path: str, reason: str) -> None:
        """Note why a path is not restored. The first reason explains the others."""
        self._unrestored.setdefault(path, reason)
        self.files.pop(path, None)

    # The copies for a redo

    def _keep_for_redo(self, item: _Item) -> bool:
        """Copy what is replaced; name a path whose content would be lost otherwise. Returns whether it can
        be restored."""
        is_kept = self._note_for_redo(item, writes=item.loses_content)
        if item.loses_content and not is_kept:
            self._refuse_with(item, _NO_ROOM)
            return False
        return not self._refuse(item)

    def _note_for_redo(self, item: _Item, *, writes: bool) -> bool:
        """Note a path before it is restored; return whether there is a copy of its content."""
        keeps_content = writes and self._keeps_content(item)
        if self._record is None:
            return not writes or self._has_room(item, may_link=keeps_content)
        self._journal.note(self._record, item.path, writes=writes, keeps_content=keeps_content)
        touch = self._record.epochs[-1].touches.get(item.path)
        if touch is None:
            return False
        self._backups[item.path] = touch.snapshot
        return bool(touch.snapshot.file)

    def _keeps_content(self, item: _Item) -> bool:
        """Return whether restoring a path takes only a name from its file."""
        if item.path in self._journal.open_paths:
            return False
        is_other_file = item.before.kind != FILE or item.before.inode != item.now.inode
        return is_other_file or not self._is_shared(item.now, item.touch.snapshot)

    def _has_room(self, item: _Item, *, may_link: bool) -> bool:
        """Return whether a redo would get a copy; note how much it needs."""
        path = item.path
        becomes_name = may_link and self._files.has_other_names(item.now)
        earlier = self._journal.snapshot(path, item.now)
        if earlier.file and not becomes_name:
            return True
        copies = self._journal.copies
        size = item.now.used_bytes
        is_linked = may_link and copies.can_link(item.now)
        if not copies.may_save(size, self._kept_bytes, self._copied_bytes, is_linked):
            return False
        if is_linked and isinstance(self._files, PlannedFiles):
            self._files.keep_name(path, item.now.inode)
        self._kept_bytes += size
        self._copied_bytes += 0 if is_linked else size
        return True

    # What it does

    def _describe(self, item: _Item) -> None:
        if item.path in self._unrestored:
            return
        start = self._starts[item.path]
        self.files.pop(item.path, None)
        if item.before.kind == MISSING_KIND:
            if start.kind != MISSING_KIND:
                self.files[item.path] = PathRestoration(item.path, "remove")
            return
        action = "restore"
        diff = ""
        if start.kind == MISSING_KIND:
            action = "create again"
        elif item.touch.snapshot.file:
            diff = _diff(start.text, _read_text(item.touch.snapshot.file))
        self.files[item.path] = PathRestoration(item.path, action, diff)

    def _describe_rename(self, rename: _Rename) -> None:
        if rename.old.path not in self._unrestored:
            self.files[rename.old.path] = PathRestoration(rename.old.path, "rename back")
            self.files.pop(rename.new.path, None)

    def _name_differences(self, touches: Mapping[str, Touch]) -> None:
        """Name what is not as it was, and not named yet."""
        inodes: dict[tuple[int, int], tuple[int, int]] = {}
        for path, touch in touches.items():
            if path in self._unrestored:
                continue
            before = touch.snapshot.state
            now = self._files.state(path)
            has_lost_names = touch.snapshot.has_other_names and not (
                now.inode == inodes.setdefault(before.inode, now.inode)
                and (now.inode == before.inode or self._files.has_other_names(now))
            )
            # Earlier changes of the path are taken back after this.
            self._imperfections.pop(path, None)
            if has_lost_names:
                self._imperfections[path] = _OTHER_NAMES
            elif not is_restored(before, now):
                self._imperfections[path] = "it is not as it was"

    # Changing files

    def _restore_all(
        self, items: Sequence[_Item], renames: Sequence[_Rename], names: _Names
    ) -> None:
        # Folders lose what is in them before they go, and exist before something comes into them.
        removed = [item for item in items if item.now.kind not in (MISSING_KIND, item.before.kind)]
        removed.sort(key=lambda item: -item.depth)
        made = [item for item in items if item.before.kind != MISSING_KIND]
        made.sort(key=lambda item: item.depth)
        for item in removed:
            if item.now.kind != FOLDER:
                self._try(item.path, partial(self._files.remove, item.path))
        for item in made:
            if item.before.kind == FOLDER:
                self._try(item.path, partial(self._files.make_folder, item.path, item.before))
        for rename in renames:
            self._try(rename.old.path, partial(self._rename_back, rename))
        for item in removed:
            if item.now.kind == FOLDER:
                self._try(item.path, partial(self._files.remove, item.path))
        for item in made:
            if item.before.kind != FOLDER:
                self._try(item.path, partial(self._make, item, names))

    def _try(self, path: str, change: Callable[[], object]) -> None:
        """Make a change of a path, unless an earlier one has failed."""
        if path in self._unrestored:
            return
        try:
            change()
        except OSError as error:
            self._name(path, f"it could not be restored ({error.strerror})")

    def _rename_back(self, rename: _Rename) -> None:
        old_path = rename.old.path
        if self._files.state(old_path).kind != MISSING_KIND:
            raise OSError(errno.EEXIST, _NAME_IS_TAKEN)
        self._files.rename(rename.new.path, old_path)
        self._files.set_marks(old_path, rename.old.before)

    def _make(self, item: _Item, names: _Names) -> None:
        """Make a path what it was; not a folder."""
        path = item.path
        before = item.before
        now = self._files.state(path)
        if before.kind == LINK:
            self._files.make_symlink(path, before)
        elif before.kind != FILE and now.kind == MISSING_KIND:
            self._files.make_pipe(path, before)
        elif before.kind != FILE:
            self._files.set_marks(path, before)
        else:
            self._make_file(item, names)

    def _make_file(self, item: _Item, names: _Names) -> None:
        path = item.path
        before = item.before
        snapshot = item.touch.snapshot
        # Without a copy, the content that is there is the right one.
        name = ""
        if not snapshot.is_for_marks:
            name = names.of(snapshot) or self._other_name(snapshot)
        if self._files.state(path).inode != before.inode and name:
            self._files.add_name(name, path)
        now = self._files.state(path)
        if not _needs_content(snapshot, self._files.content(path), now):
            self._files.set_marks(path, before)
        elif self._is_written_in_place(path, now, snapshot):
            self._files.write(path, snapshot, self._backups.get(path))
        else:
            self._files.replace(path, snapshot)
            self._made_inodes.add(self._files.state(path).inode)
        names.add(path, before.inode)

    def _other_name(self, snapshot: Snapshot) -> str:
        """Return a path that leads to the file of a snapshot with several names, if the file is as it was;
        empty if there is none."""
        if not snapshot.has_other_names:
            return ""
        for path in sorted(self._journal.shared_paths.get(snapshot.state.inode, ())):
            if snapshot.is_same(self._files.content(path), self._files.state(path)):
                return path
        return ""

    def _is_written_in_place(self, path: str, now: FileState, snapshot: Snapshot) -> bool:
        """Return whether other names and open descriptors of the file have to lead to the old content.
        Another file that has got this name may have the names of others, too."""
        if now.inode != snapshot.state.inode:
            return False
        return path in self._journal.open_paths or self._is_shared(now, snapshot)

    def _move_back(self, move: Move) -> None:
        move = move._replace(source=self._place(move.source), target=self._place(move.target))
        state = self._files.state(move.target)
        reason = ""
        if state.inode != move.inode:
            reason = _CHANGED_SINCE
        elif self._files.state(move.source).kind != MISSING_KIND:
            reason = f"it could not be restored ({_NAME_IS_TAKEN})"
        if not reason:
            if self._record is not None:
                self._journal.move_folder(self._record, move.target, move.source, state, _THREAD)
            try:
                self._files.rename(move.target, move.source)
            except OSError as error:
                reason = f"it could not be restored ({error.strerror})"
            if self._record is not None:
                self._journal.settle_move(self._record, _THREAD)
        if reason:
            self._stuck_moves.append(move)
            self._name(move.target, reason)
            self._name(move.source, reason)
            return
        self._follow_rename(Move(move.target, move.source, move.inode))
        self.files[move.source] = PathRestoration(move.source, "rename back")
        self._starts[move.source] = _Start(MISSING_KIND, None)

    def _follow_rename(self, move: Move) -> None:
        """Use the new names of what lies in a folder that has got its old name back."""
        for reasons in (self._unrestored, self._imperfections):
            moved = {moved_path(path, move): reason for path, reason in reasons.items()}
            reasons.clear()
            reasons.update(moved)
        self._starts = {moved_path(path, move): start for path, start in self._starts.items()}
        self.files = {
            moved_path(path, move): file._replace(path=moved_path(path, move))
            for path, file in self.files.items()
        }


class _Names:
    """By which names files can be found that had those of a group."""

    def __init__(self, files: Files, copies: Copies, touches: Mapping[str, Touch]) -> None:
        self._files = files
        self._copies = copies
        self._names: dict[tuple[int, int], str] = {}
        """By the device and number that the file had."""
        self._shared_files: set[tuple[int, int]] = set()
        """Those that had several names."""
        for path, touch in touches.items():
            before = touch.snapshot.state
            after = touch.after
            now = files.state(path)
            is_known = after is not None and after.matches(now, files.content(path))
            if not touch.snapshot.has_other_names:
                continue
            self._shared_files.add(before.inode)
            if now.inode == before.inode and is_known:
                self._names[before.inode] = path

    def of(self, snapshot: Snapshot) -> str:
        """Return a name of the file of a snapshot; empty if there is none."""
        inode = snapshot.state.inode
        name = self._names.get(inode) or self._files.kept_name(inode)
        # A file that has got another name since would be written by that, too.
        if name and (inode in self._shared_files or not self._is_used(name, inode)):
            return name
        return ""

    def _is_used(self, name: str, inode: tuple[int, int]) -> bool:
        """Return whether a file has names beside those of copies."""
        return self._files.state(name).links - self._copies.count_links(inode) > 0

    def add(self, path: str, inode: tuple[int, int]) -> None:
        """Note a path that leads to the file again. inode: its device and number before."""
        self._names.setdefault(inode, path)


def _is_same_file(before: FileState, now: FileState) -> bool:
    """Return whether a file has only got another name, permissions or owner."""
    return (before.inode, before.size, before.mtime_ns) == (now.inode, now.size, now.mtime_ns)


def _needs_content(snapshot: Snapshot, content: str, now: FileState) -> bool:
    """Return whether the content of a file has to be written, not only permissions."""
    before = snapshot.state
    if snapshot.is_for_marks:
        return now.kind != FILE or now.size != before.size
    has_old_marks = now._replace(mode=snapshot.state.mode)
    return not snapshot.is_same(content, has_old_marks)


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
