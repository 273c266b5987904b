"""Shares a session on a screen with agents and other terminals of the same user."""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from mahtab_tui.bus.codec import as_json
from mahtab_tui.kernel.call_answers import Answers
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

SEND_TIMEOUT_S = 5.0
"""Seconds in which a peer must read a whole frame; a slower one is disconnected."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds for all peers that are disconnected together to read the reason."""
ACCEPT_RETRY_S = 0.1
"""Seconds to wait after accepting a connection failed."""

MAX_PATH_BYTES = 100
"""Bytes of a socket's path; systems allow only slightly more."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Bytes of an agent's message."""
MAX_QUOTED_CHARS = 40
"""Characters of an unknown request that an error quotes."""

_SESSION_CLOSED = "The session has closed."
_LOCAL_PEERCRED = 1
"""macOS socket option that returns the peer's credentials."""
_XUCRED_START = struct.Struct("2I")
"""The beginning of macOS's struct xucred: its version, and the user id."""
_UCRED = struct.Struct("3i")
"""Linux's struct ucred: process id, user id and group id."""


class RequestError(ValueError):
    """A peer asks for something that the session does not do. The message is for the agent."""


def peer_uid(connection: socket.socket) -> int:
    """Return the id of the user whose process is at the other end of a connection.

    Raises `OSError`.
    """
    if sys.platform == "darwin":
        xucred = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_START.size)
        _, uid = _XUCRED_START.unpack(xucred)
    else:
        ucred = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _, uid, _ = _UCRED.unpack(ucred)
    return int(uid)


class AgentService:
    """Serves the connections of a session's agents and watchers."""

    def __init__(self, session: Session, project: Path, *, model_name: str = "") -> None:
        """Create a service without connections.

        Args:
            session: The session.
            project: The folder by which agents find it.
            model_name: Set if the service is only for the agent that answers the session's questions:
                its name.
        """
        self.session = session
        self.model_name = model_name
        self.calls = AgentCalls(session)
        self._project = project
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._peers: set[_Peer] = set()
        self._is_closed = False

    def serve(self, connection: socket.socket) -> None:
        """Serve a peer in another process, on a thread.

        Close the connection if the session has closed. Raises `RuntimeError` if no thread can be
        started.
        """
        peer = _SocketPeer(connection, self)
        with self._lock:
            if self._is_closed:
                connection.close()
                return
            self._peers.add(peer)
        try:
            start_thread("share-agent", peer.serve)
        except RuntimeError:
            self.remove_peer(peer)
            raise

    def connect(self, receive: Callable[[Frame], object]) -> LocalPeer:
        """Return the peer of the agent that owns the session, and whose server runs in this process.

        Args:
            receive: Called with each frame for the agent, on any thread.
        """
        peer = LocalPeer(self, receive)
        with self._lock:
            self._peers.add(peer)
        return peer

    def describe(self) -> Frame:
        """Return what programs that look for sessions learn of this one."""
        return {
            "op": "session",
            "name": self.session.name,
            "project": str(self._project),
            "pid": os.getpid(),
            "agents": self.session.joined_agents.names,
        }

    def remove_peer(self, peer: _Peer) -> bool:
        """Forget a peer whose connection is gone. Return False if it is forgotten already."""
        with self._lock:
            if peer not in self._peers:
                return False
            self._peers.remove(peer)
            return True

    def cancel_calls(self) -> None:
        """Cancel the open calls of all agents, because the user has stopped the question."""
        for peer in self._list_peers():
            peer.cancel_calls()

    def disconnect_all(self) -> None:
        """Disconnect all peers, and admit no more."""
        with self._lock:
            self._is_closed = True
        peers = self._list_peers()
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        for peer in peers:
            peer.say_goodbye(_SESSION_CLOSED, deadline)
        for peer in peers:
            peer.end_connection(deadline)

    def _list_peers(self) -> list[_Peer]:
        with self._lock:
            return list(self._peers)


class ShareServer(AgentService):
    """Listens on a socket while its session is on the screen, or an agent answers in it.

    Others do not find the socket of the agent that answers.
    """

    def __init__(self, session: Session, project: Path, *, model_name: str = "") -> None:
        """Create a server that does not listen yet; the arguments are those of `AgentService`.

        Raises `SharingError`.
        """
        super().__init__(session, project, model_name=model_name)
        self._closed = threading.Event()
        self._listener: socket.socket | None = None
        """None before `start`."""
        if model_name:
            # A process may have several sessions.
            name = f"{os.getpid()}-{secrets.token_hex(4)}{AGENT_SOCKET}"
        else:
            name = f"{os.getpid()}.sock"
        self.path = share_folder() / name
        """The socket."""
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise SharingError(f"the path {self.path} is too long for a socket.")

    def start(self) -> None:
        """Begin to listen, on a thread. Raises `SharingError`."""
        # Renamed once it listens: programs that look for sessions remove silent sockets.
        draft = self.path.with_suffix(".new")
        listener: socket.socket | None = None
        try:
            draft.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(draft))
            draft.chmod(0o600)
            listener.listen(16)
            draft.replace(self.path)
        except OSError as error:
            if listener is not None:
                listener.close()
            with suppress(OSError):
                draft.unlink()
            reason = error.strerror or error
            raise SharingError(f"{self.path} cannot be created: {reason}.") from None
        self._listener = listener
        start_thread("share", self._accept_connections)

    def close(self) -> None:
        """Stop listening, and disconnect all agents and watchers."""
        self._closed.set()
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            with suppress(OSError):
                self.path.unlink()
        self.disconnect_all()

    def _accept_connections(self) -> None:
        """Serve the connections of the same user until the server is closed. Runs on a thread."""
        assert self._listener is not None
        while not self._closed.is_set():
            try:
                connection = self._listener.accept()[0]
            except OSError:
                # The socket is closed, or the program has run out of file descriptors.
                self._closed.wait(ACCEPT_RETRY_S)
                continue
            try:
                if peer_uid(connection) == os.getuid():
                    self.serve(connection)
                else:
                    connection.close()
            except Exception:  # nobody above on this thread; it goes on with the next connection
                connection.close()


class _Peer(ABC):
    """An agent or a watcher that is connected to a session. Each of its calls is served on a thread."""

    def __init__(self, service: AgentService, *, owns_session: bool) -> None:
        self._service = service
        self._session = service.session
        self._owns_session = owns_session
        self._agent: JoinedAgent | None = None
        """The agent at the other end; None for a watcher, and before it has joined."""
        self._answers = Answers(self._send)
        self._feed: Feed | None = None
        """The records for a watcher."""

    def disconnect(self, sentence: str) -> None:
        """End the connection, and wait briefly until the agent has read the reason.

        Args:
            sentence: The reason, for the agent.
        """
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        self.say_goodbye(sentence, deadline)
        self.end_connection(deadline)

    @abstractmethod
    def say_goodbye(self, sentence: str, deadline: float) -> None:
        """Send the last frame.

        Args:
            sentence: The reason why the connection ends, for the agent.
            deadline: When (`time.monotonic`) to give up.
        """

    @abstractmethod
    def end_connection(self, deadline: float) -> None:
        """End the connection after `say_goodbye`.

        Args:
            deadline: Time (`time.monotonic`) after which the agent's reading is not waited for.
        """

    @abstractmethod
    def _send(self, frame: Frame) -> None:
        """Send a frame, unless the peer has gone. Raises `FrameError` if the frame is too large."""

    def handle(self, frame: Frame) -> None:
        """Do what a frame of the peer asks.

        Raises `KeyError`, `TypeError` or `ValueError` if it is malformed, and `RequestError` if it
        asks for something impossible.
        """
        match frame["op"]:
            case "probe":
                self._send(self._service.describe())
            case "join":
                self._join(frame)
            case "watch":
                self._watch()
            case "cancel":
                self._answers.cancel(int(frame["id"]))
            case "call":
                self._start_call(int(frame["id"]), frame)
            case op:
                quoted_op = str(op)[:MAX_QUOTED_CHARS]
                raise RequestError(f"The session does not know the request {quoted_op!r}.")

    def cancel_calls(self) -> None:
        """Cancel the open calls."""
        if self._agent is not None:
            for call in list(self._agent.calls):
                call.cancel()

    def _join(self, frame: Frame) -> None:
        """Let the peer join the session as an agent, and describe the session to it."""
        self._require_new()
        newest_cell = next(reversed(self._session.cells.finished), None)
        model_name = self._service.model_name
        self._agent = self._session.joined_agents.join(
            model_name or str(frame["name"]),
            self.disconnect,
            newest_cell,
            owns_session=self._owns_session,
            is_model=bool(model_name),
        )
        description = self._service.describe()
        calls = self._service.calls.names
        self._send({**description, "you": self._agent.name, "calls": calls})

    def _watch(self) -> None:
        """Send the session's records to the peer, on a thread."""
        self._require_new()
        self._feed = self._session.broadcast.watch()
        start_thread("share-watch", self._send_records, self._feed)

    def _require_new(self) -> None:
        """Raise `RequestError` if the peer has joined, or watches."""
        if self._agent is not None or self._feed is not None:
            raise RequestError("A connection can join or watch a session only once.")

    def _start_call(self, number: int, frame: Frame) -> None:
        """Serve a call of the agent, on a thread."""
        if self._agent is None:
            self._send({"op": "answer", "id": number, "error": "Join the session first."})
            return
        call = AgentCall(
            self._agent,
            lambda progress: self._send({**progress, "id": number}),
            is_logged=bool(frame.get("logged", True)),
        )
        serve = partial(self._service.calls.serve, call, str(frame["what"]), dict(frame["args"]))
        self._answers.start(number, serve, call.cancel)

    def _send_records(self, feed: Feed) -> None:
        """Send records to a watcher until the feed ends. Runs on a thread."""
        while (record := feed.get()) is not None:
            # A record that is too large for a frame is left out.
            with suppress(FrameError):
                self._send({"op": "record", **as_json(record)})

    def _leave_session(self) -> None:
        """Let the session forget the peer, because its connection is gone."""
        if not self._service.remove_peer(self):
            return
        if self._feed is not None:
            self._session.broadcast.unwatch(self._feed)
        if self._agent is not None:
            self._session.joined_agents.remove(self._agent)


class _SocketPeer(_Peer):
    """An agent or a watcher in another process. A thread reads what it sends."""

    def __init__(self, connection: socket.socket, service: AgentService) -> None:
        super().__init__(service, owns_session=False)
        self._socket = connection
        self._send_lock = threading.Lock()
        """Held while a frame is sent."""
        self._is_leaving = False
        """Whether the connection is being closed, so that frames are no longer handled."""
        self._ended = threading.Event()
        """Set when the connection has ended."""

    def serve(self) -> None:
        """Read and handle frames until the connection ends. Runs on a thread."""
        reader = FrameReader(MAX_MESSAGE_BYTES)
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                for frame in reader.feed(data):
                    if not self._is_leaving:
                        self.handle(frame)
        except RequestError as error:
            self.say_goodbye(str(error), time.monotonic() + CLOSE_TIMEOUT_S)
        except (OSError, FrameError, KeyError, TypeError, ValueError):
            pass  # the peer does not speak the protocol, or has closed the connection
        finally:
            self._leave_session()
            self._socket.close()
            self._ended.set()

    def say_goodbye(self, sentence: str, deadline: float) -> None:
        self._is_leaving = True
        self._send_until(deadline, {"op": "bye", "text": sentence})
        # Receiving goes on: an agent whose write fails would never read the sentence.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def end_connection(self, deadline: float) -> None:
        self._ended.wait(max(0.0, deadline - time.monotonic()))
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, frame: Frame) -> None:
        self._send_until(None, frame)

    def _send_until(self, deadline: float | None, frame: Frame) -> None:
        """Send a frame as `_send` does, and end the connection if that takes too long.

        Args:
            deadline: When (`time.monotonic`) to give up; None for `SEND_TIMEOUT_S` after the frames
                before it.
        """
        try:
            data = encode(frame)
        except FrameError as error:
            raise FrameError(f"The answer cannot be sent: {error}.") from None
        lock_timeout = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._send_lock.acquire(timeout=lock_timeout):
            return
        try:
            self._write(data, deadline or time.monotonic() + SEND_TIMEOUT_S)
        except (OSError, ValueError):  # a ValueError if the socket has been closed
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        finally:
            self._send_lock.release()

    def _write(self, data: bytes, deadline: float) -> None:
        """Write data. A timeout of the socket would begin again with each part that the peer reads.

        Raises:
            OSError, ValueError: The connection has ended.
            TimeoutError: It has not read all of it before `deadline` (`time.monotonic`).
        """
        unsent = memoryview(data)
        while True:
            with suppress(BlockingIOError):
                sent_bytes = self._socket.send(unsent, socket.MSG_DONTWAIT)
                unsent = unsent[sent_bytes:]
            if not unsent:
                return
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError
            writable = select.poll()
            writable.register(self._socket, select.POLLOUT)
            writable.poll(remaining_s * 1000)


class LocalPeer(_Peer):
    """The agent whose server runs in the session's own process.

    Frames are passed to it as they are, because a socket, JSON and a thread that reads would take
    longer than a short cell.
    """

    def __init__(self, service: AgentService, receive: Callable[[Frame], object]) -> None:
        """Create a peer that has not joined.

        Args:
            receive: See `AgentService.connect`.
        """
        super().__init__(service, owns_session=True)
        self._receive = receive

    def say_goodbye(self, sentence: str, deadline: float) -> None:
        self._send({"op": "bye", "text": sentence})

    def end_connection(self, deadline: float) -> None:
        self._leave_session()

    def close(self) -> None:
        """Leave the session."""
        self._leave_session()

    def _send(self, frame: Frame) -> None:
        self._receive(frame)
