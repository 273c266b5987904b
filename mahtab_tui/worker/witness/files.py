"""Files as they are, and as an undo would leave them."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter, defaultdict
from contextlib import suppress
from typing import NamedTuple

from .copies import Copies, Snapshot, copy_content, set_marks
from .journal import Move, lies_in, moved_path
from .states import FILE, FOLDER, MISSING, MISSING_KIND, FileState, read_state

_KEPT_NAME = "copy of {} {}"


class Files:
    """The files of this machine. What changes them raises `OSError`."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def state(self, path: str) -> FileState:
        return read_state(path)

    def content(self, path: str) -> str:
        """Return where the content of a file can be read."""
        return path

    def has_other_names(self, state: FileState) -> bool:
        """Return whether a file has names beside its path and those of copies."""
        return state.kind == FILE and state.links - self._copies.count_links(state.inode) > 1

    def kept_name(self, inode: tuple[int, int]) -> str:
        """Return a copy that is a name of a file itself; empty if there is none."""
        return self._copies.kept_name(inode)

    def remove(self, path: str) -> None:
        """Remove a file, or an empty folder."""
        if read_state(path).kind == FOLDER:
            os.rmdir(path)
        else:
            os.unlink(path)

    def make_folder(self, path: str, state: FileState) -> None:
        """Make a folder, or give one permissions."""
        if read_state(path).kind == MISSING_KIND:
            os.mkdir(path)
        os.chmod(path, stat.S_IMODE(state.mode))

    def make_symlink(self, path: str, state: FileState) -> None:
        draft = _draft_name(path)
        os.symlink(state.target, draft)
        _put_in_place(draft, path)

    def make_pipe(self, path: str, state: FileState) -> None:
        os.mkfifo(path)
        set_marks(path, state)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def add_name(self, name: str, path: str) -> None:
        """Make a path another name of a file, in place of the file that it leads to."""
        draft = _draft_name(path)
        os.link(name, draft, follow_symlinks=False)
        _put_in_place(draft, path)

    def write(self, path: str, snapshot: Snapshot, backup: Snapshot | None) -> None:
        """Write content into a file, for all its names and open descriptors.

        Args:
            path: The file.
            snapshot: With a copy.
            backup: Of the file as it is now, which is put back if it cannot be written.
        """
        self._copies.separate(read_state(path).inode)
        try:
            copy_content(snapshot.file, path)
        except OSError:
            if backup is not None and backup.file:
                with suppress(OSError):
                    copy_content(backup.file, path)
                    set_marks(path, backup.state)
            raise
        set_marks(path, snapshot.state)

    def replace(self, path: str, snapshot: Snapshot) -> None:
        """Give a path a new file with the content of a copy."""
        draft = _draft_name(path)
        try:
            copy_content(snapshot.file, draft)
            set_marks(draft, snapshot.state)
            os.rename(draft, path)
        except OSError:
            with suppress(OSError):
                os.unlink(draft)
            raise

    def set_marks(self, path: str, state: FileState) -> None:
        """Give a path permissions, owner and time."""
        set_marks(path, state)


class _Planned(NamedTuple):
    """What a path would lead to."""

    state: FileState
    content: str
    """Where the content of a file is now."""


class PlannedFiles(Files):
    """Files as they would be: changes are only noted."""

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies)
        self._planned: dict[str, _Planned] = {}
        """By path, what a change would have given it. `_plan` and `_forget` change it."""
        self._planned_entries: defaultdict[str, set[str]] = defaultdict(set)
        """Its paths by the folder that they are in."""
        self._written: dict[tuple[int, int], _Planned] = {}
        """By device and number, what would be written into a file."""
        self._removed_names: Counter[tuple[int, int]] = Counter()
        """By device and number, how many names a file would lose."""
        self._renames: list[Move] = []
        """Of folders, in order."""
        self._new_files = 0

    def state(self, path: str) -> FileState:
        state = self._find(path).state
        if state.kind != FILE:
            return state
        written = self._written.get(state.inode)
        if written is not None:
            new = written.state
            state = state._replace(
                mode=new.mode, size=new.size, mtime_ns=new.mtime_ns, owner=new.owner
            )
        return state._replace(links=state.links - self._removed_names[state.inode])

    def content(self, path: str) -> str:
        planned = self._find(path)
        return self._written.get(planned.state.inode, planned).content

    def keep_name(self, path: str, inode: tuple[int, int]) -> None:
        """Note that a copy for a redo would be a name of the file at a path."""
        self._plan(_KEPT_NAME.format(*inode), self._find(path))

    def kept_name(self, inode: tuple[int, int]) -> str:
        name = _KEPT_NAME.format(*inode)
        return name if name in self._planned else super().kept_name(inode)

    def remove(self, path: str) -> None:
        if self.state(path).kind == FOLDER and self._has_entries(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self._put(path, _Planned(MISSING, ""))

    def make_folder(self, path: str, state: FileState) -> None:
        now = self.state(path)
        inode = now.inode if now.kind == FOLDER else self._new_inode()
        self._put(path, _Planned(state._replace(inode=inode), ""))

    def make_symlink(self, path: str, state: FileState) -> None:
        self._put(path, _Planned(state._replace(inode=self._new_inode()), ""))

    def make_pipe(self, path: str, state: FileState) -> None:
        self.make_symlink(path, state)

    def rename(self, source: str, target: str) -> None:
        planned = self._find(source)
        if planned.state.kind != FOLDER:
            self._put(target, planned)
            # It has lost a name, and got one.
            self._removed_names[planned.state.inode] -= 1
            self._put(source, _Planned(MISSING, ""))
            return
        move = Move(source, target, planned.state.inode)
        inside = {path: new for path, new in self._planned.items() if lies_in(path, source)}
        # What was at the new path, and in it, is gone.
        for path in list(self._planned):
            if lies_in(path, source) or lies_in(path, target):
                self._forget(path)
        self._renames.append(move)
        self._put(target, planned)
        for path, planned_path in inside.items():
            self._plan(moved_path(path, move), planned_path)

    def add_name(self, name: str, path: str) -> None:
        planned = self._find(name)
        self._put(path, planned)
        self._removed_names[planned.state.inode] -= 1

    def write(self, path: str, snapshot: Snapshot, backup: Snapshot | None) -> None:
        self._written[self.state(path).inode] = _Planned(snapshot.state, snapshot.file)

    def replace(self, path: str, snapshot: Snapshot) -> None:
        state = snapshot.state._replace(inode=self._new_inode(), links=1)
        self._put(path, _Planned(state, snapshot.file))

    def set_marks(self, path: str, state: FileState) -> None:
        now = self.state(path)
        marked = now._replace(mode=state.mode, mtime_ns=state.mtime_ns, owner=state.owner)
        if now.kind == FILE:
            self._written[now.inode] = _Planned(marked, self.content(path))
        else:
            self._plan(path, _Planned(marked, ""))

    def _find(self, path: str) -> _Planned:
        """Return what a path leads to, but for what would be written into a file."""
        planned = self._planned.get(path)
        if planned is not None:
            return planned
        for move in reversed(self._renames):
            if lies_in(path, move.target):
                path = move.source + path[len(move.target) :]
            elif lies_in(path, move.source):
                return _Planned(MISSING, "")
        return _Planned(read_state(path), path)

    def _put(self, path: str, planned: _Planned) -> None:
        if planned.state.kind != MISSING_KIND and self.state(os.path.dirname(path)).kind != FOLDER:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        old_state = self._find(path).state
        if old_state.kind == FILE:
            self._removed_names[old_state.inode] += 1
        self._plan(path, planned)

    def _plan(self, path: str, planned: _Planned) -> None:
        self._planned[path] = planned
        self._planned_entries[os.path.dirname(path)].add(path)

    def _forget(self, path: str) -> None:
        del self._planned[path]
        self._planned_entries[os.path.dirname(path)].discard(path)

    def _has_entries(self, folder: str) -> bool:
        entries = set(self._planned_entries.get(folder, ()))
        with suppress(OSError):
            real_folder = self._find(folder).content
            entries.update(os.path.join(folder, name) for name in os.listdir(real_folder or folder))
        return any(self.state(path).kind != MISSING_KIND for path in entries)

    def _new_inode(self) -> tuple[int, int]:
        self._new_files += 1
        return (-1, self._new_files)


def _draft_name(path: str) -> str:
    return f"{path}.{os.getpid()}.restored"


def _put_in_place(draft: str, path: str) -> None:
    """Give a draft its path, in place of what the path led to; remove the draft if that fails. Raises
    `OSError`."""
    try:
        os.rename(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise
