"""Removes what programs that were killed have left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from mahtab_tui.session.shared_sessions import SharingError, running_sessions
from mahtab_tui.store.claim import held

_OLD = 24 * 60 * 60
"""Seconds after which a folder of an earlier version is taken for left behind."""


def remove_leftovers() -> None:
    """Remove lock files and sockets that no program has any more, and the folders that earlier versions made for `claude`. Waits for sockets."""
    held()
    with contextlib.suppress(SharingError):
        running_sessions()
    for folder in Path(tempfile.gettempdir()).glob("mahtab-claude-*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _OLD:
                shutil.rmtree(folder)
