"""The connection to a session: the agent's own, or the one on the user's screen."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import time
from pathlib import Path
from typing import IO, Any, TypeVar

import anyio

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Input, UserReplOut, get_record
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.requests import checked
from mahtab_tui.mcp.tools import McpToolError, Report
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import Evaluation
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.sharing import AgentService, SharingError, find_session
from mahtab_tui.settings.model import Settings, home_folder
from mahtab_tui.store.resume import new_store, save_target
from mahtab_tui.system import start_thread
from mahtab_tui.worker.frames import Frame, FrameError, FrameReader, encode

T = TypeVar("T")


def log_file() -> Path:
    return home_folder() / "logs" / "repl.log"


class Journal:
    """The log of evaluated code and its output, for `tail -f`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._file: IO[str] | None = None

    def switch(self, on: bool) -> None:
        """Raises `OSError`."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if on:
            path = log_file()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")

    def code(self, cell: object, who: str, code: str) -> None:
        head = f"── In [{cell}] · {who} · {time.strftime('%H:%M:%S')} ──"
        self._write(f"\n{head}\n{visible(self._secrets.mask(code))}\n")

    def output(self, text: str) -> None:
        self._write(plain(self._secrets.mask(text)))

    def _write(self, text: str) -> None:
        if self._file is not None:
            try:
                self._file.write(text)
                self._file.flush()
            except OSError:
                self._file = None  # the disk is full, but cells can still run


PROGRESS_SECONDS = 1.0

REJOIN_HINT = "Call mode with private to continue in a session of your own, or with shared to join a session again."


class _Call:
    """An open call."""

    def __init__(self, journal: Journal, who: str) -> None:
        self._journal, self._who = journal, who
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._progress = "waiting for the session"
        self._last_line = ""

    def on_frame(self, frame: Frame) -> None:
        if frame["op"] == "progress":
            self._progress = str(frame["text"])
        elif frame["op"] == "begun":
            self._journal.code(frame["cell"], self._who, str(frame["code"]))
        elif frame["op"] == "output":
            self._journal.output(str(frame["text"]))
            lines = [line.strip() for line in str(frame["text"]).splitlines() if line.strip()]
            self._last_line = lines[-1][:200] if lines else self._last_line
        elif "error" in frame:
            self.answer.set_exception(McpToolError(str(frame["error"])))
        else:
            self.answer.set_result(frame["value"])

    def sentence(self, seconds: float) -> str:
        last_line = f"; last line: {self._last_line}" if self._last_line else ""
        return f"{self._progress} ({seconds:.0f} s){last_line}"


class SessionConnection:
    """A session in which an agent's code runs. Methods raise `McpToolError`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, journal: Journal
    ) -> None:
        self._reader, self._writer = reader, writer
        self._journal = journal
        self._frames = FrameReader()
        self._numbers = itertools.count(1)
        self._open: dict[int, _Call] = {}
        self._end_reason = ""
        self._listener: asyncio.Task[None] | None = None
        self.session = ""
        self.pid = 0
        self.name = ""

    @classmethod
    async def join(
        cls, session: str | None, project: Path, agent: str, journal: Journal
    ) -> SessionConnection:
        """Join a session by its name, or the session of a project's folder."""
        try:
            found = await asyncio.to_thread(find_session, session, project)
        except (SharingError, OSError) as error:
            raise McpToolError(str(error)) from None
        return await cls.connect(found.path, agent, journal)

    @classmethod
    async def connect(
        cls, target: Path | socket.socket, agent: str, journal: Journal
    ) -> SessionConnection:
        where = {"path": str(target)} if isinstance(target, Path) else {"sock": target}
        try:
            reader, writer = await asyncio.open_unix_connection(**where)
        except OSError as error:
            raise McpToolError(str(error)) from None
        joined = cls(reader, writer, journal)
        writer.write(encode({"op": "join", "name": agent}))
        try:
            welcome = await joined._next_frames()
        except (OSError, FrameError):
            welcome = []
        if not welcome or welcome[0]["op"] != "session":
            writer.close()
            raise McpToolError("The session closed the connection.")
        first = welcome[0]
        joined.session, joined.name = str(first["name"]), str(first["you"])
        joined.pid = int(first["pid"])
        joined._listener = asyncio.create_task(joined._listen())
        return joined

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it."""
        return await self.call("evaluate", Evaluation, report, code=code, timeout=timeout)

    async def call(
        self, what: str, result: type[T], report: Report | None = None, **args: object
    ) -> T:
        """Call `AgentCalls`."""
        if self._end_reason:
            raise McpToolError(self._end_reason)
        call, number, start = _Call(self._journal, self.name), next(self._numbers), time.monotonic()
        self._open[number] = call
        try:
            self._writer.write(encode({"op": "call", "id": number, "what": what, "args": args}))
            while not (await asyncio.wait({call.answer}, timeout=PROGRESS_SECONDS))[0]:
                if report is not None:
                    seconds = time.monotonic() - start
                    await report(seconds, call.sentence(seconds))
            return checked(result, call.answer.result())
        except FrameError as error:
            raise McpToolError(f"The call cannot be sent: {error}.") from None
        except KernelError as error:
            raise McpToolError(f"The session's answer is invalid: {error}.") from None
        finally:
            self._open.pop(number, None)
            if not call.answer.done():
                self._writer.write(encode({"op": "cancel", "id": number}))

    @property
    def has_ended(self) -> bool:
        return bool(self._end_reason)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        self._writer.close()

    async def _listen(self) -> None:
        over = "The session has ended."
        try:
            while frames := await self._next_frames():
                for frame in frames:
                    if frame["op"] == "bye":
                        over = str(frame["text"])
                        continue
                    call = self._open.get(int(frame["id"]))
                    if call is not None and not call.answer.done():
                        call.on_frame(frame)
        except (OSError, FrameError):
            pass
        finally:
            self._end_reason = f"{over} {REJOIN_HINT}"
            self._writer.close()
            for call in self._open.values():
                if not call.answer.done():
                    call.answer.set_exception(McpToolError(self._end_reason))

    async def _next_frames(self) -> list[Frame]:
        while data := await self._reader.read(65536):
            if frames := self._frames.feed(data):
                return frames
        return []


LATE_CHARACTERS = 20_000


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
                    ours = await asyncio.to_thread(self._start)
                    joined = await SessionConnection.connect(ours, agent, self._journal)
                self._connection = joined
            return self._connection

    def take_late_output(self) -> str:
        """Return the output between cells since the last call."""
        return "" if self._watcher is None else self._watcher.take_late_output()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        if self._session is not None:
            await asyncio.to_thread(self._session.close, hurry=True)

    def _start(self) -> socket.socket:
        # Loads the agent, which would delay the answer to `initialize`.
        from mahtab_tui.session.kernel import process_kernel

        store, name, _ = new_store(Path.cwd())
        settings, keep = self._settings, None
        if settings.keep_namespace:
            keep = save_target(store.session, settings.keep_namespace_mb)
        try:
            kernel = process_kernel(settings, keep)
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
        ours, theirs = socket.socketpair()
        AgentService(session, Path.cwd()).serve(theirs, owns_session=True)
        return ours


class SessionWatcher(logging.Handler):
    """Collects output between cells, and answers `input()` with the end of input."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._late = ""

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if isinstance(value, UserReplOut) and value.late:
            self._late = (self._late + value.text)[-LATE_CHARACTERS:]
        elif isinstance(value, Input) and value.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            start_thread("mcp-input", self._session.host.inputs.answer, value.request, None)

    def take_late_output(self) -> str:
        self.acquire()  # against `emit`
        text, self._late = self._late, ""
        self.release()
        return text
