"""A place in the user's live session."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from mahtab_tui.kernel.base import KernelInfo
from mahtab_tui.kernel.code_help import Detail
from mahtab_tui.kernel.results import pieces
from mahtab_tui.kernel.told import checked
from mahtab_tui.kernel.values import CellResult, Status, Variable
from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.place import Evaluation, PlaceError, PlaceInfo, Report
from mahtab_tui.session.shared_sessions import SharingError, session_for

BEAT = 1.0
"""Seconds between two reports on a running call."""

GONE = "Call mode with private to continue in your own worker, or with shared to join a session again."


class _PendingCall:
    """A call that waits for its answer."""

    def __init__(self, entry: _LogEntry | None) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.progress = "waiting for the session"
        self.entry = entry


class _LogEntry:
    """A cell in the log: written while it runs, or at its end if the log was opened after its start."""

    def __init__(self, journal: Journal, who: str, code: str) -> None:
        self._journal, self._who, self._code = journal, who, code
        self.follows = journal.mode != "off"
        self._begun: float | None = None
        self._cell = 0

    def hear(self, frame: Frame) -> None:
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
        """Note that no answer will come: the agent has stopped waiting, or the session has ended."""
        if self._begun is not None:
            self._journal.end(self._cell, "left", time.monotonic() - self._begun)


class SharedPlace:
    """`Place` through the socket of a running session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, journal: Journal) -> None:
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
    async def join(cls, session: str | None, project: Path, agent: str, journal: Journal) -> SharedPlace:
        """Join a session by its name, or the session of a project's folder. Raises `PlaceError`."""
        try:
            found = await asyncio.to_thread(session_for, session, project)
            reader, writer = await asyncio.open_unix_connection(str(found.path))
        except (SharingError, OSError) as error:
            raise PlaceError(str(error)) from None
        place = cls(reader, writer, journal)
        writer.write(encode({"op": "join", "name": agent}))
        try:
            welcome = await place._next_frames()
        except (OSError, FrameError):
            welcome = []
        if not welcome or welcome[0]["op"] != "session":
            writer.close()
            raise PlaceError("The session closed the connection.")
        place.session, place.name, place.pid = str(welcome[0]["name"]), str(welcome[0]["you"]), int(welcome[0]["pid"])
        place._listening = asyncio.create_task(place._listen())
        return place

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        entry = _LogEntry(self._journal, self.name, code)
        try:
            done = await self._evaluate(code, timeout, report, entry)
        except BaseException:
            entry.leave()
            raise
        entry.end(done)
        return done

    async def _evaluate(self, code: str, timeout: float | None, report: Report, entry: _LogEntry) -> Evaluation:
        told = await self._call("run", {"code": code, "timeout": timeout, "follow": entry.follows}, report, entry)
        if "declined" in told:
            return Evaluation(CellResult(0, Status.ERROR, "", (), 0.0, ()), declined=str(told["declined"]))
        edited = str(told["edited"])
        if told.get("running"):
            output = str(told["output"])
            result = CellResult(int(told["cell"]), Status.OK, output, (("stdout", len(output)),), 0.0, ())
            return Evaluation(result, bool(told["timed_out"]), running=True, edited=edited)
        pictures = [base64.b64decode(data) for data in told["pictures"]]
        result, restores = checked(CellResult, told["result"]), bool(told.get("restores"))
        return Evaluation(result, bool(told["timed_out"]), pictures=pictures, edited=edited, restores=restores)

    async def reset(self, report: Report) -> tuple[int, int]:
        old, new = await self._call("reset", {}, report)
        return int(old), int(new)

    async def undo(self, cell: int | None, report: Report) -> str:
        return str(await self._call("undo", {"cell": cell}, report))

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        return checked(KernelInfo, await self._call("activate", {"python": python, "folder": folder}, report))

    async def permit(self, action: str, report: Report) -> None:
        await self._call("permit", {"action": action}, report)

    async def renewed(self) -> None:
        await self._call("renewed", {})

    async def contents(self, *, seen: bool) -> PlaceInfo:
        told = await self._call("inside", {"seen": seen})
        variables = checked(list[Variable], told["variables"])
        return PlaceInfo(
            checked(KernelInfo, told["kernel"]), variables, int(told["cells"]), float(told["busy"]), float(told["alive"]), list(told["others"])
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

    async def _call(self, what: str, args: Mapping[str, Any], report: Report | None = None, entry: _LogEntry | None = None) -> Any:
        if self._over:
            raise PlaceError(self._over)
        number = next(self._numbers)
        waiting = self._waiting[number] = _PendingCall(entry)
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            self._writer.write(encode({"op": "call", "id": number, "what": what, "args": dict(args)}))
            while not (await asyncio.wait({waiting.answer}, timeout=BEAT))[0]:
                if report is not None:
                    seconds = loop.time() - start
                    await report(seconds, f"{waiting.progress} ({seconds:.0f} s)")
            return waiting.answer.result()
        except FrameError as error:
            raise PlaceError(f"The call cannot be sent: {error}.") from None
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
                    waiting.answer.set_exception(PlaceError(self._over))

    def _handle(self, frame: Frame) -> None:
        waiting = self._waiting.get(int(frame["id"]))
        if waiting is None or waiting.answer.done():
            return
        if frame["op"] == "progress":
            waiting.progress = str(frame["text"])
        elif frame["op"] in ("begun", "output"):
            if waiting.entry is not None:
                waiting.entry.hear(frame)
        elif frame["op"] == "refused":
            waiting.answer.set_exception(PlaceError(str(frame["text"])))
        else:
            waiting.answer.set_result(frame["value"])

    async def _next_frames(self) -> list[Frame]:
        """Read the next frames; empty at the end."""
        while data := await self._reader.read(65536):
            if frames := self._frames.feed(data):
                return frames
        return []
