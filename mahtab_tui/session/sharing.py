"""Shares a session with agents and other terminals of the same user."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.codec import InvalidRecord, as_json, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.requests import Answers
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.broadcast import Feed
from mahtab_tui.session.joined_agents import AgentCall, JoinedAgent
from mahtab_tui.session.session import Session
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

PROBE_TIMEOUT_S = 2.0
"""Seconds for answering a probe."""
SEND_TIMEOUT_S = 5
"""Seconds for an agent to read; a slower one is disconnected."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds for a disconnected agent to read why."""
ACCEPT_RETRY_S = 0.1
"""Seconds to wait after accepting a connection failed."""

MAX_PATH_BYTES = 100
"""Bytes of a socket's path; systems allow only slightly more."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Bytes of an agent's message."""
RECEIVE_BYTES = 65_536
"""Bytes to read from a socket at once."""

_LOCAL_PEERCRED = 1
"""macOS: the socket option for the peer's user id."""


class SharingError(Exception):
    """Sessions cannot be shared or found. The message is a sentence."""


class RunningSession(NamedTuple):
    """A session on a screen, and the socket on which it listens."""

    name: str
    project: str
    pid: int
    agents: list[str]
    path: Path

    def sentence(self) -> str:
        """Return a line for a list of sessions."""
        agents = f"  with {', '.join(self.agents)}" if self.agents else ""
        return f"{self.name}  {self.pid}  {self.project}{agents}"


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


def peer_uid(connection: socket.socket) -> int:
    """Return the id of the user whose process is at the other end of a connection."""
    if sys.platform == "darwin":
        # struct xucred begins with a version and the user id.
        _, uid = struct.unpack("2I", connection.getsockopt(0, _LOCAL_PEERCRED, 8))
    else:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def running_sessions() -> list[RunningSession]:
    """Return the running sessions, and remove sockets left by crashes. Raises `SharingError`."""
    if not (home_folder() / "run").exists():
        return []
    return list(_find_running(share_folder()))


def remove_leftovers() -> None:
    """Remove unused lock files and sockets. Waits for sockets."""
    locked_sessions()
    with suppress(SharingError):
        running_sessions()


def find_session(name: str | None, project: Path) -> RunningSession:
    """Return the only session with a name or process id, or in a project. Raises `SharingError`."""
    sessions = running_sessions()
    if name is not None:
        matches = [session for session in sessions if name in (session.name, str(session.pid))]
        description = f"called {name}"
    else:
        # The session of the nearest folder that contains the project.
        folders = {str(project), *map(str, project.parents)}
        matches = [session for session in sessions if session.project in folders]
        nearest_length = max((len(session.project) for session in matches), default=0)
        matches = [session for session in matches if len(session.project) == nearest_length]
        description = f"of {project}"
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


def _find_running(folder: Path) -> Iterator[RunningSession]:
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
                str(answer["name"]),
                str(answer["project"]),
                int(answer["pid"]),
                list(map(str, answer["agents"])),
                path,
            )


def _request_frames(path: Path, op: str, timeout: float | None = None) -> Iterator[Frame]:
    """Send a request to a session, and yield the frames of its answer. timeout: seconds for each
    frame; None for no limit."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(encode({"op": op}))
        reader = FrameReader()
        while data := connection.recv(RECEIVE_BYTES):
            yield from reader.feed(data)


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


class AgentService:
    """Serves the connections of a session's agents and watchers."""

    def __init__(self, session: Session, project: Path) -> None:
        """Create a service without connections. project: the folder by which agents find the
        session."""
        self.session = session
        self._project = project
        self.calls = AgentCalls(session)
        self._connections: set[_Connection] = set()

    def serve(self, connected: socket.socket, *, owns_session: bool = False) -> None:
        """Serve a peer on a thread. owns_session: it is an agent, and the session is its own."""
        connection = _Connection(connected, self, owns_session=owns_session)
        self._connections.add(connection)
        start_thread("share-agent", connection.serve)

    # Called by connections

    def describe(self) -> Frame:
        return {
            "op": "session",
            "name": self.session.name,
            "project": str(self._project),
            "pid": os.getpid(),
            "agents": self.session.joined_agents.names,
        }

    def on_disconnect(self, connection: _Connection, agent: JoinedAgent | None) -> None:
        self._connections.discard(connection)
        if agent is not None:
            self.session.joined_agents.remove(agent)


class ShareServer(AgentService):
    """Listens on a socket while its session is on the screen."""

    def __init__(self, session: Session, project: Path) -> None:
        super().__init__(session, project)
        self._closed = threading.Event()
        self._path = share_folder() / f"{os.getpid()}.sock"
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            raise SharingError(f"the path {self._path} is too long for a socket.")
        # Renamed once it listens: programs that look for sessions remove silent sockets.
        draft = self._path.with_suffix(".new")
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            draft.unlink(missing_ok=True)
            self._listener.bind(str(draft))
            draft.chmod(0o600)
            self._listener.listen(16)
            draft.replace(self._path)
        except OSError as error:
            self._listener.close()
            raise SharingError(f"{self._path} cannot be made: {error.strerror}.") from None
        start_thread("share", self._accept)

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with suppress(OSError):
            self._path.unlink()
        for connection in list(self._connections):
            connection.disconnect("The session was closed: its screen is gone.")

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                # The socket is closed, or the program has run out of file descriptors.
                self._closed.wait(ACCEPT_RETRY_S)
                continue
            if peer_uid(accepted) != os.getuid():
                accepted.close()
                continue
            self.serve(accepted)


class _Connection:
    """An agent's connection. One thread reads, and each call is served on another."""

    def __init__(
        self, accepted: socket.socket, server: AgentService, *, owns_session: bool
    ) -> None:
        self._socket = accepted
        self._owns_session = owns_session
        self._server = server
        self._session = server.session
        self._sending = threading.Lock()
        """Held while a frame is sent."""
        self._agent: JoinedAgent | None = None
        """The agent at the other end; None for a watcher, and before it has joined."""
        self._answers = Answers(self._send)
        self._feed: Feed | None = None
        """The records for a watcher."""
        self._leaving = False
        self._ended = threading.Event()
        # A struct timeval: seconds and microseconds.
        send_timeout = struct.pack("ll", SEND_TIMEOUT_S, 0)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, send_timeout)

    def serve(self) -> None:
        """Read and handle frames until the connection ends. Runs on a thread."""
        reader = FrameReader(MAX_MESSAGE_BYTES)
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                for frame in reader.feed(data):
                    if not self._leaving:
                        self._handle(frame)
        except (OSError, FrameError, KeyError, TypeError, ValueError):
            pass  # the peer does not speak the protocol, or has closed the connection
        finally:
            if self._feed is not None:
                self._session.broadcast.unwatch(self._feed)
            self._server.on_disconnect(self, self._agent)
            self._socket.close()
            self._ended.set()

    def disconnect(self, sentence: str) -> None:
        """Close the connection, and briefly wait until the agent has read why."""
        self._leaving = True
        self._send({"op": "bye", "text": sentence})
        with suppress(OSError):
            # Keep receiving briefly: an agent whose write fails would never read the sentence.
            self._socket.shutdown(socket.SHUT_WR)
            self._ended.wait(CLOSE_TIMEOUT_S)
            self._socket.shutdown(socket.SHUT_RDWR)

    def _handle(self, frame: Frame) -> None:
        op = frame["op"]
        is_new = self._agent is None and self._feed is None
        if op == "probe":
            self._send(self._server.describe())
        elif op == "join" and is_new:
            newest_cell = next(reversed(self._session.cells.finished), None)
            self._agent = self._session.joined_agents.join(
                str(frame["name"]), self.disconnect, newest_cell, owns_session=self._owns_session
            )
            self._send({**self._server.describe(), "you": self._agent.name})
        elif op == "watch" and is_new:
            self._feed = self._session.broadcast.watch()
            start_thread("share-watch", self._send_records, self._feed)
        elif op == "cancel":
            self._answers.cancel(int(frame["id"]))
        elif op == "call" and self._agent is not None:
            number = int(frame["id"])
            call = AgentCall(
                self._agent,
                lambda frame: self._send({**frame, "id": number}),
                is_logged=bool(frame.get("logged", True)),
            )
            serve = partial(self._server.calls.serve, call, str(frame["what"]), dict(frame["args"]))
            self._answers.start(number, serve, call.cancel)

    def _send_records(self, feed: Feed) -> None:
        """Send records to a watcher until the feed ends. Runs on a thread."""
        while (record := feed.get()) is not None:
            # A record that is too large for a frame is left out.
            with suppress(FrameError):
                self._send({"op": "record", **as_json(record)})

    def _send(self, frame: Frame) -> None:
        """Send a frame; ignores a peer that has gone. Raises `FrameError` if it is too large."""
        try:
            data = encode(frame)
        except FrameError as error:
            raise FrameError(f"The answer cannot be sent: {error}.") from None
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
