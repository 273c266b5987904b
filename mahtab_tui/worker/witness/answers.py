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
    """Return the protected files that a cell was kept from changing, as the kernel is told."""
    shown_paths = [folders.shorten(path) if folders is not None else path for path in paths]
    return [
        {"change": "refused", "path": path, "old_path": ""}
        for path in shown_paths[:MAX_REPORTED_CHANGES]
    ]


def unknown_changes(reason: str) -> Message:
    """Return the answer if nothing is known.

    Args:
        reason: A sentence.
    """
    return {"files": [], "not_restored": [{"name": "", "reason": reason}]}


class ChangeAnswers:
    """Answers the kernel's questions about what a recorder has noted."""

    def __init__(self, recorder: ChangeRecorder, folders: WatchedFolders) -> None:
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
            reported.append({"change": "more", "path": f"{omitted_count:,}", "old_path": ""})
        return reported

    def _describe(self, change: PathChange) -> Message:
        path = self._folders.shorten(change.path)
        if read_state(change.path).kind == FOLDER:
            path += os.sep
        return {
            "change": change.change,
            "path": path,
            "old_path": self._folders.shorten(change.old_path),
        }

    def restore(self, op: str, cell: int) -> Message:
        """Preview, undo or redo.

        Args:
            op: ``preview_undo``, ``undo`` or ``redo``.
            cell: The first one that is taken back.
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
