"""The connection to a session: the agent's own, or the one on the user's screen."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import anyio

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Input, Record, RecordHandler, UserReplOut
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cells import pieces
from mahtab_tui.kernel.requests import checked
from mahtab_tui.mcp.tools import McpToolError, Report
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import Evaluation
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.running_sessions import SharingError, find_session
from mahtab_tui.session.sharing import AgentService, LocalPeer
from mahtab_tui.settings.model import Settings, home_folder
from mahtab_tui.store.resume import new_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

T = TypeVar("T")

PROGRESS_INTERVAL_S = 1.0
MAX_LATE_CHARS = 20_000
"""Characters of output between cells that are kept for the next answer."""
_MAX_LAST_LINE_CHARS = 200
_READ_BYTES = 65_536

REJOIN_HINT = "Call mode with private to continue in a session of your own, or with shared to join a session again."


def log_file() -> Path:
    return home_folder() / "logs" / "repl.log"


class Journal:
    """The log of evaluated code and its output, for `tail -f`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._file: IO[str] | None = None

    @property
    def is_on(self) -> bool:
        return self._file is not None

    def switch(self, on: bool) -> None:
        """Begin or end writing. Raises `OSError`."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if on:
            path = log_file()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")

    def write_code(self, cell: object, author: str, code: str) -> None:
        if self._file is not None:
            head = f"── In [{cell}] · {author} · {time.strftime('%H:%M:%S')} ──"
            self._write(self._file, f"\n{head}\n{visible(self._secrets.mask(code))}\n")

    def write_output(self, text: str) -> None:
        if self._file is not None:
            self._write(self._file, plain(self._secrets.mask(text)))

    def _write(self, file: IO[str], text: str) -> None:
        try:
            file.write(text)
            file.flush()
        except OSError:
            self._file = None  # the disk is full, but cells can still run


class _PendingCall:
    """An open call."""

    def __init__(self, journal: Journal, author: str) -> None:
        self._journal = journal
        self._author = author
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._progress = "runs"
        self._last_line = ""

    def on_frame(self, frame: Frame) -> None:
        if frame["op"] == "progress":
            self._progress = str(frame["text"])
        elif frame["op"] == "begun":
            self._progress = "runs"
            self._journal.write_code(frame["cell"], self._author, str(frame["code"]))
        elif frame["op"] == "output":
            text = str(frame["text"])
            self._journal.write_output(text)
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                self._last_line = lines[-1][:_MAX_LAST_LINE_CHARS]
        elif "error" in frame:
            self.answer.set_exception(McpToolError(str(frame["error"])))
        else:
            self.answer.set_result(frame["value"])

    def describe_progress(self, seconds: float) -> str:
        """Return what is known about a call that has been open for some seconds."""
        last_line = f"; last line: {self._last_line}" if self._last_line else ""
        return f"{self._progress} ({seconds:,.0f} s){last_line}"


class _Link(ABC):
    """Carries the frames between an agent and a session. Its methods are called in the event
    loop."""

    @abstractmethod
    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        """Call one function in the event loop with each frame of the session, and the other when
        there are no more."""

    @abstractmethod
    def send(self, frame: Frame) -> None:
        """Send a frame, without waiting. Raises `FrameError` if it is too large."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the session."""


class _SocketLink(_Link):
    """A socket to a session in another process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._listener: asyncio.Task[None] | None = None

    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        self._listener = asyncio.create_task(self._listen(on_frame, on_end))

    def send(self, frame: Frame) -> None:
        self._writer.write(encode(frame))

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        self._writer.close()

    async def _listen(
        self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]
    ) -> None:
        try:
            while data := await self._reader.read(_READ_BYTES):
                for frame in self._frames.feed(data):
                    on_frame(frame)
        except (OSError, FrameError):
            pass
        finally:
            self._writer.close()
            on_end()


class _OwnLink(_Link):
    """The agent's own session, which runs in this process."""

    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._peer: LocalPeer | None = None
        self._end: Callable[[], object] = lambda: None
        """Says that no more frames come. Any thread may call this."""

    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe

        def call_in_loop(function: Callable[..., object], *args: object) -> None:
            # The loop may have ended before the session's threads.
            with suppress(RuntimeError):
                call_soon(function, *args)

        self._end = partial(call_in_loop, on_end)
        self._peer = self._service.connect(partial(call_in_loop, on_frame))

    def send(self, frame: Frame) -> None:
        assert self._peer is not None
        if frame["op"] == "call":
            self._peer.handle(frame)
        else:
            # Joining writes a record, and cancelling may wait.
            start_thread("own-agent", self._handle, self._peer, frame)

    async def close(self) -> None:
        if self._peer is not None:
            await asyncio.to_thread(self._peer.close)
        self._end()

    def _handle(self, peer: LocalPeer, frame: Frame) -> None:
        """Let the session do what a frame asks; the connection ends if it fails. Runs on a thread."""
        try:
            peer.handle(frame)
        except BaseException:
            self._end()
            raise


class SessionConnection:
    """A session in which an agent's code runs. Methods raise `McpToolError`."""

    def __init__(self, link: _Link, journal: Journal) -> None:
        self._link = link
        self._journal = journal
        self._numbers = itertools.count(1)
        self._open_calls: dict[int, _PendingCall] = {}
        self._end_reason = ""
        self._welcome: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        """The session's first frame."""
        self.session = ""
        """The session's name."""
        self.pid = 0
        """Id of the process that the session runs in."""
        self.name = ""
        """The agent's name in the session."""

    @classmethod
    async def join(
        cls, session: str | None, project: Path, agent: str, journal: Journal
    ) -> SessionConnection:
        """Join a session by its name, or the session of a project's folder."""
        try:
            shared_session = await asyncio.to_thread(find_session, session, project)
        except (SharingError, OSError) as error:
            raise McpToolError(str(error)) from None
        return await cls.connect(shared_session.path, agent, journal)

    @classmethod
    async def connect(
        cls, target: Path | socket.socket, agent: str, journal: Journal
    ) -> SessionConnection:
        """Connect to a session's socket, and wait until the agent has joined."""
        address = {"path": str(target)} if isinstance(target, Path) else {"sock": target}
        try:
            reader, writer = await asyncio.open_unix_connection(**address)
        except OSError as error:
            raise McpToolError(str(error)) from None
        return await cls._open(_SocketLink(reader, writer), agent, journal)

    @classmethod
    async def connect_own(
        cls, service: AgentService, agent: str, journal: Journal
    ) -> SessionConnection:
        """Join the agent's own session, which runs in this process."""
        return await cls._open(_OwnLink(service), agent, journal)

    @classmethod
    async def _open(cls, link: _Link, agent: str, journal: Journal) -> SessionConnection:
        connection = cls(link, journal)
        await link.open(connection._on_frame, connection._on_end)
        link.send({"op": "join", "name": agent})
        welcome = await connection._welcome
        if welcome["op"] != "session":
            await link.close()
            raise McpToolError("The session closed the connection.")

        connection.session = str(welcome["name"])
        connection.name = str(welcome["you"])
        connection.pid = int(welcome["pid"])
        return connection

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it."""
        evaluation = await self.call("evaluate", Evaluation, report, code=code, timeout=timeout)
        for kind, text in pieces(evaluation.result):
            # Other output has come while the cell ran.
            if kind in ("value", "traceback"):
                self._journal.write_output(text)
        return evaluation

    async def call(
        self, method: str, result: type[T], report: Report | None = None, **args: object
    ) -> T:
        """Call a method of `AgentCalls`.

        Args:
            method: its name.
            result: type of its result, which is checked.
            report: called about once a second while the call is open, with its seconds and a
                sentence.
            args: arguments of the method.
        """
        if self._end_reason:
            raise McpToolError(self._end_reason)

        call = _PendingCall(self._journal, self.name)
        call_id = next(self._numbers)
        start_time = time.monotonic()
        self._open_calls[call_id] = call
        try:
            frame = {"op": "call", "id": call_id, "what": method, "args": args}
            self._link.send({**frame, "logged": self._journal.is_on})
            # Report progress while the answer has not come.
            while not call.answer.done():
                await asyncio.wait({call.answer}, timeout=PROGRESS_INTERVAL_S)
                if report is not None and not call.answer.done():
                    seconds = time.monotonic() - start_time
                    await report(seconds, call.describe_progress(seconds))
            return checked(result, call.answer.result())
        except FrameError as error:
            raise McpToolError(f"The call cannot be sent: {error}.") from None
        except KernelError as error:
            raise McpToolError(f"The session's answer is invalid: {error}.") from None
        finally:
            self._open_calls.pop(call_id, None)
            if not call.answer.done():
                self._link.send({"op": "cancel", "id": call_id})

    @property
    def has_ended(self) -> bool:
        return bool(self._end_reason)

    async def close(self) -> None:
        await self._link.close()

    def _on_frame(self, frame: Frame) -> None:
        """Pass what the session sends on to the open call that it is about."""
        if not self._welcome.done():
            self._welcome.set_result(frame)
        elif frame["op"] == "bye":
            self._end(str(frame["text"]))
        else:
            call = self._open_calls.get(int(frame["id"]))
            if call is not None and not call.answer.done():
                call.on_frame(frame)

    def _on_end(self) -> None:
        self._end("The session has ended.")

    def _end(self, sentence: str) -> None:
        """Let the open calls and later ones fail."""
        if self._end_reason:
            return
        self._end_reason = f"{sentence} {REJOIN_HINT}"
        if not self._welcome.done():
            self._welcome.set_result({"op": "bye", "text": sentence})
        for call in self._open_calls.values():
            if not call.answer.done():
                call.answer.set_exception(McpToolError(self._end_reason))


class OwnFrontend(HeadlessFrontend):
    """Notes that the agent's code called `exit()`."""

    belongs_to_agent = True

    def __init__(self) -> None:
        self.has_left = False

    def leave(self) -> None:
        self.has_left = True


class OwnSession:
    """A session used only by its agent. Nobody approves its code, so code that a rule asks about
    does not run."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        # Without a configured model, this machine would be searched for one.
        update = {"approval": "auto", "kernel": None, "model": settings.model or "demo"}
        self._settings = settings.model_copy(update=update)
        self._journal = journal
        self._starting = asyncio.Lock()
        self._session: Session | None = None
        self._connection: SessionConnection | None = None
        self._watcher: SessionWatcher | None = None
        self._frontend = OwnFrontend()

    @property
    def has_left(self) -> bool:
        """Whether its code has called `exit()`."""
        return self._frontend.has_left

    async def connection(self, agent: str) -> SessionConnection:
        async with self._starting:
            if self._connection is None or self._connection.has_ended:
                # The thread cannot be cancelled; the next call would start a second session.
                with anyio.CancelScope(shield=True):
                    service = await asyncio.to_thread(self._start)
                    try:
                        connection = await SessionConnection.connect_own(
                            service, agent, self._journal
                        )
                    except McpToolError:
                        await self._close_session()  # the next call starts another one
                        raise
                self._connection = connection
            return self._connection

    def take_late_output(self) -> str:
        """Return the output between cells since the last call."""
        return "" if self._watcher is None else self._watcher.take_late_output()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        await self._close_session()

    async def _close_session(self) -> None:
        if self._session is not None:
            session = self._session
            self._session = None
            await asyncio.to_thread(session.close, hurry=True)

    def _start(self) -> AgentService:
        """Start the session, and return what serves its agent."""
        # Loads the agent, which would delay the answer to `initialize`.
        from mahtab_tui.session.kernel import process_kernel

        store, name, _ = new_store(Path.cwd())
        settings = self._settings
        target = None
        if settings.keep_namespace:
            target = save_target(store.session, settings.keep_namespace_mb)
        try:
            kernel = process_kernel(settings, target)
            session = Session(settings, kernel, self._frontend, store=store, name=name)
            self._watcher = SessionWatcher(session)
            session.log.addHandler(self._watcher)
            session.cell_thread.start()
            session.ready.result()
        except KernelError as error:
            if store.claim is not None:
                store.claim.release()
            raise McpToolError(str(error)) from None

        self._session = session
        return AgentService(session, Path.cwd())


class SessionWatcher(RecordHandler):
    """Collects output between cells, and answers `input()` with the end of input."""

    kinds = (UserReplOut, Input)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._late_output = ""

    def fold(self, record: Record) -> None:
        if isinstance(record, UserReplOut) and record.late:
            self._late_output = (self._late_output + record.text)[-MAX_LATE_CHARS:]
        elif isinstance(record, Input) and record.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            start_thread("mcp-input", self._session.host.inputs.answer, record.request, None)

    def take_late_output(self) -> str:
        self.acquire()  # against `emit`
        text = self._late_output
        self._late_output = ""
        self.release()
        return text
