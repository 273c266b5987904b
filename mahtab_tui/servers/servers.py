"""All servers of a session and their state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.servers.state import SavedLogins, ServerError, ServerState, ServerSurroundings
from mahtab_tui.servers.tool_signature import ToolSignature, identifier
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    from mahtab_tui.servers.connection import Connection

T = TypeVar("T")

START_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 5.0


class Servers:
    """All servers of a session, which run in one loop. Any thread may call its methods."""

    def __init__(
        self,
        configured: Mapping[str, McpServer],
        folder: Path,
        report: Callable[[str], None],
        *,
        logins: SavedLogins | None = None,
        reserved: frozenset[str] = frozenset(),
        start_seconds: float = START_TIMEOUT_S,
    ) -> None:
        """Give each server a variable of the namespace. None is started.

        Args:
            configured: The servers by their names in the settings.
            folder: Where programs run.
            report: Shows a sentence to the user.
            logins: The saved logins; by default, logins are forgotten with the session.
            reserved: Names that no server's variable may have.
            start_seconds: The time limit of a start.
        """
        self._configured = configured
        self._surroundings = ServerSurroundings(
            folder,
            logins or SavedLogins(None, lambda secret: None),
            report,
            start_seconds,
        )
        self.states: dict[str, ServerState] = {}
        for name, server in configured.items():
            variable = identifier(name, {*self.states, *reserved}, private="server")
            self.states[variable] = ServerState(name, variable, str(server))
        self._connections: dict[str, Connection] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def ready(self, variable: str) -> Future[None]:
        """Start a server.

        The future may have `ServerError`; cancelling it leaves the server alone.
        """
        return self._submit(variable, lambda connection: connection.ready())

    def restart(self, variable: str) -> Future[None]:
        return self._submit(variable, lambda connection: connection.restart())

    def prepare(
        self, variable: str, wire_name: str, arguments: Mapping[str, Any]
    ) -> Future[ToolSignature]:
        """Start a server and check a call's arguments. The future may have `ServerError`."""
        return self._submit(variable, lambda connection: connection.prepare(wire_name, arguments))

    def call(
        self, variable: str, wire_name: str, arguments: Mapping[str, Any]
    ) -> Future[list[dict[str, Any]]]:
        """Call a tool.

        The future has the parts of the result, or `ServerError`; cancelling it cancels the call.
        """
        return self._submit(variable, lambda connection: connection.call(wire_name, arguments))

    def close(self) -> None:
        """End all servers; waits a few seconds for them."""
        with self._lock:
            self._closed = True
            loop = self._loop
        if loop is None:
            return

        async def stop() -> None:
            stopping = (connection.stop() for connection in self._connections.values())
            await asyncio.gather(*stopping, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(stop(), loop).result(_CLOSE_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)

    def _submit(
        self, variable: str, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> Future[T]:
        with self._lock:
            if self._closed:
                raise ServerError("The session was closed.")
            if self._loop is None:
                self._loop = _start_loop()

        async def run() -> T:
            return await work(self._get_connection(variable))

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def _get_connection(self, variable: str) -> Connection:
        from mahtab_tui.servers.connection import Connection

        if variable not in self.states:
            raise ServerError(f"There is no server {variable}.")
        if variable not in self._connections:
            state = self.states[variable]
            try:
                server = self._configured[state.name].expanded()
            except LookupError as error:
                raise ServerError(
                    f"The server {state.name} could not be started: {error.args[0]}"
                ) from None
            self._connections[variable] = Connection(self._surroundings, state, server)
        return self._connections[variable]


def _start_loop() -> asyncio.AbstractEventLoop:
    """Start a thread with a loop, and load the SDK. Raises `ServerError`."""
    started: Future[asyncio.AbstractEventLoop] = Future()

    def run_loop() -> None:
        try:
            with IMPORTS.turn():
                import mahtab_tui.servers.connection  # noqa: F401
        except ImportError as error:
            started.set_exception(
                ServerError(
                    f"MCP servers need the package mcp, which is not installed ({error}). Install mahtab-tui[mcp]."
                )
            )
            return
        for library in ("mcp", "httpx2"):  # what they log would be written over the screen
            logging.getLogger(library).propagate = False
            logging.getLogger(library).addHandler(logging.NullHandler())
        loop = asyncio.new_event_loop()
        loop.call_soon(started.set_result, loop)
        with contextlib.closing(loop):
            loop.run_forever()

    start_thread("mcp", run_loop)
    return started.result()
