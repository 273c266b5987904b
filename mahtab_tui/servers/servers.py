"""All servers of a session and their state."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mahtab_tui.servers.schema import ToolSignature, identifier
from mahtab_tui.settings.sources import McpServer
from mahtab_tui.settings.values import write_text
from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex
    from mahtab_tui.servers.connection import Connection

_LARGEST = 1_000_000
_SECRET = ("access_token", "refresh_token", "client_secret")


class SavedLogins:
    """Logins by the server's address. Any thread may call it."""

    def __init__(self, path: Path | None, add_secret: Callable[[str], None]) -> None:
        """path: None keeps them for this session only. add_secret: masks a text from now on."""
        self._path = path
        self._add_secret = add_secret
        self._lock = threading.Lock()
        self._logins: dict[str, dict[str, Any]] = {}

    def get(self, url: str) -> dict[str, Any]:
        with self._lock:
            saved = self._read().get(url)
        self._mask(saved)
        return saved if isinstance(saved, dict) else {}

    def keep(self, url: str, **changes: Any) -> None:
        """Change a login. Raises `SettingsError`."""
        self._mask(changes)
        with self._lock:
            logins = self._read()
            before = logins.get(url)
            logins[url] = {**(before if isinstance(before, dict) else {}), **changes}
            if self._path is not None:
                write_text(self._path, json.dumps(logins))

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return self._logins
        try:
            with self._path.open("rb") as file:
                logins = json.loads(file.read(_LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return logins if isinstance(logins, dict) else {}

    def _mask(self, saved: object) -> None:
        if isinstance(saved, dict):
            for name, value in saved.items():
                if name in _SECRET and isinstance(value, str):
                    self._add_secret(value)
                self._mask(value)


_USED = 8
_LONGEST_LINE = 200
_LOG_CHARACTERS = 200_000


class ServerError(Exception):
    """The message is a sentence, or the tool's own words."""


class ServerMessages:
    """Newest output on stderr and in the log. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.text = ""

    def add(self, text: str) -> None:
        with self._lock:
            self.text = (self.text + text)[-_LOG_CHARACTERS:]

    def add_line(self, line: str) -> None:
        gap = "" if self.text[-1:] in ("", "\n") else "\n"
        self.add(f"{gap}{line}\n")

    @property
    def last_line(self) -> str:
        lines = [line.strip()[:300] for line in self.text[-10_000:].splitlines()]
        return next(filter(None, reversed(lines)), "")


class ServerState:
    """Written on the loop, read by any thread."""

    def __init__(self, name: str, python: str, where: str) -> None:
        """python: its name in the namespace. where: its command or address."""
        self.name = name
        self.python = python
        self.where = where
        self.phase: Literal["not started", "starting", "running", "ended"] = "not started"
        self.why = ""
        self.login = ""
        self.ran = False
        self.about = ""
        self.stale = False
        self.tools: Mapping[str, ToolSignature] = {}
        self.revision = 0
        self.used: dict[str, None] = {}
        """Called tools; a model's prompt changes seldom, so in the order of their first call."""
        self.messages = ServerMessages()

    @property
    def sentence(self) -> str:
        if self.revision:
            return f"{self.about or self.name} ({len(self.tools):,} tools)"
        return "" if self.name == self.python else self.name

    def used_tools(self) -> list[str]:
        tools = (self.tools.get(wire) for wire in list(self.used)[-_USED:])
        lines = (f"{tool.name}{tool.written}: {tool.summary}" for tool in tools if tool is not None)
        return [line[:_LONGEST_LINE] for line in lines]

    def change(self, tools: Mapping[str, ToolSignature]) -> None:
        if tools != self.tools:
            self.tools = tools
            self.revision += 1


_WORD = re.compile(r"[a-z0-9]+")
_MOST = 100
_PATIENCE = 10.0


def format_matches(
    servers: Servers, words: str, most: int, meaning: SemanticIndex | None = None
) -> str:
    """Start all servers; return the tools that fit, the best first, and the servers that fail, one
    a line. meaning: None to find tools by words alone."""
    starting = {name: servers.ready(name) for name in servers.states}
    wait(starting.values(), _PATIENCE)
    failed = []
    for name, future in starting.items():
        if not future.done():
            failed.append(f"The server {name} is still starting; search again for its tools.")
        elif (error := future.exception()) is not None:
            failed.append(str(error))
    tools = {
        f"{name}.{tool.name}": tool
        for name, state in servers.states.items()
        for tool in state.tools.values()
    }
    wanted = _WORD.findall(words.lower())
    scores = {
        name: sum(3 * (word in tool.wire.lower()) + (word in tool.doc.lower()) for word in wanted)
        for name, tool in tools.items()
    }
    fitting = [name for name, score in scores.items() if score or not wanted]
    fitting.sort(key=lambda name: -scores[name])
    if meaning is not None and wanted:
        from mahtab_tui.knowledge.semantic_index import merge_rankings

        texts = {name: f"{name}: {tool.doc}" for name, tool in tools.items()}
        fitting = merge_rankings(fitting, meaning.nearest("tools", words, texts))
    most = max(1, min(most, _MOST))
    lines = [f"{name}{tools[name].written}: {tools[name].summary}" for name in fitting[:most]]
    if len(fitting) > most:
        lines.append(f"… {len(fitting) - most:,} more")
    return "\n".join([*(lines or [f"No tool fits {words!r}."]), *failed])


T = TypeVar("T")

START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0


class Servers:
    def __init__(
        self,
        configured: Mapping[str, McpServer],
        folder: Path,
        report: Callable[[str], None],
        *,
        logins: SavedLogins | None = None,
        reserved: frozenset[str] = frozenset(),
        start_seconds: float = START_SECONDS,
    ) -> None:
        """folder: where programs run. logins: by default forgotten with the session. reserved:
        names that no server may have."""
        self._configured = configured
        self.folder = folder
        self.report = report
        self.logins = logins or SavedLogins(None, lambda secret: None)
        self.start_seconds = start_seconds
        self.states: dict[str, ServerState] = {}
        for name, server in configured.items():
            python = identifier(name, {*self.states, *reserved}, private="server")
            self.states[python] = ServerState(name, python, str(server))
        self._connections: dict[str, Connection] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def ready(self, python: str) -> Future[None]:
        """Start a server. The future may have `ServerError`; cancelling it leaves the server
        alone."""
        return self._submit(python, lambda connection: connection.ready())

    def restart(self, python: str) -> Future[None]:
        return self._submit(python, lambda connection: connection.restart())

    def prepare(
        self, python: str, wire: str, arguments: Mapping[str, Any]
    ) -> Future[ToolSignature]:
        """Start a server and check a call's arguments. The future may have `ServerError`."""
        return self._submit(python, lambda connection: connection.prepare(wire, arguments))

    def call(
        self, python: str, wire: str, arguments: Mapping[str, Any]
    ) -> Future[list[dict[str, Any]]]:
        """The future has the parts of the result, or `ServerError`; cancelling it cancels the
        call."""
        return self._submit(python, lambda connection: connection.call(wire, arguments))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop = self._loop
        if loop is None:
            return

        async def stop() -> None:
            ends = (each.stop() for each in self._connections.values())
            await asyncio.gather(*ends, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(stop(), loop).result(_CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)

    def _submit(
        self, python: str, work: Callable[[Connection], Coroutine[Any, Any, T]]
    ) -> Future[T]:
        with self._lock:
            if self._closed:
                raise ServerError("The session was closed.")
            if self._loop is None:
                self._loop = _started_loop()

        async def run() -> T:
            return await work(self._connection(python))

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def _connection(self, python: str) -> Connection:
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
            self._connections[python] = Connection(self, state, server)
        return self._connections[python]


def _started_loop() -> asyncio.AbstractEventLoop:
    """Start a thread with a loop, and load the SDK. Raises `ServerError`."""
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
        with contextlib.closing(loop):
            loop.run_forever()

    start_thread("mcp", live)
    return begun.result()
