"""Lock files that decide which program may write a session.

The lock is the system's (`flock`), so it ends with the program, however that ends. If the file is
deleted and another program locks a new one, the first program notices that before it writes again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.corruption import file_identity

_ATTEMPTS, _PAUSE = 5, 0.05
"""How often to try a lock, and seconds between: listing the sessions locks each for a moment."""

_LARGEST = 10_000
"""Bytes of a lock file that are read."""

_START, _END = "session-", ".lock"


class Holder(NamedTuple):
    """The program that has a session open."""

    pid: int
    host: str
    since: float
    """Seconds since the epoch."""

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, not on another one with the same home folder."""
        return self.host == socket.gethostname()

    def sentence_part(self) -> str:
        """Format the holder as "process 4711 since 2026-03-01 14:02"."""
        where = "" if self.is_here else f" on {self.host}"
        return f"process {self.pid}{where} since {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.since))}"


class HeldElsewhere(Exception):
    """Another program has the session open."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder


class SessionLock:
    """The right to write a session, until it is released or lost."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._identity = found.st_dev, found.st_ino

    @property
    def lost(self) -> bool:
        """Whether another program holds the lock of this session now."""
        return file_identity(self._path) not in (None, self._identity)

    def release(self) -> None:
        """Give the session up."""
        if not self.lost:
            with contextlib.suppress(OSError):  # a file that is left is removed by the next program
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def claim(session: str) -> SessionLock | None:
    """Claim a session; None if the system has no way to lock it. Raises `HeldElsewhere`."""
    for attempt in range(_ATTEMPTS):
        try:
            path = _path(session)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            if attempt + 1 == _ATTEMPTS:
                raise HeldElsewhere(holder) from None
            time.sleep(_PAUSE)
        except OSError:  # a file system without locks, on which SQLite cannot write either
            os.close(descriptor)
            return None
        else:
            made = SessionLock(path, descriptor)
            if file_identity(path) == made._identity:  # and not released between the two calls
                with contextlib.suppress(OSError):  # a full disk; the lock holds without it
                    _write_holder(descriptor)
                return made
            os.close(descriptor)
    return None


def locked_sessions() -> dict[str, Holder]:
    """Return the open sessions, and remove lock files left by killed programs."""
    found: dict[str, Holder] = {}
    for path in sorted(_folder().glob(f"{_START}*{_END}")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not SessionLock(path, descriptor).lost:
                path.unlink(missing_ok=True)
        except BlockingIOError:
            found[unquote(path.name[len(_START) : -len(_END)])] = _holder(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return found


def is_open(session: str) -> bool:
    """Return whether a program has a session open, as far as the system can tell."""
    locked_sessions()
    try:
        return _path(session).exists()
    except OSError:
        return True


def _folder() -> Path:
    return home_folder() / "open"


def _path(session: str) -> Path:
    """Return the lock file of a session; create its folder. Raises `OSError`."""
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return _folder() / f"{_START}{quote(session, safe='')}{_END}"


def _write_holder(descriptor: int) -> None:
    """Write who holds the lock. Raises `OSError`."""
    os.ftruncate(descriptor, 0)
    os.pwrite(
        descriptor,
        json.dumps(Holder(os.getpid(), socket.gethostname(), time.time())._asdict()).encode(),
        0,
    )


def _holder(descriptor: int) -> Holder:
    try:
        holder = json.loads(os.pread(descriptor, _LARGEST, 0))
        since = float(holder["since"])
        time.localtime(since)  # raises if it is not a time
        return Holder(int(holder["pid"]), str(holder["host"]), since)
    except (OSError, ValueError, OverflowError, TypeError, KeyError, RecursionError):
        return Holder(0, socket.gethostname(), time.time())
