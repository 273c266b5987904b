"""One server, from its start to its end, on the loop of `servers.servers.Servers`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mahtab_tui.kernel.process_end import describe_end
from mahtab_tui.servers.http_transport import http_transport
from mahtab_tui.servers.login import LOGIN_TIMEOUT_S, make_login
from mahtab_tui.servers.pipe_transport import Closed, PipeTransport
from mahtab_tui.servers.protocol_messages import Streams
from mahtab_tui.servers.state import ServerError, ServerState, ServerSurroundings
from mahtab_tui.servers.tool_arguments import ArgumentsError, check_arguments
from mahtab_tui.servers.tool_calls import call_tool
from mahtab_tui.servers.tool_listing import MAX_TOOLS, describe_server, list_tools, make_signatures
from mahtab_tui.servers.tool_results import error_text, result_parts
from mahtab_tui.servers.tool_signature import ToolSignature
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.version import __version__

_PROBE_TIMEOUT_S = 5.0
"""Seconds that a server over HTTP has to show that it still answers."""
_LOGIN_MARGIN_S = 5.0
"""Seconds that a start may take besides a login."""
_END_TIMEOUT_S = 0.2
"""Seconds after an error in which a program may turn out to have ended."""
_MAX_ERROR_CHARS = 1_000
"""Characters of an error in a sentence."""
_FAILURES = (
    MCPError,
    ValidationError,
    OSError,
    RuntimeError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)
"""What the SDK raises if a server fails."""


class Connection:
    """A server's process or HTTP session; a dead one is started again once."""

    def __init__(
        self, surroundings: ServerSurroundings, state: ServerState, server: McpServer
    ) -> None:
        self._surroundings = surroundings
        self._state = state
        self._server = server
        self._starting = asyncio.Lock()
        """Held while a run is started or ended."""
        self._run_task: asyncio.Task[None] | None = None
        """The newest run, which may have ended; None before the first, and after `stop`."""
        self._started: asyncio.Future[None]
        """Done when the newest run is ready, or has failed to start."""
        self._client: Client | None = None
        """The SDK's client, while the server runs."""
        self._closed = Closed()
        """Set when the newest run has ended."""
        self._start_timeout: asyncio.Timeout | None = None
        """The time limit of a start, which a login extends; None when the server is ready."""
        self._listed_tools: dict[str, types.Tool] = {}
        """The tools by their names on the server."""
        self._restarts = 0
        """How often it was started again without an answer in between."""

    async def ready(self) -> None:
        """Start the server, if it does not run, and list its tools again if they have changed.

        Raises `ServerError`.
        """
        async with self._starting:
            if self._run_task is not None and self._closed.event.is_set():
                await asyncio.wait([self._run_task])
            if self._run_task is None or self._run_task.done():
                self._start()
        await asyncio.shield(self._started)

        if self._state.tools_changed:
            try:
                await self._list_tools()
            except _FAILURES as error:
                raise ServerError(await self._describe_failure(error)) from None

    async def restart(self) -> None:
        """End the server and start it again. Raises `ServerError`."""
        async with self._starting:
            await self.stop()
            self._restarts = 0
            self._state.has_run = False
        await self.ready()

    def _start(self) -> None:
        """Start a run. Raises `ServerError` if the server has ended too often."""
        name = self._state.name
        reason = self._state.end_reason
        if self._state.phase == "ended" and self._state.has_run:
            if self._restarts:
                raise ServerError(
                    f"The server {name} has ended again: {reason} /mcp shows its messages; Ctrl+R there restarts it."
                )
            self._restarts += 1
            self._surroundings.report(
                f"The MCP server {name} had ended: {reason} It is being restarted."
            )

        self._started = asyncio.get_running_loop().create_future()
        # Marks an error as retrieved, because perhaps nobody waits any more.
        self._started.add_done_callback(lambda started: started.cancelled() or started.exception())
        self._closed = Closed()
        self._run_task = asyncio.create_task(self._run(self._closed, self._started))

    async def stop(self) -> None:
        """End the server, and wait until it has ended."""
        run_task = self._run_task
        self._run_task = None
        if run_task is not None:
            run_task.cancel()
            await asyncio.gather(run_task, return_exceptions=True)

    async def prepare(self, wire_name: str, arguments: Mapping[str, Any]) -> ToolSignature:
        """Start the server, and check a call's arguments.

        Args:
            wire_name: The tool's name on the server.
            arguments: The arguments by their names there.

        Raises:
            ServerError: The server did not start, has no such tool, or an argument is wrong.
        """
        await self.ready()
        if wire_name not in self._listed_tools:
            raise ServerError(f"The server {self._state.name} has no tool {wire_name!r}.")

        signature = self._state.tools[wire_name]
        try:
            check_arguments(arguments, self._listed_tools[wire_name].input_schema)
            json.dumps(arguments, ensure_ascii=False).encode()
            return signature
        except ArgumentsError as error:
            problem = f". {error}"
        except UnicodeEncodeError:
            problem = ": a text cannot be encoded as UTF-8."
        raise ServerError(f"{self._state.variable}.{signature.name} was not called{problem}")

    async def call(self, wire_name: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Call a tool, and return the parts of its result. Raises `ServerError`.

        Args:
            wire_name: The tool's name on the server.
            arguments: The arguments by their names there.
        """
        await self.prepare(wire_name, arguments)
        client = self._client
        tool = self._listed_tools[wire_name]
        if client is None:
            raise ServerError(f"The server {self._state.name} has just ended.")

        self._state.called_tool_names.setdefault(wire_name)
        try:
            result = await call_tool(client.session, wire_name, arguments)
        except _FAILURES as error:
            raise ServerError(await self._describe_failure(error)) from None
        self._restarts = 0
        if result.is_error:
            raise ServerError(
                error_text(result) or f"{wire_name} failed, and the server does not say why."
            )
        return result_parts(result, tool.output_schema)

    async def _describe_failure(self, error: Exception) -> str:
        """Return a sentence for an error during a call; notes if the server has ended."""
        name = self._state.name
        if not isinstance(error, ValidationError):
            # A program that ends may report it a moment later than the pipe breaks.
            ending = asyncio.create_task(self._closed.event.wait())
            await asyncio.wait([ending], timeout=_END_TIMEOUT_S)

        if self._closed.event.is_set() and self._server.command is not None:
            if self._run_task is not None:
                await asyncio.wait([self._run_task])
            return f"The server {name} ended during the call: {self._state.end_reason}"

        # Over HTTP nothing says that a server has ended, so it is asked.
        if self._server.url is not None:
            try:
                async with asyncio.timeout(_PROBE_TIMEOUT_S):
                    if self._client is None:
                        raise ServerError
                    await self._client.list_tools()
            except (ServerError, *_FAILURES):
                self._closed.set(_describe_error(error))
        return f"The server {name} could not answer: {_describe_error(error)}."

    async def _run(self, closed: Closed, started: asyncio.Future[None]) -> None:
        """Run the server until it ends or is stopped.

        Args:
            closed: Set when the server has ended.
            started: Set when it is ready, or with the reason why it did not start.
        """
        state = self._state
        state.phase = "starting"
        state.end_reason = ""
        start_seconds = self._surroundings.start_seconds
        try:
            async with (
                asyncio.timeout(start_seconds) as self._start_timeout,
                self._make_client(closed) as client,
            ):
                self._client = client
                await self._list_tools()
                # The time limit holds for the start only; then the server may run for ever.
                self._start_timeout.reschedule(None)
                self._start_timeout = None
                state.self_description = describe_server(client)
                state.phase = "running"
                state.has_run = True
                started.set_result(None)
                await closed.event.wait()
        except asyncio.CancelledError:
            state.end_reason = "It was stopped."
            raise
        except TimeoutError:
            state.end_reason = f"It was not ready within {start_seconds:g} seconds."
        # Also the SDK's groups of exceptions; the loop and other servers go on.
        except BaseException as error:
            state.end_reason = state.end_reason or f"{_describe_error(error)}."
        finally:
            self._note_end(closed, started)

    def _make_client(self, closed: Closed) -> Client:
        """Return a client of the SDK, which connects when it is entered."""
        return Client(
            self._open_transport(closed),
            client_info=types.Implementation(name="mahtab-tui", version=__version__),
            message_handler=self._on_message,
            cache=None,
        )

    def _note_end(self, closed: Closed, started: asyncio.Future[None]) -> None:
        """Store that a run has ended, and why, for those who wait for it."""
        state = self._state
        self._client = None
        self._start_timeout = None
        state.phase = "ended"
        state.login = ""
        closed.set()
        if closed.reason or closed.exit_code is not None:
            end = closed.reason or describe_end(closed.exit_code or 0)
            last_line = state.messages.last_line
            state.end_reason = f"{end} ({last_line})." if last_line else f"{end}."
        if not started.done():
            reason = state.end_reason or "it ended."
            text = f"The server {state.name} could not be started: {reason}"
            started.set_exception(ServerError(text))

    def _open_transport(self, closed: Closed) -> AbstractAsyncContextManager[Streams]:
        """Return the way to the server: a process's pipes, or HTTP with a login if that is needed."""
        server = self._server
        messages = self._state.messages
        if server.url is None:
            return PipeTransport(server, self._surroundings.folder, messages, closed)
        login = None
        if not any(name.lower() == "authorization" for name in server.headers):
            login = make_login(server.url, self._surroundings.logins, self._ask_to_log_in)
        return http_transport(server, login, messages)

    def _ask_to_log_in(self, url: str) -> None:
        """Ask the user to visit an address, and give the start the time for that.

        Args:
            url: Empty when the user has done so.
        """
        self._state.login = url
        if self._start_timeout is not None:
            seconds = LOGIN_TIMEOUT_S + _LOGIN_MARGIN_S if url else self._surroundings.start_seconds
            self._start_timeout.reschedule(asyncio.get_running_loop().time() + seconds)
        if url:
            self._surroundings.report(
                f"The MCP server {self._state.name} wants you to log in: open {url} in a browser on this machine."
            )

    async def _list_tools(self) -> None:
        """Ask the server for its tools, and make their signatures."""
        assert self._client is not None
        self._state.tools_changed = False
        listed = await list_tools(self._client)
        if listed.is_cut:
            self._state.messages.add_line(f"[only the first {MAX_TOOLS:,} tools are used]")
        self._listed_tools = listed.tools
        self._state.set_tools(make_signatures(listed.tools))

    async def _on_message(self, message: object) -> None:
        """Note that the server has other tools now."""
        if isinstance(message, types.ToolListChangedNotification):
            self._state.tools_changed = True


def _describe_error(error: BaseException) -> str:
    """Return an error as a clause without its full stop."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        return f"its answer does not follow the protocol ({place}: {problem['msg']})"
    if isinstance(error, MCPError) and str(error).startswith("Failed to parse"):
        return "its answer cannot be read"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist"
    return (str(error) or type(error).__name__).strip().rstrip(".")[:_MAX_ERROR_CHARS]
