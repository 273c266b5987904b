"""Deletes the copies of files that kernels have made for undo."""

from __future__ import annotations

import shutil

from mahtab_tui.settings.model import file_copies_folder


def delete_file_copies(session: str) -> None:
    """Delete the copies of a session, whose kernel has ended."""
    folder = file_copies_folder(session)
    if not folder.is_dir():
        return
    from mahtab_tui.worker.witness.copies import remove_abandoned

    # They know what an undo that was killed has left in the project.
    remove_abandoned(str(folder))
    shutil.rmtree(folder, ignore_errors=True)


def collect_file_copies() -> int:
    """Delete the copies of kernels that were killed before they could do that.

    Return the number of these kernels.
    """
    from mahtab_tui.worker.witness.copies import remove_abandoned

    folder = file_copies_folder("").parent
    if not folder.is_dir():
        return 0
    return sum(remove_abandoned(str(session_folder)) for session_folder in folder.iterdir())
