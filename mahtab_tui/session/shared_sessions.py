"""Finds and watches the running sessions on this machine: each has a socket in a folder that only
its user can access."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.codec import InvalidRecord, as_json, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.settings.model import home_folder

PATIENCE = 2.0
"""Seconds that a session may take to answer a probe."""

LONGEST_PATH = 100
"""Maximum length of a socket's path in bytes; systems allow only a few more."""

_LOCAL_PEERCRED = 1
"""The macOS socket option for the user at the other end."""


class SharingError(Exception):
    """Sessions cannot be shared or found; the message is a sentence."""


class RunningSession(NamedTuple):
    """A session on a screen."""

    name: str
    project: str
    pid: int
    agents: list[str]
    path: Path

    def sentence(self) -> str:
        agents = f"  with {', '.join(self.agents)}" if self.agents else ""
        return f"{self.name}  {self.pid}  {self.project}{agents}"


def share_folder() -> Path:
    """Return the folder of the sockets; create it if necessary. Raises `SharingError`."""
    folder = _run_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise SharingError(f"{folder} is not a folder of yours.")
        if stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise SharingError(f"{folder} cannot be used: {error.strerror}.") from None
    return folder


def _run_folder() -> Path:
    return home_folder() / "run"


def socket_path(pid: int) -> Path:
    """Return the path of a process's socket. Raises `SharingError`."""
    path = share_folder() / f"{pid}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SharingError(f"the path {path} is too long for a socket.")
    return path


def peer_uid(connection: socket.socket) -> int:
    """Return the user id at the other end."""
    if sys.platform == "darwin":
        _, uid = struct.unpack("2I", connection.getsockopt(0, _LOCAL_PEERCRED, 8))
        return int(uid)
    _, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return int(uid)


def running_sessions() -> list[RunningSession]:
    """Return the running sessions, and remove sockets left by crashes. Raises `SharingError`."""
    return list(_answering(share_folder())) if _run_folder().exists() else []


def session_for(name: str | None, project: Path) -> RunningSession:
    """Return the only session with a name or process id, or in a project. Raises `SharingError` if
    there are none or several."""
    running = running_sessions()
    if name is not None:
        found = [session for session in running if name in (session.name, str(session.pid))]
        what = f"called {name}"
    else:
        found = [
            session
            for session in running
            if Path(session.project) == project or Path(session.project) in project.parents
        ]
        nearest = max((len(session.project) for session in found), default=0)
        found = [session for session in found if len(session.project) == nearest]
        what = f"of {project}"
    if len(found) == 1:
        return found[0]
    others = (
        "; ".join(
            f"{session.name} ({session.pid}) in {session.project}" for session in found or running
        )
        or "none"
    )
    if found:
        raise SharingError(
            f"Several sessions are {what}. Choose one by its name or process id: {others}."
        )
    raise SharingError(
        f"No session on a screen is {what}. Running: {others}. mahtab-tui opens one there."
    )


def _answering(folder: Path) -> Iterator[RunningSession]:
    for path in sorted(folder.glob("*.sock"), key=lambda path: path.name):
        try:
            answer = next(_frames(path, "probe", PATIENCE), None)
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                path.unlink()
            continue
        except (OSError, FrameError):
            continue
        if answer is not None:
            agents = [str(agent) for agent in answer["agents"]]
            yield RunningSession(
                str(answer["name"]), str(answer["project"]), int(answer["pid"]), agents, path
            )


def _frames(path: Path, op: str, patience: float | None = None) -> Iterator[Frame]:
    """Ask a session for something, and yield what it sends. patience: for each piece. Raises
    `OSError`, `FrameError`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        connection.connect(str(path))
        connection.sendall(encode({"op": op}))
        reader = FrameReader()
        while data := connection.recv(65536):
            yield from reader.feed(data)


def record_frame(record: Record) -> Frame:
    return {"op": "record", **as_json(record)}


def follow(running: RunningSession) -> Iterator[Record]:
    """Yield the recent records of a session, then new ones until it ends. Raises `OSError` if it
    cannot be reached."""
    with contextlib.suppress(FrameError):  # the session is damaged, or not a session
        for frame in _frames(running.path, "watch"):
            with contextlib.suppress(InvalidRecord):
                if frame.get("op") == "record" and (record := from_json(frame)) is not None:
                    yield record
