"""One server, from its start to its end, on the loop of `servers.Servers`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mahtab_tui import __version__
from mahtab_tui.servers.schema import (
    ToolSignature,
    build_signature,
    error_text,
    identifier,
    result_parts,
)
from mahtab_tui.servers.servers import (
    ServerError,
    ServerMessages,
    Servers,
    ServerState,
)
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.system import start_thread, tie_to_parent

_PATIENCE = 5.0
MOST_TOOLS = 2_000
_MOST_PAGES = 100
_FAILURES = (
    MCPError,
    ValidationError,
    OSError,
    RuntimeError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)

LONGEST = 32 * 1024 * 1024
"""Bytes of one message over HTTP."""
TOO_LONG = f"it sent a message of more than {LONGEST // 2**20} MB"
# A tool may take as long as it likes; the user can stop it.
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)


class Connection:
    """A server's process or HTTP session. One that has ended is started again at its next use."""

    def __init__(self, servers: Servers, state: ServerState, server: McpServer) -> None:
        self._servers = servers
        self._state = state
        self._server = server
        self._turn = asyncio.Lock()
        self._living: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None]
        """Belongs to the newest life; done when it is ready."""
        self._ended = asyncio.Event()
        self._client: Client | None = None
        self._schemas: dict[str, Any] = {}
        """Output schemas by tool."""

    async def ready(self) -> None:
        """Start the server, if it does not run. Raises `ServerError`."""
        async with self._turn:
            if self._living is not None and self._ended.is_set():
                await asyncio.wait([self._living])
            if self._living is None or self._living.done():
                if self._state.phase == "ended" and self._state.revision:
                    self._servers.report(
                        f"The MCP server {self._state.name} had ended: {self._state.why} It is being restarted."
                    )
                self._started = asyncio.get_running_loop().create_future()
                # Nobody may wait for it any more.
                self._started.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._ended = asyncio.Event()
                self._living = asyncio.create_task(self._live(self._ended, self._started))
        await asyncio.shield(self._started)
        if self._state.stale:
            try:
                await self._list()
            except _FAILURES as error:
                raise ServerError(await self._failure(error)) from None

    async def restart(self) -> None:
        """Raises `ServerError`."""
        async with self._turn:
            await self.stop()
            self._state.phase = "not started"
        await self.ready()

    async def stop(self) -> None:
        living, self._living = self._living, None
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def prepare(self, wire: str, arguments: Mapping[str, Any]) -> ToolSignature:
        """Start the server, and find a tool. Raises `ServerError`."""
        await self.ready()
        signature = self._state.tools.get(wire)
        if signature is None:
            raise ServerError(f"The server {self._state.name} has no tool {wire!r}.")
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ServerError(
                f"{self._state.python}.{signature.name} was not called: a text cannot be encoded as UTF-8."
            ) from None
        return signature

    async def call(self, wire: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Call a tool; returns the parts of its result. Raises `ServerError`."""
        await self.prepare(wire, arguments)
        if self._client is None:
            raise ServerError(f"The server {self._state.name} has just ended.")
        self._state.used.setdefault(wire)
        # Not `Client.call_tool`, which would check the result against the server's own patterns
        # without a time limit.
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=wire, arguments=dict(arguments))
        )
        try:
            result = await self._client.session.send_request(request, types.CallToolResult)
        except _FAILURES as error:
            raise ServerError(await self._failure(error)) from None
        if result.is_error:
            raise ServerError(
                error_text(result.content) or f"{wire} failed, and the server does not say why."
            )
        return result_parts(result, self._schemas.get(wire))

    async def _failure(self, error: Exception) -> str:
        name = self._state.name
        if not isinstance(error, ValidationError):
            await asyncio.wait([asyncio.create_task(self._ended.wait())], timeout=0.2)
        if self._ended.is_set() and self._server.url is None:
            if self._living is not None:
                await asyncio.wait([self._living])
            return f"The server {name} ended during the call: {self._state.why}"
        if self._server.url is not None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    if self._client is None:
                        raise ServerError
                    await self._client.list_tools()
            except (ServerError, *_FAILURES):
                self._state.why = f"{_describe_error(error)}."
                self._ended.set()
        return f"The server {name} could not answer: {_describe_error(error)}."

    async def _live(self, ended: asyncio.Event, started: asyncio.Future[None]) -> None:
        state = self._state
        state.phase, state.why = "starting", ""
        try:
            async with asyncio.timeout(self._servers.start_seconds) as limit:
                async with Client(
                    self._transport(ended),
                    client_info=types.Implementation(name="mahtab-tui", version=__version__),
                    message_handler=self._on_message,
                    cache=None,
                ) as client:
                    self._client = client
                    await self._list()
                    state.about = _about(client)
                    limit.reschedule(None)
                    state.phase = "running"
                    started.set_result(None)
                    await ended.wait()
        except asyncio.CancelledError:
            state.why = "It was stopped."
            raise
        except TimeoutError:
            state.why = f"It was not ready within {self._servers.start_seconds:g} seconds."
        # Also the SDK's groups of exceptions; the loop and other servers go on.
        except BaseException as error:
            state.why = "" if ended.is_set() else f"{_describe_error(error)}."
        finally:
            self._client, state.phase = None, "ended"
            ended.set()
            last = state.messages.last_line
            state.why = state.why or f"it ended{f' ({last})' if last else ''}."
            if not started.done():
                started.set_exception(
                    ServerError(f"The server {state.name} could not be started: {state.why}")
                )

    @contextlib.asynccontextmanager
    async def _transport(self, ended: asyncio.Event) -> AsyncIterator[Any]:
        server = self._server
        if server.url is None:
            # A killed program would leave its servers behind, so they are tied to this thread.
            command, *args = tie_to_parent([server.command or "", *server.args])
            parameters = StdioServerParameters(
                command=command,
                args=args,
                env=server.env,
                cwd=self._servers.folder / Path(server.cwd or ".").expanduser(),
                encoding_error_handler="replace",
            )
            read_end, write_end = os.pipe()
            copying = start_thread("mcp-messages", _copy, read_end, self._state.messages)
            with os.fdopen(write_end, "w") as log:
                async with stdio_client(parameters, log) as (received, sent):
                    yield _Received(received, ended), sent
            await asyncio.to_thread(copying.join, 0.5)
            return
        async with (
            httpx2.AsyncClient(
                headers={"accept-encoding": "identity", **server.headers},
                timeout=_HTTP_TIMEOUT,
                event_hooks={"response": [_limit]},
            ) as client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=LONGEST) as (
                received,
                sent,
            ),
        ):
            yield _Received(received, ended), sent

    async def _list(self) -> None:
        assert self._client is not None
        self._state.stale = False
        listed: dict[str, types.Tool] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            listed.update((tool.name, tool) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(listed) > MOST_TOOLS:
                break
        tools: dict[str, ToolSignature] = {}
        names: set[str] = set()
        for wire, tool in list(listed.items())[:MOST_TOOLS]:
            name = identifier(wire, names)
            names.add(name)
            read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            words = tool.description or tool.title or ""
            tools[wire] = build_signature(
                wire, tool.input_schema, words, read_only=read_only, name=name
            )
        self._schemas = {wire: tool.output_schema for wire, tool in listed.items()}
        self._state.change(tools)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._state.stale = True


class _Received(anyio.abc.ObjectReceiveStream[SessionMessage | Exception]):
    """Notices the end, and gives a tool without a usable schema one that takes any arguments: the
    SDK would refuse the whole list."""

    def __init__(self, received: Any, ended: asyncio.Event) -> None:
        self._received = received
        self._ended = ended

    async def receive(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._received.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended.set()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
            result = item.message.result
            if isinstance(tools := result.get("tools"), list):
                result["tools"] = list(_usable(tools))
        return item

    async def aclose(self) -> None:
        await self._received.aclose()


def _usable(tools: list[Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            schema = tool.get("inputSchema")
            if not isinstance(schema, dict) or schema.get("type") != "object":
                tool = {**tool, "inputSchema": {"type": "object"}}
            yield tool


def _copy(pipe: int, messages: ServerMessages) -> None:
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while data := file.read(65536):
            messages.add(data.decode(errors="replace"))


async def _limit(response: httpx2.Response) -> None:
    if "text/event-stream" not in response.headers.get("content-type", ""):  # the SDK does
        response.stream = _LimitedBody(response.stream)  # type: ignore[arg-type]


class _LimitedBody(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for piece in self._stream:
            length += len(piece)
            if length > LONGEST:
                raise httpx2.ReadError(TOO_LONG)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _about(client: Client) -> str:
    info = client.server_info
    words = client.instructions or (info.title or info.name if info is not None else "")
    return " ".join((words or "").split())[:80]


def _describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return f"its answer does not follow the protocol ({error.errors()[0]['msg']})"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist"
    return (str(error) or type(error).__name__).strip().rstrip(".")[:1_000]
