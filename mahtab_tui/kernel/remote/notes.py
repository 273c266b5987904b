"""Notes about kernels on other machines, by which a session finds its kernel again."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.holder_connection import sockets_folder

NOTE_SUFFIX = ".far"
MAX_NOTE_BYTES = 10_000
"""Bytes of a note that are read."""
_OWNER_ONLY = 0o600
"""Mode of files that only their owner reads and writes: a note has the station's token."""


class Station(NamedTuple):
    """The process on another machine that keeps a kernel."""

    address: str
    """The address as ``--kernel`` takes it."""
    label: str
    """The address for the user."""
    name: str
    """A random name, in hexadecimal."""
    token: str
    """A secret that the station requires, in hexadecimal."""

    def request(self, host: str = "") -> dict[str, Any]:
        """Return the fields that each request to the station has.

        Args:
            host: The id of this process's connection.
        """
        return {"session": self.name, "token": self.token, "host": host}


class KernelNote(NamedTuple):
    """A remote kernel that a session had when it was last open."""

    session: str
    since: float
    station: Station
    path: Path
    """The note's file."""

    def forget(self) -> None:
        """Remove the note, because the kernel has ended."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def save_note(session: str, station: Station) -> KernelNote | None:
    """Save where a kernel is; None if that cannot be written."""
    with contextlib.suppress(OSError):
        path = sockets_folder() / f"{quote(session, safe='')}.{station.name}{NOTE_SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(station._asdict(), file)
        return KernelNote(session, time.time(), station, path)
    return None


def noted_kernels(session: str | None = None) -> list[KernelNote]:
    """Return the noted kernels, newest first, which may have ended.

    Args:
        session: Only those of this session.
    """
    try:
        paths = list(sockets_folder().glob(f"*{NOTE_SUFFIX}"))
    except OSError:
        return []
    notes: list[KernelNote] = []
    for path in paths:
        note = _read_note(path)
        if note is not None and (session is None or note.session == session):
            notes.append(note)
    return sorted(notes, key=lambda note: -note.since)


def _read_note(path: Path) -> KernelNote | None:
    """Return a note; None if it was removed or is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since = os.fstat(file.fileno()).st_mtime
            fields = json.loads(file.read(MAX_NOTE_BYTES))
        station = Station(**fields)
        if all(isinstance(value, str) for value in station):
            session = unquote(path.name.rsplit(".", 2)[0])
            return KernelNote(session, since, station, path)
    return None
