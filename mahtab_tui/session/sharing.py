"""Shares a session with agents and other terminals of the same user."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import socket
import stat
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.codec import InvalidRecord, as_json, from_json, stream_key
from mahtab_tui.bus.records import Display, Record, Stream, UserAttachment, get_record
from mahtab_tui.kernel.requests import Answers
from mahtab_tui.session.agent_calls import AgentCall, AgentCalls, JoinedAgent
from mahtab_tui.session.cells import output_records, unfinished_cells
from mahtab_tui.settings.model import home_folder
from mahtab_tui.system import start_thread
from mahtab_tui.worker.frames import Frame, FrameError, FrameReader, encode

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session

WAITING = 10_000
"""Maximum records queued for a watcher; one that reads too slowly misses some."""

BACKLOG = 2_000
CHARACTERS = 20_000_000
"""Maximum number and characters of recent records to keep."""

JOINED, PIECES = 100_000, 100
"""Characters up to which pieces of a stream are joined to one record, and how many are kept."""

Feed = queue.Queue[Record | None]
"""None marks the end."""


class Broadcast(logging.Handler):
    """Keeps the recent records of a session and passes new ones to the watchers."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._mutex = threading.Lock()
        """A new watcher gets each record exactly once."""
        self._past: deque[Record] = deque()
        self._open_streams: dict[str, deque[Stream]] = {}
        self._characters = 0
        self._feeds: set[Feed] = set()
        for record in past:
            self._store(record)

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        with self._mutex:
            for feed in self._feeds:
                with suppress(queue.Full):
                    feed.put_nowait(value)
            self._store(value)

    def watch(self) -> Feed:
        """Return a feed of the recent records, followed by new ones."""
        feed: Feed = queue.Queue(WAITING)
        with self._mutex:
            for each in itertools.chain(self._past, *self._open_streams.values()):
                feed.put_nowait(each)
            self._feeds.add(feed)
        return feed

    def unwatch(self, feed: Feed) -> None:
        with self._mutex:
            self._feeds.discard(feed)
        feed.put(None)

    def _store(self, record: Record) -> None:
        key = stream_key(record)
        if not isinstance(record, Stream):
            self._open_streams.pop(key, None)
            self._past.append(record)
            self._characters += _record_size(record)
            while len(self._past) > BACKLOG or self._characters > CHARACTERS:
                self._characters -= _record_size(self._past.popleft())
        elif isinstance(record, records.AssistantChatStream) and record.fresh:
            self._open_streams.pop(key, None)
        elif key:
            pieces = self._open_streams.setdefault(key, deque(maxlen=PIECES))
            if pieces and pieces[-1].stream == record.stream and len(pieces[-1].text) < JOINED:
                pieces[-1] = pieces[-1].changed(text=pieces[-1].text + record.text)
            else:
                pieces.append(record)


def past_for_watchers(past: Sequence[Record], *, same_kernel: bool) -> Iterator[Record]:
    """Yield the records of a resumed session that watchers get. same_kernel: unfinished cells
    continue."""
    for record in past:
        # Pending requests are sent again if they still wait.
        if not isinstance(record, records.Approval | records.Input) or record.state != "waiting":
            yield record
    if past and not same_kernel:
        for cell in unfinished_cells(past):
            yield output_records(cell)[1](cell=cell.cell, cut=True)
    if past:
        # This kernel's variables are reported when they are listed.
        yield records.Namespace(fresh=True, cell=0)


def _record_size(record: Record) -> int:
    data = record.data if isinstance(record, Display | UserAttachment) else ""
    return len(record.text) + len(data or "")


REPLY_SECONDS = 2.0
"""Seconds for answering a probe."""

LONGEST_PATH = 100
"""Bytes of a socket's path; systems allow only slightly more."""

_LOCAL_PEERCRED = 1
"""macOS: the peer's user id."""


class SharingError(Exception):
    """The message is a sentence."""


class RunningSession(NamedTuple):
    name: str
    project: str
    pid: int
    agents: list[str]
    path: Path

    def sentence(self) -> str:
        agents = f"  with {', '.join(self.agents)}" if self.agents else ""
        return f"{self.name}  {self.pid}  {self.project}{agents}"


def share_folder() -> Path:
    """Return the folder of the sockets. Raises `SharingError`."""
    folder = home_folder() / "run"
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


def peer_uid(connection: socket.socket) -> int:
    if sys.platform == "darwin":
        return int(struct.unpack("2I", connection.getsockopt(0, _LOCAL_PEERCRED, 8))[1])
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", peer)[1])


def running_sessions() -> list[RunningSession]:
    """Return the running sessions, and remove sockets left by crashes. Raises `SharingError`."""
    return list(_find_running(share_folder())) if (home_folder() / "run").exists() else []


def find_session(name: str | None, project: Path) -> RunningSession:
    """Return the only session with a name or process id, or in a project. Raises `SharingError`."""
    running = running_sessions()
    if name is not None:
        found = [each for each in running if name in (each.name, str(each.pid))]
        what = f"called {name}"
    else:
        folders = {str(project), *map(str, project.parents)}
        found = [each for each in running if each.project in folders]
        nearest = max((len(each.project) for each in found), default=0)
        found = [each for each in found if len(each.project) == nearest]
        what = f"of {project}"
    if len(found) == 1:
        return found[0]
    listed = (f"{each.name} ({each.pid}) in {each.project}" for each in found or running)
    others = "; ".join(listed) or "none"
    text = f"No session on a screen is {what}. Running: {others}. mahtab-tui opens one there."
    if found:
        text = f"Several sessions are {what}. Choose one by its name or process id: {others}."
    raise SharingError(text)


def _find_running(folder: Path) -> Iterator[RunningSession]:
    for path in sorted(folder.glob("*.sock"), key=lambda path: path.name):
        try:
            answer = next(_request_frames(path, "probe", REPLY_SECONDS), None)
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(OSError):
                path.unlink()
            continue
        except (OSError, FrameError):
            continue
        if answer is not None:
            name, project, pid = str(answer["name"]), str(answer["project"]), int(answer["pid"])
            yield RunningSession(name, project, pid, list(map(str, answer["agents"])), path)


def _request_frames(path: Path, op: str, patience: float | None = None) -> Iterator[Frame]:
    """patience: seconds for each frame."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience)
        connection.connect(str(path))
        connection.sendall(encode({"op": op}))
        reader = FrameReader()
        while data := connection.recv(65536):
            yield from reader.feed(data)


def follow_session(running: RunningSession) -> Iterator[Record]:
    """Yield the recent records of a session, then new ones until it ends. Raises `OSError`."""
    with suppress(FrameError):  # the session is damaged, or not a session at all
        for frame in _request_frames(running.path, "watch"):
            with suppress(InvalidRecord):
                if frame.get("op") == "record" and (record := from_json(frame)) is not None:
                    yield record


SEND_TIMEOUT = 5
"""Seconds for an agent to read; a slower one is disconnected."""

CLOSE_SECONDS = 1.0
"""Seconds for a disconnected agent to read why."""

RETRY_SECONDS = 0.1
"""Seconds after accepting a connection failed."""

LARGEST = 64 * 1024 * 1024
"""Maximum bytes of an agent's message."""


class AgentService:
    def __init__(self, session: Session, project: Path) -> None:
        """project: the folder by which agents find the session."""
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
        if len(os.fsencode(self._path)) > LONGEST_PATH:
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
                self._closed.wait(RETRY_SECONDS)
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
        self._agent: JoinedAgent | None = None
        self._answers = Answers(self._send)
        self._feed: Feed | None = None
        self._leaving = False
        self._ended = threading.Event()
        limit = struct.pack("ll", SEND_TIMEOUT, 0)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def serve(self) -> None:
        reader = FrameReader(LARGEST)
        try:
            while data := self._socket.recv(65536):
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
            self._ended.wait(CLOSE_SECONDS)
            self._socket.shutdown(socket.SHUT_RDWR)

    def _handle(self, frame: Frame) -> None:
        op, is_new = frame["op"], self._agent is None and self._feed is None
        if op == "probe":
            self._send(self._server.describe())
        elif op == "join" and is_new:
            newest = next(reversed(self._session.cells.finished), None)
            self._agent = self._session.joined_agents.join(
                str(frame["name"]), self.disconnect, newest, owns_session=self._owns_session
            )
            self._send({**self._server.describe(), "you": self._agent.name})
        elif op == "watch" and is_new:
            self._feed = self._session.broadcast.watch()
            start_thread("share-watch", self._send_records, self._feed)
        elif op == "cancel":
            self._answers.cancel(int(frame["id"]))
        elif op == "call" and self._agent is not None:
            number = int(frame["id"])
            call = AgentCall(self._agent, lambda frame: self._send({**frame, "id": number}))
            what, args = str(frame["what"]), dict(frame["args"])
            serve = partial(self._server.calls.serve, call, what, args)
            self._answers.start(number, serve, call.cancel)

    def _send_records(self, feed: Feed) -> None:
        while (record := feed.get()) is not None:
            with suppress(FrameError):
                self._send({"op": "record", **as_json(record)})

    def _send(self, frame: Frame) -> None:
        """Ignores a peer that has gone. Raises `FrameError` if the frame is too large."""
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
