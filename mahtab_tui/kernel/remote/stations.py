"""Starts and finds kernels on other machines."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import save_last_output, sockets_folder
from mahtab_tui.kernel.launch import BOOTSTRAP
from mahtab_tui.kernel.remote.transport import (
    FINISH_TIMEOUT,
    Address,
    Ask,
    KernelGone,
    Transport,
    parse,
)
from mahtab_tui.kernel.requests import KernelReady, checked
from mahtab_tui.worker.frames import TOKEN_SIZE
from mahtab_tui.worker.link import EXITED, OUTPUT, Link, LinkError
from mahtab_tui.worker.spool import HEAD, TAIL

_NOTE_SUFFIX = ".far"
_MAX_NOTE = 10_000
"""Maximum bytes of a note to read."""


class Station(NamedTuple):
    """How to find a remote kernel."""

    address: str
    label: str
    """The address for messages."""
    name: str
    """The name of its socket, in hexadecimal."""
    token: str
    """The secret that hosts must present, in hexadecimal."""

    def request(self, host: str = "") -> dict[str, Any]:
        """Return the first message of a connection. host: this host's name."""
        return {"session": self.name, "token": self.token, "host": host}


class KernelNote(NamedTuple):
    """A remote kernel that a session had when it was last open."""

    session: str
    """The session's id."""
    since: float
    """When the session got the kernel, in seconds since the epoch."""
    station: Station
    path: Path

    def forget(self) -> None:
        """Delete the note, because the kernel has ended."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def save_note(session: str, station: Station) -> KernelNote | None:
    """Save where a session's kernel is; None if that cannot be written."""
    with contextlib.suppress(OSError):
        path = sockets_folder() / f"{quote(session, safe='')}.{station.name}{_NOTE_SUFFIX}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(station._asdict(), file)
        return KernelNote(session, time.time(), station, path)
    return None


def noted_kernels(session: str | None = None) -> list[KernelNote]:
    """Return the remote kernels of one session or of all, newest first, without checking whether
    they still exist."""
    try:
        paths = list(sockets_folder().glob(f"*{_NOTE_SUFFIX}"))
    except OSError:
        return []
    return sorted(
        (noted for noted in map(_read_note, paths) if noted and session in (None, noted.session)),
        key=lambda noted: -noted.since,
    )


def _read_note(path: Path) -> KernelNote | None:
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since, note = os.fstat(file.fileno()).st_mtime, json.loads(file.read(_MAX_NOTE))
        station = Station(**note)
        if all(isinstance(part, str) for part in station):
            return KernelNote(unquote(path.name.rsplit(".", 2)[0]), since, station, path)
    return None


class ConnectedKernel(NamedTuple):
    """A remote kernel that its host is connected to."""

    station: Station
    host: str
    """This host's name, which is sent in each connection."""
    transport: Transport
    token: bytes
    """Part of each frame of the kernel."""
    cell: int = 0
    """The cell running in a reattached kernel; 0 for none."""
    was_reattached: bool = False
    """Whether it was waiting for this host."""
    ready: KernelReady | None = None
    """Its ready message."""
    noted: KernelNote | None = None
    """The note to find it by; None if no other host should find it."""


def start_remote(
    address: Address,
    asked: Mapping[str, Any],
    session: str,
    ask: Ask,
    given_up: threading.Event,
) -> ConnectedKernel:
    """Start a remote kernel. Raises `KernelError`, also if it is given up.

    asked: the request, as `worker.station` reads it. session: the id of the session that
    can find it again; empty for none.
    """
    station = Station(address.text, address.label, secrets.token_hex(8), secrets.token_hex(16))
    host, token = secrets.token_hex(8), os.urandom(TOKEN_SIZE)
    began = {**asked, "bootstrap": BOOTSTRAP, "kernel_token": token.hex()}
    request = {**station.request(host), "received": 0, "start": began}
    transport = Transport(address, request, ask, given_up)
    noted = save_note(session, station) if session else None
    return ConnectedKernel(station, host, transport, token, noted=noted)


def attach_remote(noted: KernelNote, ask: Ask) -> ConnectedKernel:
    """Attach to a remote kernel, even if another host has it.

    Raises `KernelGone` if it has ended; then the output of its last cell is saved, as for a kernel
    on this machine. Raises `KernelError`.
    """
    host, token = secrets.token_hex(8), os.urandom(TOKEN_SIZE)
    asked = {**noted.station.request(host), "received": 0, "attach": token.hex()}
    transport = Transport(parse(noted.station.address), asked, ask)
    if "last" in transport.answer:
        with contextlib.closing(transport):
            _save_last_output(noted, transport)
        raise KernelGone(f"The kernel on {noted.station.label} has ended in the meantime.")
    try:
        hello = transport.answer["hello"]
        ready = checked(KernelReady, hello) if hello else None
        return ConnectedKernel(
            noted.station, host, transport, token, int(transport.answer["cell"]), True, ready, noted
        )
    except (KeyError, TypeError, ValueError, KernelError):
        transport.close()
        raise KernelError(f"{noted.station.label} does not respond like a kernel.") from None


def stop_remote(noted: KernelNote, ask: Ask) -> None:
    """Stop a waiting kernel, wait for its end, and save its cell's output. Raises `KernelError` if
    the other machine cannot be reached."""
    with contextlib.suppress(KernelGone):
        request = {**noted.station.request(), "stop": True}
        with contextlib.closing(Transport(parse(noted.station.address), request, ask)) as transport:
            if "last" in transport.answer:
                _save_last_output(noted, transport)
    noted.forget()


def _save_last_output(noted: KernelNote, transport: Transport) -> None:
    """Save the output of the cell in which a kernel ended. If it raises `KernelError`, the other
    machine keeps it."""
    link, output, size = Link(), list[bytes](), 0
    data, ended = transport.buffered, False
    try:
        link.connect(transport.received)
        while not ended:
            for message in link.feed(data):
                ended = ended or message.kind == EXITED
                if message.kind == OUTPUT:
                    output.append(message.data)
                    size += len(message.data)
            if size > HEAD + 3 * TAIL:
                raise LinkError("more arrived than is kept there")
            confirmed = bytes(link.outgoing)
            link.outgoing.clear()
            data = b"" if ended else transport.exchange(confirmed)
        save_last_output(noted.session, noted.station.name, int(transport.answer["last"]), output)
    except (OSError, TypeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise KernelError(
            f"The output of the last cell on {noted.station.label} cannot be saved: {why}."
        ) from None
    with contextlib.suppress(OSError):
        os.write(transport.stdin, confirmed)  # now the station may exit
    transport.finish(FINISH_TIMEOUT)
