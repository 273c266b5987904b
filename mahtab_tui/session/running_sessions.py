"""Finds the sessions on screens of the same user, by the sockets on which they listen, and follows one
of them."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.codec import InvalidRecord, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

PROBE_TIMEOUT_S = 2.0
"""Seconds that a session may take to say that it is there."""
AGENT_SOCKET = ".agent"
"""The end of the name of a socket for the agent that answers in a session. It begins with the
session's process id."""
RECEIVE_BYTES = 65_536
"""Bytes to read from a socket at once."""


class SharingError(Exception):
    """Sessions cannot be shared or found. The message is a sentence."""


class RunningSession(NamedTuple):
    """A session on a screen."""

    name: str
    project: str
    """The folder to which it belongs."""
    pid: int
    agents: list[str]
    """The names of the agents in it."""
    path: Path
    """The socket on which it listens."""

    def sentence(self) -> str:
        """Return a line for a list of sessions."""
        agents = f"  with {', '.join(self.agents)}" if self.agents else ""
        return f"{self.name}  {self.pid}  {self.project}{agents}"


def running_sessions() -> list[RunningSession]:
    """Return the running sessions, and remove sockets left by crashes. Raises `SharingError`."""
    if not (home_folder() / "run").exists():
        return []
    return list(_find_running(share_folder()))


def find_session(name: str | None, project: Path) -> RunningSession:
    """Return the only session with a name or process id, or for a folder.

    Args:
        name: The name or the process id; None to look for the session of the folder.
        project: The folder: one of its sessions, or else one of the nearest folder above it.

    Raises:
        SharingError: There is no such session, or several.
    """
    sessions = running_sessions()
    if name is None:
        matches = _nearest_sessions(sessions, project)
        description = f"of {project}"
    else:
        matches = [session for session in sessions if name in (session.name, str(session.pid))]
        description = f"called {name}"
    if len(matches) == 1:
        return matches[0]

    choices = [
        f"{session.name} ({session.pid}) in {session.project}" for session in matches or sessions
    ]
    choice_list = "; ".join(choices) or "none"
    if matches:
        raise SharingError(
            f"Several sessions are {description}."
            f" Choose one by its name or process id: {choice_list}."
        )
    raise SharingError(
        f"No session on a screen is {description}. Running: {choice_list}."
        " mahtab-tui opens one there."
    )


def _nearest_sessions(sessions: Sequence[RunningSession], folder: Path) -> list[RunningSession]:
    """Return the sessions of a folder, or else of the nearest folder above it."""
    folders = {str(folder), *map(str, folder.parents)}
    matches = [session for session in sessions if session.project in folders]
    nearest_length = max((len(session.project) for session in matches), default=0)
    return [session for session in matches if len(session.project) == nearest_length]


def follow_session(running: RunningSession) -> Iterator[Record]:
    """Yield the recent records of a session, then new ones until it ends. Raises `OSError`."""
    # A `FrameError` means that the session is damaged, or not a session at all.
    with suppress(FrameError):
        for frame in _request_frames(running.path, "watch"):
            if frame.get("op") != "record":
                continue
            with suppress(InvalidRecord):
                record = from_json(frame)
                if record is not None:
                    yield record


def remove_leftovers() -> None:
    """Remove unused lock files and sockets. Waits for sockets."""
    locked_sessions()
    with suppress(SharingError):
        running_sessions()
    for path in (home_folder() / "run").glob(f"*{AGENT_SOCKET}"):
        try:
            os.kill(int(path.name.partition("-")[0]), 0)
        except (ProcessLookupError, ValueError):
            path.unlink(missing_ok=True)
        except OSError:
            pass  # of another user


def share_folder() -> Path:
    """Return the folder of the sockets. Raises `SharingError`."""
    folder = home_folder() / "run"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise SharingError(f"{folder} is not a folder of yours.")
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise SharingError(f"{folder} cannot be used: {error.strerror}.") from None
    return folder


def _find_running(folder: Path) -> Iterator[RunningSession]:
    """Yield the sessions that answer on the sockets in a folder, and remove sockets of no session."""
    for path in sorted(folder.glob("*.sock"), key=lambda path: path.name):
        try:
            answer = next(_request_frames(path, "probe", PROBE_TIMEOUT_S), None)
        except (ConnectionRefusedError, FileNotFoundError):
            # Nobody listens: the program was killed before it could remove the socket.
            with suppress(OSError):
                path.unlink()
            continue
        except (OSError, FrameError):
            continue
        if answer is not None:
            yield RunningSession(
                name=str(answer["name"]),
                project=str(answer["project"]),
                pid=int(answer["pid"]),
                agents=list(map(str, answer["agents"])),
                path=path,
            )


def _request_frames(path: Path, op: str, timeout: float | None = None) -> Iterator[Frame]:
    """Send a request to a session, and yield the frames of its answer.

    Args:
        path: The socket of the session.
        op: What is requested.
        timeout: Seconds for each frame; None for no limit.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(encode({"op": op}))
        reader = FrameReader()
        while data := connection.recv(RECEIVE_BYTES):
            yield from reader.feed(data)
