"""Shares a session on a screen with agents and other terminals of the same user."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from mahtab_tui.bus.codec import as_json
from mahtab_tui.kernel.requests import Answers
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.broadcast import Feed
from mahtab_tui.session.joined_agents import AgentCall, JoinedAgent
from mahtab_tui.session.running_sessions import (
    AGENT_SOCKET,
    RECEIVE_BYTES,
    SharingError,
    share_folder,
)
from mahtab_tui.session.session import Session
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

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

_agent_numbers = itertools.count(1)
"""Numbers the sockets of agents that answer, because a process may have several sessions."""
_LOCAL_PEERCRED = 1
"""The option of a socket on macOS for the user id of its peer."""


def peer_uid(connection: socket.socket) -> int:
    """Return the id of the user whose process is at the other end of a connection."""
    if sys.platform == "darwin":
        # struct xucred begins with a version and the user id.
        uid = struct.unpack("2I", connection.getsockopt(0, _LOCAL_PEERCRED, 8))[1]
    else:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


class AgentService:
    """Serves the connections of a session's agents and watchers."""

    def __init__(self, session: Session, project: Path, *, model_name: str = "") -> None:
        """Create a service without connections.

        Args:
            session: The session.
            project: The folder by which agents find it.
            model_name: The name of the agent that answers the session's questions, whom alone the
                service is for; empty if it is for others.
        """
        self.session = session
        self.model_name = model_name
        self._project = project
        self.calls = AgentCalls(session)
        self._peers: set[_Peer] = set()

    def serve(self, connected: socket.socket) -> None:
        """Serve a peer in another process, on a thread."""
        peer = _SocketPeer(connected, self)
        self._peers.add(peer)
        start_thread("share-agent", peer.serve)

    def connect(self, receive: Callable[[Frame], object]) -> LocalPeer:
        """Return the peer of the agent to whom the session belongs, and whose server runs in this
        process. receive: called with each frame for the agent, on any thread."""
        peer = LocalPeer(self, receive)
        self._peers.add(peer)
        return peer

    # Called by peers

    def describe(self) -> Frame:
        """Return what programs that look for sessions learn of this one."""
        return {
            "op": "session",
            "name": self.session.name,
            "project": str(self._project),
            "pid": os.getpid(),
            "agents": self.session.joined_agents.names,
        }

    def on_disconnect(self, peer: _Peer, agent: JoinedAgent | None) -> None:
        """Forget a peer, and remove its agent from the session."""
        self._peers.discard(peer)
        if agent is not None:
            self.session.joined_agents.remove(agent)


class ShareServer(AgentService):
    """Listens on a socket while its session is on the screen, or an agent answers in it."""

    def __init__(self, session: Session, project: Path, *, model_name: str = "") -> None:
        """Begin to listen, on a thread; the arguments are those of `AgentService`. Others do not
        find the socket of the agent that answers. Raises `SharingError`."""
        super().__init__(session, project, model_name=model_name)
        self._closed = threading.Event()
        name = f"{os.getpid()}.sock"
        if model_name:
            name = f"{os.getpid()}-{next(_agent_numbers)}{AGENT_SOCKET}"
        self.path = share_folder() / name
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise SharingError(f"the path {self.path} is too long for a socket.")
        # Renamed once it listens: programs that look for sessions remove silent sockets.
        draft = self.path.with_suffix(".new")
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            draft.unlink(missing_ok=True)
            self._listener.bind(str(draft))
            draft.chmod(0o600)
            self._listener.listen(16)
            draft.replace(self.path)
        except OSError as error:
            self._listener.close()
            raise SharingError(f"{self.path} cannot be made: {error.strerror}.") from None
        start_thread("share", self._accept)

    def close(self) -> None:
        """Stop listening, and disconnect all agents and watchers."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with suppress(OSError):
            self.path.unlink()
        for peer in list(self._peers):
            peer.disconnect("The session was closed: its screen is gone.")

    def cancel_calls(self) -> None:
        """Cancel the open calls of all agents, because the user has stopped the question."""
        for peer in list(self._peers):
            peer.cancel_calls()

    def _accept(self) -> None:
        """Accept the connections of the same user until the server is closed. Runs on a thread."""
        while not self._closed.is_set():
            try:
                accepted = self._listener.accept()[0]
            except OSError:
                # The socket is closed, or the program has run out of file descriptors.
                self._closed.wait(ACCEPT_RETRY_S)
                continue
            if peer_uid(accepted) != os.getuid():
                accepted.close()
                continue
            self.serve(accepted)


class _Peer(ABC):
    """An agent or a watcher that is connected to a session. Each of its calls is served on a thread."""

    def __init__(self, server: AgentService, *, owns_session: bool) -> None:
        self._server = server
        self._session = server.session
        self._owns_session = owns_session
        self._agent: JoinedAgent | None = None
        """The agent at the other end; None for a watcher, and before it has joined."""
        self._answers = Answers(self._send)
        self._feed: Feed | None = None
        """The records for a watcher."""

    @abstractmethod
    def disconnect(self, sentence: str) -> None:
        """End the connection. sentence: tells the agent why."""

    @abstractmethod
    def _send(self, frame: Frame) -> None:
        """Send a frame, unless the peer has gone. Raises `FrameError` if the frame is too large."""

    def handle(self, frame: Frame) -> None:
        """Do what a frame of the peer asks. Raises `KeyError`, `TypeError` or `ValueError` if it is
        malformed."""
        op = frame["op"]
        is_new = self._agent is None and self._feed is None
        if op == "probe":
            self._send(self._server.describe())
        elif op == "join" and is_new:
            newest_cell = next(reversed(self._session.cells.finished), None)
            model_name = self._server.model_name
            self._agent = self._session.joined_agents.join(
                model_name or str(frame["name"]),
                self.disconnect,
                newest_cell,
                owns_session=self._owns_session,
                is_model=bool(model_name),
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

    def cancel_calls(self) -> None:
        """Cancel the open calls."""
        if self._agent is not None:
            for call in list(self._agent.calls):
                call.cancel()

    def _send_records(self, feed: Feed) -> None:
        """Send records to a watcher until the feed ends. Runs on a thread."""
        while (record := feed.get()) is not None:
            # A record that is too large for a frame is left out.
            with suppress(FrameError):
                self._send({"op": "record", **as_json(record)})

    def _end(self) -> None:
        """Forget the peer, because its connection is gone."""
        if self._feed is not None:
            self._session.broadcast.unwatch(self._feed)
        self._server.on_disconnect(self, self._agent)


class _SocketPeer(_Peer):
    """An agent or a watcher in another process. A thread reads what it sends."""

    def __init__(self, accepted: socket.socket, server: AgentService) -> None:
        super().__init__(server, owns_session=False)
        self._socket = accepted
        self._sending = threading.Lock()
        """Held while a frame is sent."""
        self._leaving = False
        """Whether the connection is being closed, so that frames are no longer handled."""
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
                        self.handle(frame)
        except (OSError, FrameError, KeyError, TypeError, ValueError):
            pass  # the peer does not speak the protocol, or has closed the connection
        finally:
            self._end()
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

    def _send(self, frame: Frame) -> None:
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


class LocalPeer(_Peer):
    """The agent whose server runs in the session's own process. Frames are passed to it as they are,
    because a socket, JSON and a thread that reads would take longer than a short cell."""

    def __init__(self, server: AgentService, receive: Callable[[Frame], object]) -> None:
        """Create a peer that has not joined. receive: see `AgentService.connect`."""
        self._receive = receive
        super().__init__(server, owns_session=True)

    def disconnect(self, sentence: str) -> None:
        self._send({"op": "bye", "text": sentence})
        self._end()

    def close(self) -> None:
        """Leave the session."""
        self._end()

    def _send(self, frame: Frame) -> None:
        self._receive(frame)
