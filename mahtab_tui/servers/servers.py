"""All servers of a session, on a thread of their own. Any other thread may call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.servers.kept_logins import KeptLogins
from mahtab_tui.servers.signatures import ToolSignature, identifier
from mahtab_tui.servers.state import ServerError, ServerState
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from mahtab_tui.servers.connection import Connection

T = TypeVar("T")

START_SECONDS = 60.0
"""For a server to get ready; one that is installed first takes its time."""
_CLOSE_SECONDS = 5.0


class Servers:
    """Starts servers when they are first used, and calls their tools."""

    def __init__(
        self,
        configured: Mapping[str, McpServer],
        folder: Path,
        tell: Callable[[str], None],
        *,
        logins: KeptLogins | None = None,
        reserved: frozenset[str] = frozenset(),
        start_seconds: float = START_SECONDS,
    ) -> None:
        """folder: where programs run by default. tell: called with sentences for the user. logins:
        by default they are forgotten with the session.

        reserved: names that no server may have.
        """
        self._configured = configured
        self._folder = folder
        self._tell = tell
        self._logins = logins or KeptLogins(None, lambda secret: None)
        self._start_seconds = start_seconds
        self.states: dict[str, ServerState] = {}
        """By the name in the namespace."""
        for name, server in configured.items():
            python = identifier(name, {*self.states, *reserved}, private="server")
            self.states[python] = ServerState(name, python, str(server))
        self._connections: dict[str, Connection] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def ready(self, python: str) -> Future[None]:
        """Start a server, if it does not run. The future may have `ServerError`; cancelling it
        leaves the server alone."""
        return self._submit(lambda: self._connection(python).ready())

    def restart(self, python: str) -> Future[None]:
        return self._submit(lambda: self._connection(python).restart())

    def prepare(
        self, python: str, wire: str, arguments: Mapping[str, Any]
    ) -> Future[ToolSignature]:
        """Start a server and check the arguments of a call; the future has the tool, or
        `ServerError`."""
        return self._submit(lambda: self._connection(python).prepare(wire, arguments))

    def call(
        self, python: str, wire: str, arguments: Mapping[str, Any]
    ) -> Future[list[dict[str, Any]]]:
        """Call a tool; the future has the parts of its result, or `ServerError`. Cancelling it
        cancels the call."""
        return self._submit(lambda: self._connection(python).call(wire, arguments))

    def close(self) -> None:
        """End all servers, and wait for them a moment."""
        with self._lock:
            self._closed = True
            loop = self._loop
        if loop is None:
            return

        async def stop() -> None:
            await asyncio.gather(
                *(each.stop() for each in self._connections.values()), return_exceptions=True
            )

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(stop(), loop).result(_CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        with self._lock:
            if self._closed:
                raise ServerError("The session was closed.")
            if self._loop is None:
                self._loop = _started_loop()

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def _connection(self, python: str) -> Connection:
        """Called on the loop."""
        from mahtab_tui.servers.connection import Connection

        if python not in self.states:
            raise ServerError(f"There is no server {python}.")
        if python not in self._connections:
            state = self.states[python]
            try:
                server = self._configured[state.name].expanded()
            except LookupError as error:
                raise ServerError(
                    f"The server {state.name} could not be started: {error.args[0]}"
                ) from None
            self._connections[python] = Connection(
                state, server, self._folder, self._logins, self._tell, self._start_seconds
            )
        return self._connections[python]


def _started_loop() -> asyncio.AbstractEventLoop:
    """Start a thread with a loop, and wait until the SDK is loaded. Raises `ServerError`."""
    begun: Future[asyncio.AbstractEventLoop] = Future()

    def live() -> None:
        try:
            with IMPORTS.turn():
                import mahtab_tui.servers.connection  # noqa: F401
        except ImportError as error:
            begun.set_exception(
                ServerError(
                    f"MCP servers need the package mcp, which is not installed ({error}). Install mahtab-tui[mcp]."
                )
            )
            return
        for library in ("mcp", "httpx2"):  # what they log would be written over the screen
            logging.getLogger(library).propagate = False
            logging.getLogger(library).addHandler(logging.NullHandler())
        loop = asyncio.new_event_loop()
        loop.call_soon(begun.set_result, loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    threading.Thread(target=live, name="mcp", daemon=True).start()
    return begun.result()
