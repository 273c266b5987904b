"""The MCP server: it offers our tools to a client over stdin and stdout.

`mahtab-tui mcp` runs it. What the tools do is in `mcp/handlers.py`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.mcp.handlers import AttachOptions, ToolHandlers
from mahtab_tui.mcp.packages import find_environment
from mahtab_tui.mcp.tools import McpToolError, ToolAnswer
from mahtab_tui.protocol_streams import ProtocolStreams, take_stdio
from mahtab_tui.settings.model import Settings, SettingsError, load_settings
from mahtab_tui.system import exit_by_signal
from mahtab_tui.version import __version__

if TYPE_CHECKING:
    import mcp_types as types
    from anyio import CancelScope
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    Context = ServerRequestContext[Any]


INSTRUCTIONS = (
    "A Python that keeps its state from call to call. Show the user the code readably before you call eval. Work in small steps, look at "
    "results before you continue, and call reset only if a fresh start is needed."
)
CLOSE_TIMEOUT_S = 3.0
"""Seconds that the worker may take to end after a signal."""


class McpServerError(Exception):
    """The server cannot start; the message is a sentence."""


def serve(python: str | None, project: Path | None, attach: AttachOptions) -> None:
    """Serve until the client closes stdin. Raises `McpServerError`."""
    streams = take_stdio()
    try:
        import anyio
        import mcp.server.lowlevel  # noqa: F401
    except ImportError as error:
        raise McpServerError(
            f"The MCP server needs the package mcp ({error.name} is missing): pip install 'mahtab-tui[mcp]'."
        ) from None
    try:
        settings = load_settings(python=python, project=project)
    except SettingsError as error:
        raise McpServerError(str(error)) from None
    for sentence in settings.untrusted:
        print(plain(f"mahtab-tui: {sentence}"), file=sys.stderr)
    anyio.run(_serve, streams, ToolHandlers(_enter_project(settings), attach))


def _enter_project(settings: Settings) -> Settings:
    """Change to the folder of the project, and use its interpreter. Raises `McpServerError`."""
    if settings.project is None:
        return settings
    try:
        environment = find_environment(str(settings.project), Path.cwd())
        if environment.folder is not None:
            os.chdir(environment.folder)
    except McpToolError as error:
        raise McpServerError(str(error)) from None
    except OSError as error:
        raise McpServerError(
            f"The project folder {settings.project} cannot be used: {error.strerror}."
        ) from None
    if settings.python is None and environment.python is not None:
        return settings.model_copy(update={"python": str(environment.python)})
    return settings


async def _serve(streams: ProtocolStreams, handlers: ToolHandlers) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    from mahtab_tui.mcp.lines import LineReader, LineWriter

    server = make_server(handlers)
    # They have what the SDK uses of a file.
    stdin = cast("anyio.AsyncFile[str]", LineReader(streams.stdin))
    stdout = cast("anyio.AsyncFile[str]", LineWriter(streams.stdout))
    try:
        async with (
            anyio.create_task_group() as tasks,
            stdio_server(stdin, stdout) as (read, write),
        ):
            tasks.start_soon(_exit_on_signal, handlers, tasks.cancel_scope)
            await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        sys.exit(0)
    finally:
        with anyio.CancelScope(shield=True):
            await handlers.close()


async def _exit_on_signal(handlers: ToolHandlers, calls: CancelScope) -> None:
    """End the worker, and exit without waiting for the thread that reads stdin."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            calls.cancel()
            with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                await handlers.close()
            exit_by_signal(number)


def make_server(handlers: ToolHandlers) -> Server[Any]:
    """Make the SDK's server for the handlers' tools."""
    from mcp.server.lowlevel import Server

    tools = _ServedTools(handlers)
    server: Server[Any] = Server(
        "mahtab",
        version=__version__,
        title="mahtab: a persistent Python",
        instructions=INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
    )
    # Without the SDK's span for each message: only questions and model calls are traced.
    server.middleware.clear()
    return server


class _ServedTools:
    """Serves a client's requests: passes its calls to the handlers, and masks their answers."""

    def __init__(self, handlers: ToolHandlers) -> None:
        self._handlers = handlers
        self._mask = handlers.secrets.mask
        self._tools = {tool.name: tool for tool in handlers.tools()}

    async def list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        import mcp_types as types

        return types.ListToolsResult(tools=[tool.to_protocol() for tool in self._tools.values()])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        client = context.session.client_params
        if client is not None:
            self._handlers.agent = client.client_info.name
        try:
            answer = await self._call(context, params)
        except McpToolError as error:
            return _to_protocol(escape_controls(self._mask(str(error))), failed=True)
        # File names may contain lone surrogates.
        text = self._mask(answer.text).encode("utf-8", "replace").decode()
        return _to_protocol(text, answer.pictures, failed=answer.failed)

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> ToolAnswer:
        """Call a tool, which reports to the client how it gets on. Raises `McpToolError`."""

        async def report(seconds: float, sentence: str) -> None:
            masked = escape_controls(self._mask(sentence))
            await context.session.report_progress(seconds, None, masked)

        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(self._tools)
            raise McpToolError(f"There is no tool {params.name!r}. Tools: {names}.")
        return await tool.call(params.arguments or {}, report)


def _to_protocol(text: str, pictures: Sequence[str] = (), *, failed: bool) -> types.CallToolResult:
    """Return an answer in the form of the protocol.

    Args:
        text: What it says.
        pictures: PNG files as base64.
        failed: Whether it is an error.
    """
    import mcp_types as types

    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    for picture in pictures:
        content.append(types.ImageContent(type="image", data=picture, mime_type="image/png"))
    return types.CallToolResult(content=content, is_error=failed)
