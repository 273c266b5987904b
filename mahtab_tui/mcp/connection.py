"""The connection to a session: the agent's own, or the one on the user's screen."""

from __future__ import annotations

import asyncio
import base64
import itertools
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from mahtab_tui.kernel.base import KernelInfo
from mahtab_tui.kernel.code_help import Detail
from mahtab_tui.kernel.protocol import checked
from mahtab_tui.kernel.results import pieces
from mahtab_tui.kernel.values import CellResult, Status, Variable
from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.tools import McpToolError, Report
from mahtab_tui.session.shared_sessions import SharingError, session_for

BEAT = 1.0
"""Seconds between two reports on a running call."""

GONE = "Call mode with private to continue in a session of your own, or with shared to join a session again."


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a cell that has ended, or still runs after its timeout."""

    result: CellResult
    timed_out: bool = False
    running: bool = False
    """Whether it ignored its interrupt and still runs; the result has the output so far."""
    late: str = ""
    """Output between cells since the last one."""
    pictures: list[bytes] = field(default_factory=list)
    """PNG."""
    edited: str = ""
    """The code that ran, if the user had edited it; otherwise empty."""
    declined: str = ""
    """Why the user did not let it run; empty if it ran."""
    restores: bool = False
    """Whether saved variables come back if the worker has ended."""


@dataclass(frozen=True, slots=True)
class SessionContents:
    """Contents of a session."""

    kernel: KernelInfo
    variables: list[Variable]
    cells: int
    """Cells run by this agent."""
    busy: float
    """Seconds that they took together."""
    alive: float
    """Seconds since the agent joined."""
    others: list[str] = field(default_factory=list)
    """Cells that others have run since the last request, a line each."""


class _PendingCall:
    """A call that waits for its answer."""

    def __init__(self, entry: _LogEntry | None) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.entry = entry
        self._progress = "waiting for the session"
        self._characters = 0
        self._last_line = ""

    def on_frame(self, frame: Frame) -> None:
        """Take up a frame about the call before its answer."""
        if frame["op"] == "progress":
            self._progress = str(frame["text"])
            return
        if frame["op"] == "output":
            text = str(frame["text"])
            self._characters += len(text)
            lines = [line for line in text.splitlines() if line.strip()]
            self._last_line = lines[-1].strip()[:200] if lines else self._last_line
        if self.entry is not None:
            self.entry.on_frame(frame)

    def sentence(self, seconds: float) -> str:
        """Say how far it is."""
        printed = (
            f", {self._characters:,} characters printed; last line: {self._last_line}"
            if self._last_line
            else ""
        )
        return f"{self._progress} ({seconds:.0f} s){printed}"


class _LogEntry:
    """A cell in the log: written while it runs, or at its end if the log was opened after its
    start."""

    def __init__(self, journal: Journal, who: str, code: str) -> None:
        self._journal, self._who, self._code = journal, who, code
        self._follows = journal.mode != "off"
        self._begun: float | None = None
        self._cell = 0

    def on_frame(self, frame: Frame) -> None:
        if not self._follows:
            return
        if frame["op"] == "begun":
            self._begun, self._cell = time.monotonic(), int(frame["cell"])
            self._journal.code(self._cell, self._who, str(frame["code"]))
        else:
            self._journal.output(frame["kind"], str(frame["text"]))

    def end(self, done: Evaluation) -> None:
        if self._begun is None:
            self._journal.code(done.result.cell, self._who, done.edited or self._code)
            for kind, text in pieces(done.result):
                self._journal.output(kind, text)
        how = done.declined or ("still running" if done.running else str(done.result.status))
        self._journal.end(done.result.cell, how, done.result.duration)

    def leave(self) -> None:
        """Note that no answer will come: the agent has stopped waiting, or the session has
        ended."""
        if self._begun is not None:
            self._journal.end(self._cell, "left", time.monotonic() - self._begun)


class SessionConnection:
    """A session in which an agent's code runs. Used on the server's event loop; methods raise
    `McpToolError`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, journal: Journal
    ) -> None:
        self._reader, self._writer = reader, writer
        self._journal = journal
        self._frames = FrameReader()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _PendingCall] = {}
        self._over = ""
        self._listening: asyncio.Task[None] | None = None
        self.session = ""
        """The session's name."""
        self.pid = 0
        """The process id of its program."""
        self.name = ""
        """The agent's name there."""

    @classmethod
    async def join(
        cls, session: str | None, project: Path, agent: str, journal: Journal
    ) -> SessionConnection:
        """Join a session by its name, or the session of a project's folder. Raises
        `McpToolError`."""
        try:
            found = await asyncio.to_thread(session_for, session, project)
            reader, writer = await asyncio.open_unix_connection(str(found.path))
        except (SharingError, OSError) as error:
            raise McpToolError(str(error)) from None
        return await cls._welcomed(cls(reader, writer, journal), agent)

    @classmethod
    async def connect(
        cls, connected: socket.socket, agent: str, journal: Journal
    ) -> SessionConnection:
        """Join the session at the other end of a socket. Raises `McpToolError`."""
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        return await cls._welcomed(cls(reader, writer, journal), agent)

    @staticmethod
    async def _welcomed(connection: SessionConnection, agent: str) -> SessionConnection:
        connection._writer.write(encode({"op": "join", "name": agent}))
        try:
            welcome = await connection._next_frames()
        except (OSError, FrameError):
            welcome = []
        if not welcome or welcome[0]["op"] != "session":
            connection._writer.close()
            raise McpToolError("The session closed the connection.")
        first = welcome[0]
        connection.session, connection.name, connection.pid = (
            str(first["name"]),
            str(first["you"]),
            int(first["pid"]),
        )
        connection._listening = asyncio.create_task(connection._listen())
        return connection

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it."""
        entry = _LogEntry(self._journal, self.name, code)
        try:
            done = await self._evaluate(code, timeout, report, entry)
        except BaseException:
            entry.leave()
            raise
        entry.end(done)
        return done

    async def _evaluate(
        self, code: str, timeout: float | None, report: Report, entry: _LogEntry
    ) -> Evaluation:
        told = await self._call(
            "run", {"code": code, "timeout": timeout, "follow": True}, report, entry
        )
        if "declined" in told:
            return Evaluation(
                CellResult(0, Status.ERROR, "", (), 0.0, ()), declined=str(told["declined"])
            )
        edited = str(told["edited"])
        if told.get("running"):
            output = str(told["output"])
            result = CellResult(
                int(told["cell"]), Status.OK, output, (("stdout", len(output)),), 0.0, ()
            )
            return Evaluation(result, bool(told["timed_out"]), running=True, edited=edited)
        pictures = [base64.b64decode(data) for data in told["pictures"]]
        result, restores = checked(CellResult, told["result"]), bool(told.get("restores"))
        return Evaluation(
            result, bool(told["timed_out"]), pictures=pictures, edited=edited, restores=restores
        )

    async def reset(self, report: Report) -> tuple[int, int]:
        """Start a new worker in the same environment. Returns the process ids of the old worker and
        the new one."""
        old, new = await self._call("reset", {}, report)
        return int(old), int(new)

    async def undo(self, cell: int | None, report: Report) -> str:
        """Restore the namespace to before a cell; None: before what was run last. Returns a
        sentence."""
        return str(await self._call("undo", {"cell": cell}, report))

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        """Change interpreter and folder; None keeps the current one."""
        return checked(
            KernelInfo, await self._call("activate", {"python": python, "folder": folder}, report)
        )

    async def permit(self, action: str, report: Report) -> None:
        """Ask the user to allow an action on the environment, described in a line."""
        await self._call("permit", {"action": action}, report)

    async def renewed(self) -> None:
        """Make the worker notice that packages have changed."""
        await self._call("renewed", {})

    async def contents(self, *, seen: bool) -> SessionContents:
        """Return what it contains. seen: whether to report the cells of others as seen, so that
        they are not listed again."""
        told = await self._call("inside", {"seen": seen})
        variables = checked(list[Variable], told["variables"])
        return SessionContents(
            checked(KernelInfo, told["kernel"]),
            variables,
            int(told["cells"]),
            float(told["busy"]),
            float(told["alive"]),
            list(told["others"]),
        )

    async def kernel(self) -> KernelInfo:
        return checked(KernelInfo, await self._call("kernel", {}))

    async def inspect(self, name: str) -> Detail:
        return checked(Detail, await self._call("inspect", {"name": name}))

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return bool(self._over)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        self._writer.close()

    async def _call(
        self,
        what: str,
        args: Mapping[str, Any],
        report: Report | None = None,
        entry: _LogEntry | None = None,
    ) -> Any:
        if self._over:
            raise McpToolError(self._over)
        number = next(self._numbers)
        waiting = self._waiting[number] = _PendingCall(entry)
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            self._writer.write(
                encode({"op": "call", "id": number, "what": what, "args": dict(args)})
            )
            while not (await asyncio.wait({waiting.answer}, timeout=BEAT))[0]:
                if report is not None:
                    seconds = loop.time() - start
                    await report(seconds, waiting.sentence(seconds))
            return waiting.answer.result()
        except FrameError as error:
            raise McpToolError(f"The call cannot be sent: {error}.") from None
        finally:
            self._waiting.pop(number, None)
            if not waiting.answer.done():
                with anyio.CancelScope(shield=True):
                    self._writer.write(encode({"op": "cancel", "id": number}))

    async def _listen(self) -> None:
        """Process frames from the session until it ends."""
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
            self._over = f"{over} {GONE}"
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.answer.done():
                    waiting.answer.set_exception(McpToolError(self._over))

    def _handle(self, frame: Frame) -> None:
        waiting = self._waiting.get(int(frame["id"]))
        if waiting is None or waiting.answer.done():
            return
        if frame["op"] in ("progress", "begun", "output"):
            waiting.on_frame(frame)
        elif frame["op"] == "refused":
            waiting.answer.set_exception(McpToolError(str(frame["text"])))
        else:
            waiting.answer.set_result(frame["value"])

    async def _next_frames(self) -> list[Frame]:
        """Read the next frames; empty at the end."""
        while data := await self._reader.read(65536):
            if frames := self._frames.feed(data):
                return frames
        return []
