"""The MCP server's connection to a session: the agent's own, or the one on the user's screen.

Calls and their answers are frames with a number, so that several calls can be open at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from pathlib import Path
from typing import Any, TypeVar

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cell_results import pieces
from mahtab_tui.kernel.messages import checked
from mahtab_tui.mcp.code_log import CodeLog
from mahtab_tui.mcp.session_links import OwnLink, SessionLink, SocketLink
from mahtab_tui.mcp.tools import McpToolError, Report
from mahtab_tui.session.agent_cell import Evaluation
from mahtab_tui.session.running_sessions import SharingError, find_session
from mahtab_tui.session.sharing import AgentService
from mahtab_tui.worker.link.frames import Frame, FrameError

T = TypeVar("T")

PROGRESS_INTERVAL_S = 1.0
"""Seconds between two reports on an open call."""
_MAX_LAST_LINE_CHARS = 200
"""Characters of the last line of output in such a report."""

REJOIN_HINT = "Call mode with private to continue in a session of your own, or with shared to join a session again."


class _PendingCall:
    """A call that is not answered yet."""

    def __init__(self, code_log: CodeLog, author: str, accepted: asyncio.Event | None) -> None:
        """
        Args:
            code_log: Where the call's code and output are written down.
            author: The agent's name.
            accepted: Set when the session first reports progress.
        """
        self._accepted = accepted
        self._code_log = code_log
        self._author = author
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._progress = "runs"
        """What the session has last said about the call."""
        self._last_line = ""
        """The last line of output that is not empty."""

    def on_frame(self, frame: Frame) -> None:
        """Take what the session says about the call: its progress, its output or its answer."""
        match frame["op"]:
            case "progress":
                self._progress = str(frame["text"])
                if self._accepted is not None:
                    self._accepted.set()
            case "begun":
                self._progress = "runs"
                self._code_log.write_code(frame["cell"], self._author, str(frame["code"]))
            case "output":
                self._take_output(str(frame["text"]))
            case _ if "error" in frame:
                self.answer.set_exception(McpToolError(str(frame["error"])))
            case _:
                self.answer.set_result(frame["value"])

    def _take_output(self, text: str) -> None:
        self._code_log.write_output(text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            self._last_line = lines[-1][:_MAX_LAST_LINE_CHARS]

    def describe_progress(self, seconds: float) -> str:
        """Return what is known about a call that has been open for some seconds."""
        last_line = f"; last line: {self._last_line}" if self._last_line else ""
        return f"{self._progress} ({seconds:,.0f} s){last_line}"


class SessionConnection:
    """A session in which an agent's code runs. Methods raise `McpToolError`."""

    def __init__(self, link: SessionLink, code_log: CodeLog, *, can_rejoin: bool) -> None:
        self._link = link
        self._can_rejoin = can_rejoin
        self._code_log = code_log
        self._numbers = itertools.count(1)
        self._open_calls: dict[int, _PendingCall] = {}
        """The calls that are not answered yet, by their numbers."""
        self._end_reason = ""
        """Why the connection has ended, as a sentence; empty if it has not."""
        self._welcome: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        """The session's first frame."""
        self.session = ""
        """The session's name."""
        self.pid = 0
        """Id of the process that the session runs in."""
        self.name = ""
        """The agent's name in the session."""
        self._known_calls: frozenset[str] = frozenset()
        """The calls that the session says it knows; sessions of older versions name none."""
        self.was_dismissed = False
        """Whether the session itself has ended the connection."""

    @classmethod
    async def join(
        cls, session: str | None, project: Path, agent: str, code_log: CodeLog
    ) -> SessionConnection:
        """Join a session by its name, or the session of a project's folder."""
        try:
            shared_session = await asyncio.to_thread(find_session, session, project)
        except (SharingError, OSError) as error:
            raise McpToolError(str(error)) from None
        return await cls.connect(shared_session.path, agent, code_log)

    @classmethod
    async def connect(
        cls,
        target: Path | socket.socket,
        agent: str,
        code_log: CodeLog,
        *,
        can_rejoin: bool = True,
    ) -> SessionConnection:
        """Connect to a session's socket, and wait until the agent has joined.

        Args:
            can_rejoin: Whether the agent can go on elsewhere when the session has ended.
        """
        address = {"path": str(target)} if isinstance(target, Path) else {"sock": target}
        try:
            reader, writer = await asyncio.open_unix_connection(**address)
        except OSError as error:
            raise McpToolError(
                f"The session cannot be reached: {error.strerror or error}."
            ) from None
        link = SocketLink(reader, writer)
        return await cls._open(link, agent, code_log, can_rejoin=can_rejoin)

    @classmethod
    async def connect_own(
        cls, service: AgentService, agent: str, code_log: CodeLog
    ) -> SessionConnection:
        """Join the agent's own session, which runs in this process."""
        return await cls._open(OwnLink(service), agent, code_log)

    @classmethod
    async def _open(
        cls, link: SessionLink, agent: str, code_log: CodeLog, *, can_rejoin: bool = True
    ) -> SessionConnection:
        connection = cls(link, code_log, can_rejoin=can_rejoin)
        await link.open(connection._on_frame, connection._on_end)
        link.send({"op": "join", "name": agent})
        welcome = await connection._welcome
        if welcome["op"] != "session":
            await link.close()
            raise McpToolError("The session closed the connection.")

        connection.session = str(welcome["name"])
        connection.name = str(welcome["you"])
        connection.pid = int(welcome["pid"])
        connection._known_calls = frozenset(map(str, welcome.get("calls", ())))
        return connection

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        """Run a cell. Cancelling interrupts it.

        Args:
            code: The code.
            timeout: How long it may run, in seconds; None for no limit.
            report: See `call`.
        """
        evaluation = await self.call("evaluate", Evaluation, report, code=code, timeout=timeout)
        for kind, text in pieces(evaluation.result):
            # Printed text is in the log already, because it came while the cell ran.
            if kind in ("value", "traceback"):
                self._code_log.write_output(text)
        return evaluation

    def knows(self, method: str) -> bool:
        """Return whether the session says that it knows a method of `AgentCalls`."""
        return method in self._known_calls

    async def call(
        self,
        method: str,
        result: type[T],
        report: Report | None = None,
        *,
        accepted: asyncio.Event | None = None,
        **args: object,
    ) -> T:
        """Call a method of `AgentCalls`.

        Args:
            method: The method's name.
            result: The type of its result, which is checked.
            report: Called about once a second while the call is open, with its seconds and a
                sentence.
            accepted: Set when the session first reports progress of the call.
            args: The arguments of the method.
        """
        if self._end_reason:
            raise McpToolError(self._end_reason)

        call = _PendingCall(self._code_log, self.name, accepted)
        call_id = next(self._numbers)
        start_time = time.monotonic()
        self._open_calls[call_id] = call
        try:
            frame = {"op": "call", "id": call_id, "what": method, "args": args}
            self._link.send({**frame, "logged": self._code_log.is_on})
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
            self.was_dismissed = True
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
        self._end_reason = f"{sentence} {REJOIN_HINT}" if self._can_rejoin else sentence
        if not self._welcome.done():
            self._welcome.set_result({"op": "bye", "text": sentence})
        for call in self._open_calls.values():
            if not call.answer.done():
                call.answer.set_exception(McpToolError(self._end_reason))
