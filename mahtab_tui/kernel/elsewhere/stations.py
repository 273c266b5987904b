"""Kernels elsewhere that wait for a host: the notes that lead to them, and the way to one."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.elsewhere.address import Address, parse
from mahtab_tui.kernel.elsewhere.questions import Ask
from mahtab_tui.kernel.elsewhere.transport import NotThere, Transport
from mahtab_tui.kernel.held.waiting import held_folder
from mahtab_tui.kernel.launch import BOOTSTRAP
from mahtab_tui.kernel.told import KernelReady, checked
from mahtab_tui.kernel.worker.frames import TOKEN_SIZE

_END = ".far"
_LARGEST = 10_000
"""Bytes of a note that are read."""


class Station(NamedTuple):
    """How a kernel elsewhere is found."""

    address: str
    name: str
    """Of its socket there, in hexadecimal."""
    token: str
    """What a host must know, in hexadecimal."""


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


class Connected(NamedTuple):
    """A kernel elsewhere, as its host is connected with it."""

    station: Station
    host: str
    """This host's name, which each wire says."""
    transport: Transport
    token: bytes
    """Part of each frame of the kernel."""
    cell: int = 0
    """The cell that runs in a kernel that has waited; 0 for none."""
    waited: bool = False
    """Whether it has waited for this host."""
    ready: KernelReady | None = None
    """What it said when it was ready."""
    noted: Noted | None = None
    """The note that leads to it; None if no other host shall find it."""

    @property
    def asked(self) -> dict[str, Any]:
        """What each further wire says first."""
        return _asked(self.station, self.host)


def start(address: Address, asked: Mapping[str, Any], session: str, ask: Ask) -> Connected:
    """Start a kernel elsewhere. Raises `KernelError`.

    asked: of it, as `worker.far.station` reads it. session: the id of the one that shall find it again; empty for none.
    """
    station = Station(address.text, secrets.token_hex(8), secrets.token_hex(16))
    host, token = secrets.token_hex(8), os.urandom(TOKEN_SIZE)
    began = {**asked, "bootstrap": BOOTSTRAP, "kernel_token": token.hex()}
    transport = Transport(address, {**_asked(station, host), "received": 0, "start": began}, ask)
    return Connected(station, host, transport, token, noted=_note(session, station) if session else None)


def attach(noted: Noted, ask: Ask) -> Connected:
    """Take a kernel from where it is, also from another host. Raises `NotThere` if it has ended, `KernelError`."""
    host, token = secrets.token_hex(8), os.urandom(TOKEN_SIZE)
    asked = {**_asked(noted.station, host), "received": 0, "attach": token.hex()}
    transport = Transport(parse(noted.station.address), asked, ask)
    try:
        hello = transport.answer["hello"]
        ready = checked(KernelReady, hello) if hello else None
        return Connected(noted.station, host, transport, token, int(transport.answer["cell"]), True, ready, noted)
    except (KeyError, TypeError, ValueError, KernelError):
        transport.close()
        raise KernelError(f"{noted.station.address} does not speak as a kernel does.") from None


def stop(noted: Noted, ask: Ask) -> None:
    """End a kernel that waits, and wait for its end. Raises `KernelError` if the other machine cannot be reached."""
    with contextlib.suppress(NotThere):
        Transport(parse(noted.station.address), {**_asked(noted.station, ""), "stop": True}, ask).close()
    noted.forget()


def noted_kernels(session: str | None = None) -> list[Noted]:
    """Return the kernels elsewhere of one session or of all, the last first, without asking whether they are still there."""
    try:
        paths = list(held_folder().glob(f"*{_END}"))
    except OSError:
        return []
    return sorted((noted for noted in map(_read, paths) if noted and session in (None, noted.session)), key=lambda noted: -noted.since)


def _asked(station: Station, host: str) -> dict[str, Any]:
    return {"session": station.name, "token": station.token, "host": host}


def _note(session: str, station: Station) -> Noted | None:
    with contextlib.suppress(OSError):
        path = held_folder() / f"{quote(session, safe='')}.{station.name}{_END}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8") as file:
            json.dump(station._asdict(), file)
        return Noted(session, time.time(), station, path)
    return None


def _read(path: Path) -> Noted | None:
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since, told = os.fstat(file.fileno()).st_mtime, json.loads(file.read(_LARGEST))
        station = Station(**told)
        if all(isinstance(part, str) for part in station):
            return Noted(unquote(path.name.rsplit(".", 2)[0]), since, station, path)
    return None
