"""A server's program and its pipes, as a transport of the SDK.

The SDK's own transport for pipes takes quadratic time for long lines, and its program may outlive a
killed parent.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mahtab_tui.servers.protocol_messages import (
    MAX_MESSAGE_BYTES,
    TOO_LONG,
    TOO_MUCH,
    Streams,
    ToolRepairStream,
)
from mahtab_tui.servers.state import ServerMessages
from mahtab_tui.servers.tool_results import MAX_STRUCTURE_BYTES
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.system import signal_group, tie_to_parent
from mahtab_tui.worker.link.json_structure import exceeds_structure_limit

_ANSWER = re.compile(rb"""["'](?:jsonrpc|result)["']\s*:|\A\s*\{\s*\Z""")
"""Matches answers, even broken ones, but not a line that a server prints by mistake."""

EXIT_GRACE_S = 0.5
"""Seconds that a program has to end by itself, and again after each signal."""
_POLL_INTERVAL_S = 0.01
"""Seconds between looks at whether the program has ended."""
_READ_BYTES = 65_536
"""Bytes of the program's errors that are read at a time."""
_SHOWN_LINE_BYTES = 200
"""Bytes of a line that is not a message, for the list of the server's messages."""


_MemoryStream = (
    MemoryObjectSendStream[SessionMessage]
    | MemoryObjectSendStream[SessionMessage | Exception]
    | MemoryObjectReceiveStream[SessionMessage]
    | MemoryObjectReceiveStream[SessionMessage | Exception]
)


class Closed:
    """Whether a server has ended, and why."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason = ""
        self.exit_code: int | None = None
        """The exit code of its process; None if it is unknown."""

    def set(self, reason: str = "") -> None:
        """Note that it has ended. The first reason counts."""
        self.reason = self.reason or reason
        self.event.set()


class PipeTransport:
    """A program's stdin and stdout, as the SDK's `Transport`. Its thread must live as long."""

    def __init__(
        self, server: McpServer, folder: Path, messages: ServerMessages, closed: Closed
    ) -> None:
        """
        Args:
            server: The program.
            folder: Where it starts, unless its settings say otherwise.
            messages: Gets what it prints besides messages of the protocol.
            closed: Set when it has ended.
        """
        self._command = [server.command or "", *server.args]
        self._env: Mapping[str, str] = get_default_environment() | server.env
        self._folder = folder / Path(server.cwd or ".").expanduser()
        self._messages = messages
        self._closed = closed
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: list[_MemoryStream] = []
        """Both ends of the streams between the pipes and the SDK."""
        self._waiting: dict[str, RequestId] = {}
        """Requests without an answer, by their ids as text."""
        self._process: asyncio.subprocess.Process
        self._is_ending = False
        """Whether we end the program, so that its end is not an event."""

    async def __aenter__(self) -> Streams:
        self._process = await asyncio.create_subprocess_exec(
            *tie_to_parent(self._command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._folder,
            start_new_session=True,
            limit=MAX_MESSAGE_BYTES,
        )
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = [incoming, received, sent, outgoing]
        self._tasks = [
            asyncio.create_task(self._read(incoming)),
            asyncio.create_task(self._write(outgoing)),
            asyncio.create_task(self._read_errors()),
        ]
        return ToolRepairStream(received, self._messages.add_line), sent

    async def __aexit__(self, *error: object) -> None:
        self._is_ending = True
        with anyio.CancelScope(shield=True):
            await self._end_process()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            stream.close()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            # It would stay open while a child of the server has its pipes.
            transport.close()
            await asyncio.sleep(0)

    async def _read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on the messages that the program writes, until it ends or writes too much."""
        assert self._process.stdout is not None
        reason = ""
        try:
            while line := await self._process.stdout.readline():
                if exceeds_structure_limit(line, MAX_STRUCTURE_BYTES):
                    reason = TOO_MUCH
                    break
                if line.strip():
                    for message in self._read_messages(line):
                        await incoming.send(SessionMessage(message))
        except ValueError:
            reason = TOO_LONG
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass
        finally:
            if not self._is_ending:
                if not reason:
                    self._closed.exit_code = await self._wait_for_exit_code()
                self._closed.set(reason)
            incoming.close()

    def _read_messages(self, line: bytes) -> Sequence[JSONRPCMessage]:
        """Return the message in a line, or what takes its place if it cannot be read."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            line_start = line[:_SHOWN_LINE_BYTES].decode(errors="replace").rstrip()
            self._messages.add_line(f"[not a message: {line_start}]")
            if _ANSWER.search(line) is None:
                return []
            text = f"its answer cannot be read ({error.errors()[0]['msg']})"
            return self._fail_all(ErrorData(code=PARSE_ERROR, message=text))
        if isinstance(message, JSONRPCError) and message.id is None:
            # The server could not read a request.
            return self._fail_all(message.error)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._waiting.pop(str(message.id), None)
        return [message]

    def _fail_all(self, error: ErrorData) -> list[JSONRPCMessage]:
        """Return an error for each open request, because it is not known which one failed."""
        request_ids = list(self._waiting.values())
        self._waiting = {}
        return [JSONRPCError(jsonrpc="2.0", id=number, error=error) for number in request_ids]

    async def _write(self, outgoing: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
        """Write the SDK's messages to the program."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, anyio.ClosedResourceError):
            async for message in outgoing:
                if isinstance(message.message, JSONRPCRequest):
                    self._waiting[str(message.message.id)] = message.message.id
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(f"{line}\n".encode())
                await self._process.stdin.drain()

    async def _read_errors(self) -> None:
        """Keep what the program prints to stderr, for the user."""
        assert self._process.stderr is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with contextlib.suppress(ConnectionError):
            while data := await self._process.stderr.read(_READ_BYTES):
                self._messages.add(decoder.decode(data))

    async def _end_process(self) -> None:
        """End the program and its children, by signals only if it does not end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._wait_for_exit_code() is not None:
                break
            signal_group(self._process.pid, number)
        await self._wait_for_exit_code()
        # Its children may still run.
        signal_group(self._process.pid, signal.SIGKILL)

    async def _wait_for_exit_code(self) -> int | None:
        """Wait a moment for the program's end; None if it still runs."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_GRACE_S
        # `Process.wait` would also wait for children of the program that have its pipes.
        while self._process.returncode is None and loop.time() < deadline:
            await asyncio.sleep(_POLL_INTERVAL_S)
        return self._process.returncode
