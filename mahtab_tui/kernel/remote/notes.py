"""Notes about kernels elsewhere, by which the next host of a session finds them."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.detached.waiting import held_folder

_END = ".far"
_LARGEST = 10_000
"""Bytes of a note that are read."""


class Station(NamedTuple):
    """How a kernel elsewhere is found."""

    address: str
    label: str
    """The address for messages."""
    name: str
    """Name of its socket there, in hexadecimal."""
    token: str
    """Secret that a host must know, in hexadecimal."""


class Noted(NamedTuple):
    """A kernel elsewhere that a session had when it was last open."""

    session: str
    """The session's id."""
    since: float
    """Since when it has it, in seconds since the epoch."""
    station: Station
    path: Path

    def forget(self) -> None:
        """The kernel has ended."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def note(session: str, station: Station) -> Noted | None:
    """Write down where a session's kernel is; None if that cannot be written."""
    with contextlib.suppress(OSError):
        path = held_folder() / f"{quote(session, safe='')}.{station.name}{_END}"
        with open(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600),
            "w",
            encoding="utf-8",
        ) as file:
            json.dump(station._asdict(), file)
        return Noted(session, time.time(), station, path)
    return None


def noted_kernels(session: str | None = None) -> list[Noted]:
    """Return the kernels elsewhere of one session or of all, the last first, without asking whether
    they are still there."""
    try:
        paths = list(held_folder().glob(f"*{_END}"))
    except OSError:
        return []
    return sorted(
        (noted for noted in map(_read, paths) if noted and session in (None, noted.session)),
        key=lambda noted: -noted.since,
    )


def _read(path: Path) -> Noted | None:
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since, told = os.fstat(file.fileno()).st_mtime, json.loads(file.read(_LARGEST))
        station = Station(**told)
        if all(isinstance(part, str) for part in station):
            return Noted(unquote(path.name.rsplit(".", 2)[0]), since, station, path)
    return None
