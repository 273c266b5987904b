"""Notes what the calls of cells are about to do to files, with what an undo needs.

The system waits until the call was noted: a file that is about to be changed is copied first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from .call_paths import read_flags, read_paths
from .calls import RENAME_EXCHANGE
from .file_step import FileStep
from .folders import WatchedFolders
from .journal import FileJournal
from .listener import CallListener, Notification
from .nodes import Node
from .process_files import UnseenError, descendants, mapped_files, written_files
from .redo import RedoStack
from .shared import SharedFields
from .states import FILE, MISSING_KIND, FileState, read_state

_O_TMPFILE = 0o20000000
"""Of Linux; `os` has it only where the C library defines it."""
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_OPENING_ACTIONS = ("open", "open2")
_MAKING_ACTIONS = ("create", "socket")
_MARKING_ACTIONS = ("mark", "markfd")
_REPOSITORY_FOLDERS = frozenset((".git", ".hg", ".svn", ".jj"))
"""Folders with the history of versions, whose files depend on each other."""


class ChangeRecorder:
    """Knows which files are watched, and keeps the journal of their changes."""

    def __init__(
        self, kernel_pid: int, fields: SharedFields, folders: WatchedFolders, journal: FileJournal
    ) -> None:
        """Begin without changes.

        Args:
            kernel_pid: The kernel's process.
            fields: What the kernel and the witness tell each other, such as the running cell.
            folders: The folders whose files are watched.
            journal: Where changes are noted.
        """
        self._kernel_pid = kernel_pid
        self._fields = fields
        self._folders = folders
        self.journal = journal
        self.redo = RedoStack(journal)
        self._namespace = os.stat("/proc/self/ns/mnt").st_ino
        self._watches_open_files = False
        """Whether any file was opened for writing, so that it may still be."""
        self._undo_cell = 0
        """The newest cell at the last undo; what writes before the next one does not end its redo."""

    # Cells

    def begin(self, cell: int) -> None:
        """Begin a cell. Copy what is open for writing, because the cell can write it without another
        call."""
        self._forget_old(cell)
        self._fields.cell = cell
        self.note_open_files()
        self._fields.has_news = bool(self.journal.open_nodes)
        self.journal.note_open_files(cell)

    def end(self) -> FileStep:
        """Return the step of the cell that has ended."""
        self.note_open_files()
        self._fields.has_news = bool(self.journal.open_nodes)
        return self.journal.step(self._fields.cell)

    def keep_redo(self) -> None:
        """Let what writes before the next cell not end the redo of an undo that begins."""
        self._undo_cell = self._fields.cell

    def _forget_old(self, cell: int) -> None:
        """Forget the redo if a new step begins, and the steps that the kernel has forgotten.

        Args:
            cell: The cell that changes something.
        """
        steps = self.journal.steps
        begins_step = not steps or steps[-1].cell != cell
        if begins_step and cell != self._undo_cell:
            self.redo.forget()
        self.journal.forget_before(self._fields.oldest_cell)

    def _step(self) -> FileStep:
        """Return the step to which a change belongs."""
        return self.journal.step(self._fields.cell, is_background=not self._fields.is_running)

    # Files that are open

    def note_open_files(self) -> None:
        """Find the files that processes of the kernel have open for writing, or mapped."""
        if not self._watches_open_files:
            return
        journal = self.journal
        pids = list(descendants(os.getpid()))
        mapped = set(self._find_nodes(path for pid in pids for path in mapped_files(pid)))
        written = set(self._find_nodes(path for pid in pids for path in written_files(pid)))
        for node in journal.open_nodes | mapped:
            node.is_mapped = node in mapped
        journal.open_nodes = mapped | written
        self._watches_open_files = bool(journal.open_nodes)

    def _find_nodes(self, open_files: Iterable[tuple[str, FileState]]) -> Iterator[Node]:
        """Yield the files that are watched among those that are open.

        Args:
            open_files: The path of each, which may lead to another file by now, and what it was.
        """
        for path, state in open_files:
            node = self.journal.nodes.known(state) or self._identify(path, state)
            if node is not None:
                yield node

    def _identify(self, path: str, state: FileState) -> Node | None:
        """Return an open file that was not known; None if it is not watched, or not at its path."""
        nodes = self.journal.nodes
        if not self._is_watched(path) or read_state(path).inode != state.inode:
            return None
        name = nodes.name(path)
        if name is None:
            return None
        return nodes.identify(name, state)

    # Calls

    def try_to_note(self, listener: CallListener, notification: Notification) -> None:
        """Note what a call changes; if that is not known, note this.

        Args:
            listener: Knows whether the call still waits.
            notification: The call.
        """
        try:
            self._note(listener, notification)
        except UnseenError as error:
            self._note_problem(str(error))
        except Exception as error:  # the call must go on in any case
            self._note_problem(f"A change of a file was not seen ({type(error).__name__}).")

    def _note(self, listener: CallListener, notification: Notification) -> None:
        """Note what a call changes, unless it was made by a thread that has ended."""
        call = notification.call
        # Owners and attributes are watched for protected files only.
        if call is None or call.action in ("own", "ownlink") or not self._fields.cell:
            return
        flags = read_flags(notification)
        paths = read_paths(notification, flags, self._namespace)
        # If the thread has ended meanwhile, something else may have been read.
        if listener.is_waiting(notification):
            self._note_change(call.action, flags, paths)

    def _note_problem(self, sentence: str) -> None:
        """Note what the user is told when the step is undone."""
        if self._fields.cell:
            self._step().problems[sentence] = None
            self._fields.has_news = True

    def _is_watched(self, path: str) -> bool:
        """Return whether the files at a path are watched."""
        working_folder = ""
        with suppress(OSError):  # the kernel has ended, or the folder was removed
            working_folder = os.readlink(f"/proc/{self._kernel_pid}/cwd")
        return self._folders.contains(path, working_folder)

    def _leaves_alone(self, path: str) -> bool:
        """Return whether a path belongs to a repository's own files, which only it can change safely;
        the undo names them."""
        parts = path.split(os.sep)
        for index, part in enumerate(parts):
            if part in _REPOSITORY_FOLDERS:
                repository = self._folders.shorten(os.sep.join(parts[: index + 1]))
                self._note_problem(f"{repository}: the history of versions stays as it is now.")
                return True
        return False

    def _watched_or_empty(self, path: str) -> str:
        """Return a path if its changes are taken back, else an empty text."""
        if self._is_watched(path) and not self._leaves_alone(path):
            return path
        return ""

    def _note_change(self, action: str, flags: int, paths: Sequence[str]) -> None:
        """Note what a call is about to do, with what an undo needs.

        Args:
            action: See `WatchedCall`.
            flags: The flags of the call.
            paths: Its paths; empty for those that are not there.
        """
        watched_paths = [self._watched_or_empty(path) for path in paths]
        if not any(watched_paths):
            return
        self._forget_old(self._fields.cell)
        step = self._step()
        self._fields.has_news = True
        if action == "rename":
            self._note_rename(step, flags, paths, watched_paths)
        elif action == "link":
            if watched_paths[1]:
                self.journal.note_existing(step, paths[0])
                self.journal.note_name(step, paths[1])
        else:
            self._note_one(step, action, flags, watched_paths[0])

    def _note_rename(
        self, step: FileStep, flags: int, paths: Sequence[str], watched_paths: Sequence[str]
    ) -> None:
        """Note what a rename is about to do.

        Args:
            step: The step to which it belongs.
            flags: Those of the call.
            paths: The old and the new path.
            watched_paths: The same, empty where they are not watched.
        """
        for path, watched_path in zip(paths, watched_paths):
            if watched_path:
                self.journal.note_name(step, path)
            else:
                self.journal.note_existing(step, path)
        if all(watched_paths):
            return
        # What is moved to where nobody watches cannot be followed any more.
        moved_paths = watched_paths if flags & RENAME_EXCHANGE else watched_paths[:1]
        for path in filter(None, moved_paths):
            self.journal.note_leaving(path)

    def _note_one(self, step: FileStep, action: str, flags: int, path: str) -> None:
        """Note what a call is about to do to the only path that it has.

        Args:
            step: The step to which it belongs.
            action: See `WatchedCall`.
            flags: The flags of the call.
            path: The path, which is watched.
        """
        state = read_state(path)
        if not _has_effect(action, flags, state):
            return
        if action in _OPENING_ACTIONS:
            self._watches_open_files = True
        if action == "unlink" or state.kind == MISSING_KIND:
            self.journal.note_name(step, path)
        else:
            self.journal.note_content(step, path, is_written=action not in _MARKING_ACTIONS)


def _has_effect(action: str, flags: int, state: FileState) -> bool:
    """Return whether a call with one path changes something, as far as it will succeed.

    Args:
        action: See `WatchedCall`.
        flags: The flags of the call.
        state: What the path leads to.
    """
    if action in _OPENING_ACTIONS:
        return _changes_by_open(flags, state)
    exists = state.kind != MISSING_KIND
    if action in _MAKING_ACTIONS:
        return not exists
    # `creat` is among the calls that write, and makes a file.
    return exists or action == "write"


def _changes_by_open(flags: int, state: FileState) -> bool:
    """Return whether opening a path creates a file, or lets one be written.

    Args:
        flags: The flags of the call.
        state: What the path leads to.
    """
    if flags & _O_TMPFILE == _O_TMPFILE:  # a file without a name
        return False
    if state.kind == MISSING_KIND:
        return bool(flags & os.O_CREAT)
    must_be_new = flags & os.O_EXCL and flags & os.O_CREAT
    return state.kind == FILE and bool(flags & _WRITE_FLAGS) and not must_be_new
