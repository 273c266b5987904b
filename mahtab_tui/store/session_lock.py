"""The locks of the open sessions. A lock ends with the program in any case; if its file is
replaced, the first program notices before its next write."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.database import file_identity

LOCK_ATTEMPTS = 5
LOCK_PAUSE_S = 0.05
"""A list of sessions briefly locks each."""
MAX_LOCK_FILE_BYTES = 10_000
LOCK_PREFIX = "session-"
LOCK_SUFFIX = ".lock"


class LockHolder(NamedTuple):
    """The program that has a session open."""

    pid: int
    """Its process; 0 if it has not written it yet."""
    since: float
    """When it opened the session, in seconds since the epoch."""

    def sentence_part(self) -> str:
        """Describe the program in a sentence, as "process 12 since 2026-01-31 09:30"."""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"process {self.pid} since {since}"


class LockedElsewhere(Exception):
    """Another program has the session open."""

    def __init__(self, holder: LockHolder) -> None:
        super().__init__(holder)
        self.holder = holder


class SessionLock:
    """A lock that allows writing a session, until it is released or lost."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """
        Args:
            path: The lock file.
            descriptor: The locked file, which `release` closes.
        """
        self._path = path
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)

    @property
    def is_current(self) -> bool:
        """Whether the locked file is still the one at its path."""
        return file_identity(self._path) == self._identity

    @property
    def lost(self) -> bool:
        """Whether another program now holds the session's lock."""
        return file_identity(self._path) not in (None, self._identity)

    def release(self) -> None:
        """Let other programs lock the session."""
        if not self.lost:
            with contextlib.suppress(OSError):  # the next program removes a leftover file
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def lock_session(session: str) -> SessionLock | None:
    """Lock a session; None if the system does not support locks. Raises `LockedElsewhere`."""
    for _ in range(LOCK_ATTEMPTS - 1):
        with contextlib.suppress(LockedElsewhere):
            return _try_to_lock(session)
        time.sleep(LOCK_PAUSE_S)
    return _try_to_lock(session)


def _try_to_lock(session: str) -> SessionLock | None:
    """Lock a session without waiting; None if the system does not support locks.

    Raises `LockedElsewhere`.
    """
    try:
        path = _lock_path(session)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        raise LockedElsewhere(holder) from None
    except OSError:  # a file system without locks, on which SQLite cannot write either
        os.close(descriptor)
        return None

    lock = SessionLock(path, descriptor)
    # Another program may have removed the file between the two calls.
    if not lock.is_current:
        holder = _read_holder(descriptor)
        os.close(descriptor)
        raise LockedElsewhere(holder)

    holder = LockHolder(os.getpid(), time.time())
    with contextlib.suppress(OSError):  # a full disk; the lock works without the text
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder._asdict()).encode(), 0)
    return lock


def locked_sessions() -> dict[str, LockHolder]:
    """Return the open sessions, and remove lock files of killed programs."""
    holders: dict[str, LockHolder] = {}
    for path in sorted(_lock_folder().glob(f"{LOCK_PREFIX}*{LOCK_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not SessionLock(path, descriptor).lost:
                path.unlink(missing_ok=True)
        except BlockingIOError:
            quoted_id = path.name.removeprefix(LOCK_PREFIX).removesuffix(LOCK_SUFFIX)
            holders[unquote(quoted_id)] = _read_holder(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return holders


def _lock_folder() -> Path:
    return home_folder() / "open"


def _lock_path(session: str) -> Path:
    _lock_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return _lock_folder() / f"{LOCK_PREFIX}{quote(session, safe='')}{LOCK_SUFFIX}"


def _read_holder(descriptor: int) -> LockHolder:
    """Read who has a lock, as far as that program has written it."""
    try:
        holder = json.loads(os.pread(descriptor, MAX_LOCK_FILE_BYTES, 0))
        since = float(holder["since"])
        time.localtime(since)  # raises if it is not a valid time
        return LockHolder(int(holder["pid"]), since)
    except (OSError, ValueError, OverflowError, TypeError, KeyError, RecursionError):
        return LockHolder(0, time.time())
