"""Removes files that killed programs have left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from mahtab_tui.session.shared_sessions import SharingError, running_sessions
from mahtab_tui.store.database import remove_unfinished, suppress_all_but_damage
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_lock import locked_sessions

_OLD = 24 * 60 * 60
"""Age in seconds after which temporary files and folders are removed."""


def remove_leftovers() -> None:
    """Remove unused lock files and sockets, records of sessions that were never finished, old
    temporary pictures, and folders that earlier versions made for `claude`. Waits for sockets.
    Raises `StoreError` if the session file was damaged."""
    locked_sessions()
    with contextlib.suppress(SharingError):
        running_sessions()
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:  # nothing can be written anywhere
        return
    for left in (*temporary.glob("mahtab-claude-*"), *temporary.glob("mahtab-picture-*")):
        with contextlib.suppress(OSError):
            found = left.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime <= _OLD:
                continue
            if stat.S_ISREG(found.st_mode):
                left.unlink()
            else:
                shutil.rmtree(left)
    with suppress_all_but_damage():
        remove_unfinished(database())
