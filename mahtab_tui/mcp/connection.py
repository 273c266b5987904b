"""The connection to a session: the agent's own, or the one on the user's screen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Input, UserReplOut, get_record
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.requests import checked
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.mcp.tools import McpToolError, Report, escape_output_keep_colours, highlighted
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import Evaluation
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.sharing import AgentService, SharingError, find_session
from mahtab_tui.settings.model import Settings, home_folder
from mahtab_tui.store.resume import new_store, save_target
from mahtab_tui.worker.frames import Frame, FrameError, FrameReader, encode

ViewerMode = Literal["auto", "file", "off"]
T = TypeVar("T")

LARGEST = 10_000_000


def log_file() -> Path:
    return home_folder() / "logs" / "repl.log"


class Journal:
    def __init__(self, mode: ViewerMode = "off", secrets: Secrets | None = None) -> None:
        self._secrets = secrets or Secrets()
        self._lock = threading.Lock()
        self._file: TextIOWrapper | None = None
        self.mode: ViewerMode = "off"
        self.set_mode(mode)

    def set_mode(self, mode: ViewerMode) -> None:
        """``auto``: in colour, for a terminal. Raises `OSError`."""
        with self._lock:
            if mode != "off" and self._file is None:
                self._file = _open_log(log_file())
            elif mode == "off":
                self._end()
            self.mode = mode

    def code(self, cell: int, who: str, code: str) -> None:
        head = f"── In [{cell}] · {who} · {time.strftime('%H:%M:%S')} ──"
        code = visible(self._secrets.mask(code))
        shown = highlighted(code, "python") if self.mode == "auto" else code
        self._write(f"\n{self._dim(head)}\n{shown}\n")

    def output(self, kind: OutputKind, text: str) -> None:
        text = self._secrets.mask(text)
        self._write(escape_output_keep_colours(text) if self.mode == "auto" else plain(text))

    def end(self, cell: int, how: str, seconds: float) -> None:
        self._write(self._dim(f"── [{cell}] {how} · {seconds:.3g} s ──") + "\n")

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.mode == "auto" else text

    def _write(self, text: str) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as error:
                self._end()
                self.mode = "off"
                why = f"{log_file()} cannot be written: {error.strerror}"
                print(f"mahtab-tui: {why}. Logging has stopped.", file=sys.stderr)

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def _open_log(path: Path) -> TextIOWrapper:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LARGEST:
        path.replace(path.with_name(path.name + ".1"))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return TextIOWrapper(os.fdopen(fd, "wb"), encoding="utf-8", errors="replace")


PROGRESS_SECONDS = 1.0

REJOIN_HINT = "Call mode with private to continue in a session of your own, or with shared to join a session again."


class _PendingCall:
    def __init__(self, on_frame: Callable[[Frame], None] | None) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pass_on = on_frame
        self._progress = "waiting for the session"
        self._characters = 0
        self._last_line = ""

    def on_frame(self, frame: Frame) -> None:
        if frame["op"] == "progress":
            self._progress = str(frame["text"])
            return
        if frame["op"] == "output":
            text = str(frame["text"])
            self._characters += len(text)
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            self._last_line = lines[-1][:200] if lines else self._last_line
        if self._pass_on is not None:
            self._pass_on(frame)

    def sentence(self, seconds: float) -> str:
        progress = f"{self._progress} ({seconds:.0f} s)"
        if not self._last_line:
            return progress
        return f"{progress}, {self._characters:,} characters printed; last line: {self._last_line}"


class _LogEntry:
    def __init__(self, journal: Journal, who: str, code: str) -> None:
        self._journal, self._who, self._code = journal, who, code
        self._started = time.monotonic()
        self._cell = 0

    def on_frame(self, frame: Frame) -> None:
        if frame["op"] == "begun":
            self._started, self._cell = time.monotonic(), int(frame["cell"])
            self._journal.code(self._cell, self._who, str(frame["code"]))
        else:
            self._journal.output(frame["kind"], str(frame["text"]))

    def end(self, how: str) -> None:
        if not self._cell and how:
            self._journal.code(self._cell, self._who, self._code)
        if self._cell or how:
            self._journal.end(self._cell, how or "left", time.monotonic() - self._started)


class SessionConnection:
    """A session in which an agent's code runs. Methods raise `McpToolError`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, journal: Journal
    ) -> None:
        self._reader, self._writer = reader, writer
        self._journal = journal
        self._frames = FrameReader()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _PendingCall] = {}
        self._end_reason = ""
        self._listener: asyncio.Task[None] | None = None
        self.session = ""
        self.pid = 0
        self.name = ""

    @classmethod
    async def join(
        cls, session: str | None, project: Path, agent: str, journal: Journal
    ) -> SessionConnection:
        try:
            found = await asyncio.to_thread(find_session, session, project)
            reader, writer = await asyncio.open_unix_connection(str(found.path))
        except (SharingError, OSError) as error:
            raise McpToolError(str(error)) from None
        return await cls(reader, writer, journal)._handshake(agent)

    @classmethod
    async def connect(
        cls, connected: socket.socket, agent: str, journal: Journal
    ) -> SessionConnection:
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        return await cls(reader, writer, journal)._handshake(agent)

    async def _handshake(self, agent: str) -> SessionConnection:
        self._writer.write(encode({"op": "join", "name": agent}))
        try:
            welcome = await self._next_frames()
        except (OSError, FrameError):
            welcome = []
        if not welcome or welcome[0]["op"] != "session":
            self._writer.close()
            raise McpToolError("The session closed the connection.")
        first = welcome[0]
        self.session, self.name = str(first["name"]), str(first["you"])
        self.pid = int(first["pid"])
        self._listener = asyncio.create_task(self._listen())
        return self

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it."""
        entry = _LogEntry(self._journal, self.name, code)
        how = ""
        try:
            done = await self.call(
                "evaluate", Evaluation, report, entry.on_frame, code=code, timeout=timeout
            )
            how = done.declined or ("still running" if done.running else str(done.result.status))
            return done
        finally:
            entry.end(how)

    @property
    def has_ended(self) -> bool:
        return bool(self._end_reason)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        self._writer.close()

    async def call(
        self,
        what: str,
        result: type[T],
        report: Report | None = None,
        on_frame: Callable[[Frame], None] | None = None,
        **args: object,
    ) -> T:
        """Call `AgentCalls`. on_frame: gets the frames that arrive before the answer."""
        if self._end_reason:
            raise McpToolError(self._end_reason)
        number = next(self._numbers)
        waiting = self._waiting[number] = _PendingCall(on_frame)
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            self._writer.write(encode({"op": "call", "id": number, "what": what, "args": args}))
            while not (await asyncio.wait({waiting.answer}, timeout=PROGRESS_SECONDS))[0]:
                if report is not None:
                    seconds = loop.time() - start
                    await report(seconds, waiting.sentence(seconds))
            return checked(result, waiting.answer.result())
        except FrameError as error:
            raise McpToolError(f"The call cannot be sent: {error}.") from None
        except KernelError as error:
            raise McpToolError(f"The session's answer is invalid: {error}.") from None
        finally:
            self._waiting.pop(number, None)
            if not waiting.answer.done():
                with anyio.CancelScope(shield=True):
                    self._writer.write(encode({"op": "cancel", "id": number}))

    async def _listen(self) -> None:
        over = "The session has ended."
        try:
            while frames := await self._next_frames():
                for frame in frames:
                    if frame["op"] == "bye":
                        over = str(frame["text"])
                    else:
                        self._handle(frame)
        except (OSError, FrameError):
            pass
        finally:
            self._end_reason = f"{over} {REJOIN_HINT}"
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.answer.done():
                    waiting.answer.set_exception(McpToolError(self._end_reason))

    def _handle(self, frame: Frame) -> None:
        waiting = self._waiting.get(int(frame["id"]))
        if waiting is None or waiting.answer.done():
            return
        if frame["op"] in ("progress", "begun", "output"):
            waiting.on_frame(frame)
        elif "error" in frame:
            waiting.answer.set_exception(McpToolError(str(frame["error"])))
        else:
            waiting.answer.set_result(frame["value"])

    async def _next_frames(self) -> list[Frame]:
        while data := await self._reader.read(65536):
            if frames := self._frames.feed(data):
                return frames
        return []


LATE_CHARACTERS = 20_000


class OwnSession:
    """A session used only by its agent. Nobody approves its code, so code that a rule asks about
    does not run."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        # Without a configured model, no server on this machine is searched for one.
        self._settings = settings.model_copy(
            update={"approval": "auto", "kernel": None, "model": settings.model or "demo"}
        )
        self._journal = journal
        self._starting = asyncio.Lock()
        self._session: Session | None = None
        self._connection: SessionConnection | None = None
        self.output = LateOutput()

    async def connection(self, agent: str) -> SessionConnection:
        async with self._starting:
            if self._connection is not None and not self._connection.has_ended:
                return self._connection
            # The starting thread cannot be cancelled; the next call would start a second session.
            with anyio.CancelScope(shield=True):
                ours = await asyncio.to_thread(self._start)
                joined = await SessionConnection.connect(ours, agent, self._journal)
            self._connection = joined
            return joined

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
            session = Session(settings, kernel, HeadlessFrontend(), store=store, name=name)
            session.log.addHandler(InputHandler(session))
            session.log.addHandler(self.output)
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


class InputHandler(logging.Handler):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if isinstance(value, Input) and value.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            answer = partial(self._session.host.inputs.answer, value.request, None)
            threading.Thread(target=answer, daemon=True).start()


class LateOutput(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if isinstance(value, UserReplOut) and value.late:
            self.text = (self.text + value.text)[-LATE_CHARACTERS:]

    def take(self) -> str:
        self.acquire()
        text, self.text = self.text, ""
        self.release()
        return text
