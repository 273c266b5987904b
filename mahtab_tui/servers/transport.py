"""Transports to servers. The SDK's own transport for pipes takes quadratic time for long lines, and
its program may outlive a killed parent."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
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
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from mahtab_tui.servers.schema import MAX_BARE_BYTES
from mahtab_tui.servers.state import ServerMessages
from mahtab_tui.settings.sources import McpServer
from mahtab_tui.system import signal_group, tie_to_parent
from mahtab_tui.worker.link.frames import FrameError, check_bare

_ANSWER = re.compile(rb"""["'](?:jsonrpc|result)["']\s*:|\A\s*\{\s*\Z""")
"""Matches answers, even broken ones, but not a line that a server prints by mistake."""
_PROTOCOL_VERSION = "2025-11-25"
_ANY_OBJECT = {"type": "object"}

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A longer message would keep other threads waiting."""
TOO_LONG = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB"
TOO_MUCH = f"it sent a message with more than {MAX_BARE_BYTES // 2**20} MB outside its texts"
EXIT_GRACE_S = 0.5
"""Seconds that a program has to end by itself, and again after each signal."""
_POLL_INTERVAL_S = 0.01
_READ_BYTES = 65_536
# A tool may take as long as it likes; the user can stop it.
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)

ReceivedStream = anyio.abc.ObjectReceiveStream[SessionMessage | Exception]
Streams = tuple[ReceivedStream, anyio.abc.ObjectSendStream[SessionMessage]]


class ToolRepairStream(ReceivedStream):
    """Keeps a tool with an odd description from making the others unusable."""

    def __init__(self, received: ReceivedStream, note: Callable[[str], object]) -> None:
        self._received = received
        self._note = note

    async def receive(self) -> SessionMessage | Exception:
        item = await self._received.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            tools = result.get("tools")
            if isinstance(tools, list):
                result["tools"] = list(self._usable_tools(tools))
        return item

    async def aclose(self) -> None:
        await self._received.aclose()

    def _usable_tools(self, tools: list[object]) -> Iterator[dict[str, Any]]:
        """Yield the tools, without what makes some of them invalid."""
        for tool in tools:
            problem = _find_problem(tool)
            if problem is None:
                yield cast("dict[str, Any]", tool)
                continue

            definition = tool if isinstance(tool, dict) else {}
            name = repr(definition.get("name", tool))[:100]
            simple_tool = _simplify(definition)
            if _find_problem(simple_tool) is not None:
                self._note(f"[the tool {name} was left out: {problem}]")
            else:
                self._note(f"[the tool {name} does not follow the protocol: {problem}]")
                yield simple_tool


def _simplify(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool with its texts and its input schema only."""
    simple_tool: dict[str, Any] = {}
    for name in ("name", "title", "description"):
        if isinstance(tool.get(name), str):
            simple_tool[name] = tool[name]
    schema = tool.get("inputSchema")
    properties = schema if isinstance(schema, dict) else {}
    return {**simple_tool, "inputSchema": {**properties, **_ANY_OBJECT}}


def _find_problem(tool: object) -> str | None:
    """Return what is wrong with a tool's definition; None if it is valid."""
    try:
        validate_server_result("tools/list", _PROTOCOL_VERSION, {"tools": [tool]})
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"][2:])) or "it"
        return f"{place}: {problem['msg']}"[:300]
    return None


class Closed:
    """Whether a server has ended, and why."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason = ""
        self.exit_code: int | None = None
        """Of its process; None if that is unknown."""

    def set(self, reason: str = "") -> None:
        """Note that it has ended. The first reason counts."""
        self.reason = self.reason or reason
        self.event.set()


class PipeTransport:
    """A program's stdin and stdout, as the SDK's `Transport`. Its thread must live as long."""

    def __init__(
        self, server: McpServer, folder: Path, messages: ServerMessages, closed: Closed
    ) -> None:
        self._command = [server.command or "", *server.args]
        self._env: Mapping[str, str] = get_default_environment() | server.env
        self._folder = folder / Path(server.cwd or ".").expanduser()
        self._messages = messages
        self._closed = closed
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[str, RequestId] = {}
        """Requests without an answer."""
        self._process: asyncio.subprocess.Process
        self._is_ending = False

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
        self._streams = (incoming, received, sent, outgoing)
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
        if transport is not None:  # it stays open while a child of the server has its pipes
            transport.close()
            await asyncio.sleep(0)

    async def _read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        assert self._process.stdout is not None
        reason = ""
        try:
            while line := await self._process.stdout.readline():
                check_bare(line, MAX_BARE_BYTES)
                if line.strip():
                    for message in self._read_messages(line):
                        await incoming.send(SessionMessage(message))
        except FrameError:
            reason = TOO_MUCH
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
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            line_start = line[:200].decode(errors="replace").rstrip()
            self._messages.add_line(f"[not a message: {line_start}]")
            if _ANSWER.search(line) is None:
                return []
            text = f"its answer cannot be read ({error.errors()[0]['msg']})"
            return self._fail_all(ErrorData(code=PARSE_ERROR, message=text))
        if isinstance(message, JSONRPCError) and message.id is None:  # it could not read a request
            return self._fail_all(message.error)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._waiting.pop(str(message.id), None)
        return [message]

    def _fail_all(self, error: ErrorData) -> list[JSONRPCMessage]:
        """Return an error for each request, since it is not known whose answer came."""
        request_ids = list(self._waiting.values())
        self._waiting = {}
        return [JSONRPCError(jsonrpc="2.0", id=number, error=error) for number in request_ids]

    async def _write(self, outgoing: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, anyio.ClosedResourceError):
            async for message in outgoing:
                if isinstance(message.message, JSONRPCRequest):
                    self._waiting[str(message.message.id)] = message.message.id
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(f"{line}\n".encode())
                await self._process.stdin.drain()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with contextlib.suppress(ConnectionError):
            while data := await self._process.stderr.read(_READ_BYTES):
                self._messages.add(decoder.decode(data))

    async def _end_process(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._wait_for_exit_code() is not None:
                break
            signal_group(self._process.pid, number)
        await self._wait_for_exit_code()
        signal_group(self._process.pid, signal.SIGKILL)  # its children

    async def _wait_for_exit_code(self) -> int | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_GRACE_S
        # `Process.wait` would also wait for children of the program that have its pipes.
        while self._process.returncode is None and loop.time() < deadline:
            await asyncio.sleep(_POLL_INTERVAL_S)
        return self._process.returncode


@contextlib.asynccontextmanager
async def http_transport(
    server: McpServer, login: httpx2.Auth | None, messages: ServerMessages
) -> AsyncIterator[Streams]:
    """Connect to a server over HTTP, and limit the size of its answers."""
    headers = {"accept-encoding": "identity", **server.headers}  # so that their size is known

    async def limit(response: httpx2.Response) -> None:
        if "text/event-stream" not in response.headers.get("content-type", ""):  # the SDK does
            response.stream = _LimitedBody(response.stream)  # type: ignore[arg-type]

    async with (
        httpx2.AsyncClient(
            headers=headers, auth=login, timeout=_HTTP_TIMEOUT, event_hooks={"response": [limit]}
        ) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as (received, sent),
    ):
        yield ToolRepairStream(received, messages.add_line), sent  # type: ignore[arg-type, misc]


class _LimitedBody(httpx2.AsyncByteStream):
    """The body of an answer, which fails if it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for piece in self._stream:
            body += piece
            if len(body) > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(TOO_LONG)
        try:
            check_bare(bytes(body), MAX_BARE_BYTES)
        except FrameError:
            raise httpx2.ReadError(TOO_MUCH) from None
        yield bytes(body)

    async def aclose(self) -> None:
        await self._stream.aclose()
