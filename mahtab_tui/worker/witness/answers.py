"""What the witness answers when the kernel asks what cells have done to files, or takes it back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .archive import release_memory
from .folders import WatchedFolders
from .path_changes import PathChange
from .recorder import ChangeRecorder
from .shared import Message
from .states import FOLDER, read_state

MAX_REPORTED_CHANGES = 100
"""Changes of a cell that the kernel is told."""


def describe_refused(paths: Iterable[str], folders: WatchedFolders | None) -> list[Message]:
    """Return rows about the protected files that a cell was kept from changing.

    Args:
        paths: The paths of the files.
        folders: The watched folders, from which paths are shown; None if no files are watched.
    """
    shown_paths = list(paths)
    if folders is not None:
        shown_paths = [folders.shorten(path) for path in shown_paths]
    return [_change_row("refused", path) for path in shown_paths[:MAX_REPORTED_CHANGES]]


def _change_row(change: str, path: str, old_path: str = "") -> Message:
    """Return what the kernel is told of one path, with the fields of `PathChange`."""
    return {"change": change, "path": path, "old_path": old_path}


def unknown_changes(reason: str) -> Message:
    """Return the answer if nothing is known.

    Args:
        reason: A sentence.
    """
    return {"files": [], "not_restored": [{"name": "", "reason": reason}]}


class ChangeAnswers:
    """Answers the kernel's questions about what a recorder has noted."""

    def __init__(self, recorder: ChangeRecorder, folders: WatchedFolders) -> None:
        """Answer questions about a recorder.

        Args:
            recorder: Has noted what cells have done.
            folders: The watched folders, from which paths are shown.
        """
        self._recorder = recorder
        self._folders = folders

    def finish(self) -> list[Message]:
        """Return what the cell that has ended has changed."""
        journal = self._recorder.journal
        step = self._recorder.end()
        reported = self._report(journal.finish(step))
        if step.is_empty:
            journal.steps.remove(step)
        if self._recorder.redo.is_empty and journal.pack():
            # Here, where nothing refers any more to what was packed.
            release_memory()
        return reported

    def _report(self, changes: Sequence[PathChange]) -> list[Message]:
        """Describe changes, and say how many more there are than can be described."""
        reported = [self._describe(change) for change in changes[:MAX_REPORTED_CHANGES]]
        omitted_count = len(changes) - len(reported)
        if omitted_count:
            reported.append(_change_row("more", f"{omitted_count:,}"))
        return reported

    def _describe(self, change: PathChange) -> Message:
        """Return a change as a row; the path of a folder ends with a slash."""
        path = self._folders.shorten(change.path)
        if read_state(change.path).kind == FOLDER:
            path += os.sep
        return _change_row(change.change, path, self._folders.shorten(change.old_path))

    def restore(self, op: str, cell: int) -> Message:
        """Preview, undo or redo.

        Args:
            op: ``preview_undo``, ``undo`` or ``redo``.
            cell: The first one that is taken back; without meaning for ``redo``.

        Returns:
            ``files``: the paths that change, with the fields of `PathRestoration`; and ``not_restored``:
            what stays as it is, with the reasons.
        """
        recorder = self._recorder
        recorder.note_open_files()
        if op == "preview_undo":
            plan = recorder.redo.plan(cell)
        elif op == "undo":
            recorder.keep_redo()
            plan = recorder.redo.undo(cell)
        else:
            plan = recorder.redo.redo()
        shorten = self._folders.shorten
        return {
            "files": [
                {**file._asdict(), "path": shorten(path)} for path, file in plan.files.items()
            ],
            "not_restored": [
                {"name": shorten(item.name), "reason": item.reason} for item in plan.unrestored
            ],
        }
