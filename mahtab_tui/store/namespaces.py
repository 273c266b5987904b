"""Folders of the variables of sessions: one for each session in ``~/.mahtab/namespaces``, which
only the user can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.kernel.worker.keeping.folder import INDEX
from mahtab_tui.settings.model import home_folder

_KEY_BYTES = 32


def keep_place(session: str, megabytes: int) -> KeepPlace | None:
    """Return where a session's variables are kept; None if they cannot be. Creates the folder above
    it, and the user's key."""
    if sys.platform != "linux":  # elsewhere, forking a kernel that has loaded libraries is not safe
        return None
    try:
        _above().mkdir(mode=0o700, parents=True, exist_ok=True)
        return KeepPlace(str(_folder(session)), _key().hex(), megabytes)
    except OSError:  # the store reports that the home folder cannot be written
        return None


def is_kept(session: str) -> bool:
    """Return whether there are variables of a session."""
    return (_folder(session) / INDEX).exists()


def copy_namespace(session: str, copy: str) -> None:
    """Give a new session the variables of another one. The files never change, so both share them;
    what cannot be copied is left out."""
    source, target = _folder(session), _folder(copy)
    with contextlib.suppress(OSError):
        target.mkdir(mode=0o700)
        for file in sorted(
            source.iterdir(), key=lambda file: file.name == INDEX
        ):  # the index last, when all that it names is there
            os.link(file, target / file.name)


def remove_namespace(session: str) -> None:
    """Remove the variables of a session."""
    shutil.rmtree(_folder(session), ignore_errors=True)


def kept_bytes() -> int:
    """Return the size of the variables of all sessions, in bytes."""
    return sum(file.stat().st_size for file in _above().glob("*/*") if file.is_file())


def _above() -> Path:
    return home_folder() / "namespaces"


def _folder(session: str) -> Path:
    return _above() / f"session-{quote(session, safe='')}"


def _key() -> bytes:
    """Return the key that signs what this user's sessions write; create it the first time. Raises
    `OSError`."""
    path = _above() / "key"
    with contextlib.suppress(FileExistsError):
        new = path.with_name(f"key.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
        finally:
            os.close(descriptor)
        try:
            os.link(new, path)
        finally:
            new.unlink()
    return path.read_bytes()
