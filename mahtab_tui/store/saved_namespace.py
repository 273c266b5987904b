"""The saved variables of sessions: their folders, and the key that signs them."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.saving.folder import INDEX, OWNER

SIGNING_KEY_BYTES = 32


def save_target(session: str, megabytes: int) -> SaveTarget | None:
    """Return where a session's variables are saved; None if they cannot be."""
    if sys.platform != "linux":  # elsewhere, forking a kernel with loaded libraries is unsafe
        return None
    try:
        _namespaces().mkdir(mode=0o700, parents=True, exist_ok=True)
        return SaveTarget(str(namespace_folder(session)), _signing_key().hex(), megabytes)
    except OSError:  # the store reports that the home folder is not writable
        return None


def is_saved(session: str) -> bool:
    """Whether a session has saved variables."""
    return (namespace_folder(session) / INDEX).exists()


def copy_namespace(session: str, copy: str) -> None:
    """Give a new session the saved variables of another one.

    Both share the files, which never change.
    """
    source = namespace_folder(session)
    target = namespace_folder(copy)
    with contextlib.suppress(OSError):
        target.mkdir(mode=0o700)
        # The index last, when everything it names exists.
        for file in sorted(source.iterdir(), key=lambda file: file.name == INDEX):
            # Each session has a kernel of its own, which may write.
            if file.name != OWNER:
                os.link(file, target / file.name)


def _namespaces() -> Path:
    return home_folder() / "namespaces"


def namespace_folder(session: str) -> Path:
    """Return the folder with a session's saved variables, which need not exist."""
    return _namespaces() / f"session-{quote(session, safe='')}"


def _signing_key() -> bytes:
    """Return the key that signs this user's saved variables. Raises `OSError`."""
    path = _namespaces() / "key"
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    # A link, so that the file is complete when it appears, and the first of two programs wins.
    with contextlib.suppress(FileExistsError):
        new_path = path.with_name(f"key.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(new_path, flags, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(SIGNING_KEY_BYTES))
        finally:
            os.close(descriptor)
        try:
            os.link(new_path, path)
        finally:
            new_path.unlink()
    return path.read_bytes()
