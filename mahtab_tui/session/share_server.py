"""Serves agents in a session, and lets agents of the same user join it over a Unix socket."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.broadcast import Feed
from mahtab_tui.session.joined_agents import AgentCall, AgentCallRefused, JoinedAgent
from mahtab_tui.session.shared_sessions import SharingError, peer_uid, record_frame, socket_path

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session

SEND_TIMEOUT = 5
"""Seconds that an agent may take to read. A slower one is disconnected, so that it does not block
the session."""

FAREWELL = 1.0
"""Seconds for a disconnected agent to read why."""

RETRY = 0.1
"""Seconds to wait after accepting a connection has failed."""

LARGEST = 64 * 1024 * 1024
"""Maximum size of an agent's message in bytes."""


class AgentService:
    """Serves the agents that are connected to a session."""

    def __init__(self, session: Session, project: Path) -> None:
        """project: the folder by which agents find the session."""
        self.session = session
        self._project = project
        self.calls = AgentCalls(session)
        self._connections: set[_Connection] = set()

    def serve(self, connected: socket.socket, *, owns_session: bool = False) -> None:
        """Serve what is at the other end of a socket, on a thread. owns_session: it is an agent
        whose own session this is."""
        connection = _Connection(connected, self, owns_session=owns_session)
        self._connections.add(connection)
        threading.Thread(target=connection.serve, name="share-agent", daemon=True).start()

    # Called by connections

    def described(self) -> Frame:
        return {
            "op": "session",
            "name": self.session.name,
            "project": str(self._project),
            "pid": os.getpid(),
            "agents": self.session.joined_agents.names,
        }

    def gone(self, connection: _Connection, agent: JoinedAgent | None) -> None:
        self._connections.discard(connection)
        if agent is not None:
            self.session.joined_agents.left(agent, stop=self.session.settings.agent_gone == "stop")


class ShareServer(AgentService):
    """Listens while its session is on the screen."""

    def __init__(self, session: Session, project: Path) -> None:
        super().__init__(session, project)
        self._closed = threading.Event()
        self._path = socket_path(os.getpid())
        draft = self._path.with_suffix(
            ".new"
        )  # renamed once it listens: programs that look for sessions remove sockets that do not answer
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
        threading.Thread(target=self._accept, name="share", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        for connection in list(self._connections):
            connection.leave("The session was closed: its screen is gone.")

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                self._closed.wait(
                    RETRY
                )  # the socket is closed, or the program has run out of file descriptors
                continue
            if peer_uid(accepted) != os.getuid():
                accepted.close()
                continue
            self.serve(accepted)


class _Connection:
    """One agent's connection: a thread reads, and each call is served on a thread of its own."""

    def __init__(
        self, accepted: socket.socket, server: AgentService, *, owns_session: bool
    ) -> None:
        self._socket = accepted
        self._owns_session = owns_session
        self._server = server
        self._session = server.session
        self._sending = threading.Lock()
        self._agent: JoinedAgent | None = None
        self._calls: dict[int, AgentCall] = {}
        self._feed: Feed | None = None
        self._leaving = False
        self._ended = threading.Event()
        accepted.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT, 0)
        )

    def serve(self) -> None:
        reader = FrameReader(LARGEST)
        try:
            while data := self._socket.recv(65536):
                for frame in reader.feed(data):
                    if not self._leaving:
                        self._handle(frame)
        except (OSError, FrameError, KeyError, TypeError, ValueError):
            pass  # the other side does not speak the protocol, or has closed the connection
        finally:
            if self._feed is not None:
                self._session.broadcast.unwatch(self._feed)
            self._server.gone(self, self._agent)
            self._socket.close()
            self._ended.set()

    def leave(self, sentence: str) -> None:
        """Close the connection, with a sentence for the agent. Waits a moment until the agent has
        read it."""
        self._leaving = True
        self._send({"op": "bye", "text": sentence})
        with contextlib.suppress(OSError):
            # Keep receiving for a moment: if the agent's writing failed, it would never read the
            # sentence.
            self._socket.shutdown(socket.SHUT_WR)
            self._ended.wait(FAREWELL)
            self._socket.shutdown(socket.SHUT_RDWR)

    def _handle(self, frame: Frame) -> None:
        if frame["op"] == "probe":
            self._send(self._server.described())
        elif frame["op"] == "join" and self._agent is None and self._feed is None:
            newest = next(reversed(self._session.cells.finished_since(None)), None)
            self._agent = self._session.joined_agents.join(
                str(frame["name"]), self.leave, newest, owns_session=self._owns_session
            )
            self._send({**self._server.described(), "you": self._agent.name})
        elif frame["op"] == "watch" and self._feed is None and self._agent is None:
            self._feed = self._session.broadcast.watch()
            threading.Thread(
                target=self._tell_records, args=(self._feed,), name="share-watch", daemon=True
            ).start()
        elif frame["op"] == "cancel":
            if call := self._calls.get(int(frame["id"])):
                call.cancel()
        elif frame["op"] == "call" and self._agent is not None:
            number = int(frame["id"])
            call = self._calls[number] = AgentCall(
                lambda frame: self._send({**frame, "id": number})
            )
            arguments = (self._agent, call, number, str(frame["what"]), dict(frame["args"]))
            threading.Thread(
                target=self._serve_call, args=arguments, name="share-call", daemon=True
            ).start()

    def _serve_call(
        self, agent: JoinedAgent, call: AgentCall, number: int, what: str, args: dict[str, Any]
    ) -> None:
        try:
            answer: Frame = {
                "op": "answer",
                "id": number,
                "value": self._server.calls.serve(agent, call, what, args),
            }
        except AgentCallRefused as error:
            answer = {"op": "refused", "id": number, "text": str(error)}
        except Exception as error:  # the thread's outermost frame; the agent needs an answer
            answer = {
                "op": "refused",
                "id": number,
                "text": f"The session failed: {type(error).__name__}: {error}",
            }
        self._calls.pop(number, None)
        self._send(answer)

    def _tell_records(self, feed: Feed) -> None:
        while (record := feed.get()) is not None:
            self._send(record_frame(record))

    def _send(self, frame: Frame) -> None:
        try:
            data = encode(frame)
        except FrameError as error:
            data = encode(
                {
                    "op": "refused",
                    "id": frame.get("id", 0),
                    "text": f"The answer cannot be sent: {error}.",
                }
            )
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
