"""One server, from its start to its end. Everything runs on the loop of `servers.Servers`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mahtab_tui import __version__
from mahtab_tui.kernel.launch import describe_end
from mahtab_tui.servers.login import LOGIN_SECONDS, login_to
from mahtab_tui.servers.schema import (
    ArgumentChecker,
    ArgumentsError,
    ToolSignature,
    build_signature,
    error_text,
    identifier,
    result_parts,
    with_required,
)
from mahtab_tui.servers.servers import SavedLogins, ServerError, ServerState
from mahtab_tui.servers.transport import Closed, PipeTransport, http_transport
from mahtab_tui.settings.mcp_servers import McpServer

_PATIENCE = 5.0
"""Seconds for a server to answer whether it is there."""
MOST_TOOLS = 2_000
_MOST_PAGES = 100


class Connection:
    """A server's process or HTTP session; a dead one is started again once."""

    def __init__(
        self,
        state: ServerState,
        server: McpServer,
        folder: Path,
        logins: SavedLogins,
        report: Callable[[str], None],
        start_seconds: float,
    ) -> None:
        """report: called with a sentence for the user."""
        self._state = state
        self._server = server
        self._folder = folder
        self._logins = logins
        self._report = report
        self._start_seconds = start_seconds
        self._checker = ArgumentChecker()
        self._turn = asyncio.Lock()
        """Held by the one who starts or ends the server."""
        self._starting: asyncio.Future[None] | None = None
        """Set while the server starts."""
        self._living: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._closed = Closed()
        self._limit: asyncio.Timeout | None = None
        """The time for the start."""
        self._listed: dict[str, types.Tool] = {}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        """Schemas of the tools' arguments."""
        self._restarts = 0
        """How often it was started again since it last answered a call."""

    async def ready(self) -> None:
        """Start the server, if it does not run. Raises `ServerError`."""
        async with self._turn:
            if self._living is not None and self._closed.event.is_set():
                await asyncio.wait([self._living])
            if self._client is None and self._starting is None:
                await self._start()
        if self._starting is not None:
            await asyncio.shield(self._starting)
        elif self._state.stale:
            await self._list()

    async def restart(self) -> None:
        """End the server and start it, as the user wants. Raises `ServerError`."""
        async with self._turn:
            await self.stop()
            self._restarts = 0
            self._state.ran = False
        await self.ready()

    async def _start(self) -> None:
        """Begin to start the server, for the first time or again. Raises `ServerError` if it has
        ended too often."""
        name, why, died = (
            self._state.name,
            self._state.why,
            self._state.phase == "ended" and self._state.ran,
        )
        if died and self._restarts:
            raise ServerError(
                f"The server {name} has ended again: {why} /mcp shows its messages; Ctrl+R there restarts it."
            )
        self._restarts += died
        await self.stop()
        if died:
            self._report(f"The MCP server {name} had ended: {why} It is being restarted.")
        self._starting = asyncio.get_running_loop().create_future()
        self._starting.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # nobody may wait for it any more
        self._closed = Closed()
        self._living = asyncio.create_task(self._live(self._starting))

    async def stop(self) -> None:
        """End the server, and wait for that."""
        living, self._living = self._living, None
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def prepare(self, wire: str, arguments: Mapping[str, Any]) -> ToolSignature:
        """Start the server, and check the arguments of a call. Raises `ServerError`."""
        await self.ready()
        tool = self._listed.get(wire)
        if tool is None:
            raise ServerError(f"The server {self._state.name} has no tool {wire!r}.")
        signature = self._state.tools[wire]
        try:
            self._checker.check(arguments, self._schemas[wire])
            json.dumps(arguments, ensure_ascii=False).encode()
        except ArgumentsError as error:
            raise ServerError(
                f"{self._state.python}.{signature.name} was not called. {error}"
            ) from None
        except UnicodeEncodeError:
            raise ServerError(
                f"{self._state.python}.{signature.name} was not called: a text cannot be encoded as UTF-8."
            ) from None
        return signature

    async def call(self, wire: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Call a tool and return the parts of its result. Raises `ServerError`."""
        await self.prepare(wire, arguments)
        client, tool = self._client, self._listed[wire]
        if client is None:
            raise ServerError(f"The server {self._state.name} has just ended.")
        self._state.used.setdefault(wire)
        # Not `Client.call_tool`, which would check the result against the server's own patterns
        # without a time limit.
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=wire, arguments=dict(arguments))
        )
        try:
            result = await client.session.send_request(request, types.CallToolResult)
        except (
            MCPError,
            ValidationError,
            OSError,
            RuntimeError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ) as error:
            raise ServerError(await self._failure(error)) from None
        self._restarts = 0
        if result.is_error:
            raise ServerError(
                error_text(result.content) or f"{wire} failed, and the server does not say why."
            )
        return result_parts(result, tool.output_schema)

    async def _failure(self, error: Exception) -> str:
        if not isinstance(error, ValidationError):
            await asyncio.wait([asyncio.create_task(self._closed.event.wait())], timeout=0.2)
        if self._closed.event.is_set() and self._server.command is not None:
            if self._living is not None:
                await asyncio.wait([self._living])
            return f"The server {self._state.name} ended during the call: {self._state.why}"
        if self._server.url is not None and not await self._answers():
            self._closed.set(_describe_error(error))
        return f"The server {self._state.name} could not answer: {_describe_error(error)}."

    async def _answers(self) -> bool:
        """Whether the server at an address still knows this connection."""
        if self._client is None:
            return False
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._client.list_tools()
        except (
            MCPError,
            ValidationError,
            OSError,
            RuntimeError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            return False
        return True

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Start the server, tell that it is ready, and wait for its end."""
        state = self._state
        state.phase, state.why = "starting", ""
        closed = self._closed
        try:
            async with asyncio.timeout(self._start_seconds) as self._limit:
                async with Client(
                    self._transport(closed),
                    client_info=types.Implementation(name="mahtab-tui", version=__version__),
                    message_handler=self._on_message,
                    logging_callback=self._logged,
                    cache=None,
                ) as client:
                    self._client = client
                    await self._list()
                    state.about = _about(client)
                    self._limit.reschedule(None)
                    self._limit = None
                    state.phase, state.ran = "running", True
                    self._starting = None
                    started.set_result(None)
                    await closed.event.wait()
        except asyncio.CancelledError:
            state.why = "It was stopped."
            raise
        except TimeoutError:
            state.why = f"It was not ready within {self._start_seconds:g} seconds."
        except (
            BaseException
        ) as error:  # also the SDK's groups of exceptions; the loop and other servers go on
            state.why = state.why or f"{_describe_error(error)}."
        finally:
            self._client = self._limit = None
            state.phase, state.login = "ended", ""
            self._closed.set()
            self._starting = None
            if closed.why or closed.code is not None:
                state.why = self._ending(closed)
            if not started.done():
                started.set_exception(
                    ServerError(
                        f"The server {state.name} could not be started: {state.why or 'it ended.'}"
                    )
                )

    def _ending(self, closed: Closed) -> str:
        why = closed.why or (
            describe_end(closed.code) if closed.code is not None else "it closed its output"
        )
        last = self._state.messages.last_line
        return f"{why}{f' ({last})' if last else ''}."

    def _transport(self, closed: Closed) -> Any:
        if self._server.url is not None:
            own = any(name.lower() == "authorization" for name in self._server.headers)
            return http_transport(
                self._server,
                None if own else login_to(self._server.url, self._logins, self._ask_to_log_in),
                self._state.messages,
            )
        return PipeTransport(self._server, self._folder, self._state.messages, closed)

    def _ask_to_log_in(self, url: str) -> None:
        """Tell the user where to log in, or note with "" that nobody waits for that any more."""
        self._state.login = url
        if self._limit is not None:
            self._limit.reschedule(
                asyncio.get_running_loop().time()
                + (LOGIN_SECONDS + _PATIENCE if url else self._start_seconds)
            )
        if url:
            self._report(
                f"The MCP server {self._state.name} wants you to log in: open {url} in a browser on this machine."
            )

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
        if len(listed) > MOST_TOOLS:
            self._state.messages.add_line(f"[only the first {MOST_TOOLS:,} tools are used]")
        self._listed = dict(list(listed.items())[:MOST_TOOLS])
        self._schemas = {
            wire: with_required(tool.input_schema) for wire, tool in self._listed.items()
        }
        tools: dict[str, ToolSignature] = {}
        names: set[str] = set()
        for wire, tool in self._listed.items():
            name = identifier(wire, names)
            names.add(name)
            read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            tools[wire] = build_signature(
                wire,
                self._schemas[wire],
                tool.description or tool.title or "",
                read_only=read_only,
                name=name,
            )
        self._state.change(tools)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._state.stale = True

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        self._state.messages.add_line(f"{params.level}: {text[:10_000]}")


def _about(client: Client) -> str:
    """The server's own words about itself: one line."""
    info = client.server_info
    words = client.instructions or (info.title or info.name if info is not None else "")
    return " ".join((words or "").split())[:80]


def _describe_error(error: BaseException) -> str:
    """Return the reason of a failure, without a full stop; of a group, that of its first
    exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer does not follow the protocol ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    if isinstance(error, MCPError) and str(error).startswith(
        "Failed to parse"
    ):  # the SDK's report, on many lines
        return "its answer cannot be read"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist"
    return (str(error) or type(error).__name__).strip().rstrip(".")[:1_000]
