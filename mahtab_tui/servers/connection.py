"""One server, from its start to its end, on the loop of `servers.Servers`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import mcp_types as types
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.shared.exceptions import MCPError
from pydantic import AnyUrl, BaseModel, TypeAdapter, ValidationError

from mahtab_tui import __version__
from mahtab_tui.kernel.launch import describe_end
from mahtab_tui.servers.schema import (
    ArgumentsError,
    ToolSignature,
    build_signature,
    check_arguments,
    error_text,
    identifier,
    result_parts,
    with_required,
)
from mahtab_tui.servers.servers import SavedLogins, ServerError, Servers, ServerState
from mahtab_tui.servers.transport import Closed, PipeTransport, http_transport
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.sources import McpServer

Stored = TypeVar("Stored", bound=BaseModel)

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


MAX_CALL_ROUNDS = 10
"""How often a server may ask to repeat a call."""
MAX_REQUEST_STATE_CHARS = 1_000_000
_ROUND_PAUSE_S = 0.1


@cache
def _call_result() -> TypeAdapter[types.CallToolResult | types.InputRequiredResult]:
    return TypeAdapter(types.CallToolResult | types.InputRequiredResult)


async def call_tool(
    session: ClientSession, name: str, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """Call a tool. As long as the server asks for it, repeat the call with the state that it sent.

    Raises:
        ServerError: the server asks for something that this client does not offer, or too often.
        Exception: what the SDK raises.
    """
    # Not `Client.call_tool`, which would check the result against the server's own patterns without
    # a time limit.
    request_state: str | None = None
    for _ in range(MAX_CALL_ROUNDS):
        params = types.CallToolRequestParams(
            name=name, arguments=dict(arguments), request_state=request_state
        )
        request = types.CallToolRequest(params=params)
        result = await session.send_request(request, _call_result())
        if isinstance(result, types.CallToolResult):
            return result
        if result.input_requests:
            kinds = sorted({request.method for request in result.input_requests.values()})
            raise ServerError(
                f"{name} was not finished: it asks for more input ({', '.join(kinds)}), which mahtab-tui does not offer to servers."
            )
        request_state = result.request_state or ""
        if len(request_state) > MAX_REQUEST_STATE_CHARS:
            raise ServerError(f"{name} was not finished: its state is too large to be sent back.")
        await asyncio.sleep(_ROUND_PAUSE_S)
    raise ServerError(
        f"{name} was not finished: it asked {MAX_CALL_ROUNDS} times to repeat the call."
    )


class Connection:
    """A server's process or HTTP session; a dead one is started again once."""

    def __init__(self, servers: Servers, state: ServerState, server: McpServer) -> None:
        self._servers = servers
        self._state = state
        self._server = server
        self._turn = asyncio.Lock()
        self._living: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None]
        """Belongs to the newest life; done when it is ready."""
        self._client: Client | None = None
        self._closed = Closed()
        self._limit: asyncio.Timeout | None = None
        self._listed: dict[str, types.Tool] = {}
        self._restarts = 0

    async def ready(self) -> None:
        """Start the server, if it does not run. Raises `ServerError`."""
        async with self._turn:
            if self._living is not None and self._closed.event.is_set():
                await asyncio.wait([self._living])
            if self._living is None or self._living.done():
                self._start()
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
            self._restarts = 0
            self._state.ran = False
        await self.ready()

    def _start(self) -> None:
        """Raises `ServerError` if it has ended too often."""
        name, why = self._state.name, self._state.why
        if self._state.phase == "ended" and self._state.ran:
            if self._restarts:
                raise ServerError(
                    f"The server {name} has ended again: {why} /mcp shows its messages; Ctrl+R there restarts it."
                )
            self._restarts += 1
            self._servers.report(f"The MCP server {name} had ended: {why} It is being restarted.")
        self._started = asyncio.get_running_loop().create_future()
        # Marks an error as retrieved, because perhaps nobody waits any more.
        self._started.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._closed = Closed()
        self._living = asyncio.create_task(self._live(self._closed, self._started))

    async def stop(self) -> None:
        living, self._living = self._living, None
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def prepare(self, wire: str, arguments: Mapping[str, Any]) -> ToolSignature:
        """Start the server, and check a call's arguments. Raises `ServerError`."""
        await self.ready()
        if wire not in self._listed:
            raise ServerError(f"The server {self._state.name} has no tool {wire!r}.")
        signature = self._state.tools[wire]
        try:
            check_arguments(arguments, self._listed[wire].input_schema)
            json.dumps(arguments, ensure_ascii=False).encode()
            return signature
        except ArgumentsError as error:
            why = f". {error}"
        except UnicodeEncodeError:
            why = ": a text cannot be encoded as UTF-8."
        raise ServerError(f"{self._state.python}.{signature.name} was not called{why}")

    async def call(self, wire: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Call a tool; returns the parts of its result. Raises `ServerError`."""
        await self.prepare(wire, arguments)
        client, tool = self._client, self._listed[wire]
        if client is None:
            raise ServerError(f"The server {self._state.name} has just ended.")
        self._state.used.setdefault(wire)
        try:
            result = await call_tool(client.session, wire, arguments)
        except _FAILURES as error:
            raise ServerError(await self._failure(error)) from None
        self._restarts = 0
        if result.is_error:
            raise ServerError(
                error_text(result.content) or f"{wire} failed, and the server does not say why."
            )
        return result_parts(result, tool.output_schema)

    async def _failure(self, error: Exception) -> str:
        name = self._state.name
        if not isinstance(error, ValidationError):
            await asyncio.wait([asyncio.create_task(self._closed.event.wait())], timeout=0.2)
        if self._closed.event.is_set() and self._server.command is not None:
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
                self._closed.set(_describe_error(error))
        return f"The server {name} could not answer: {_describe_error(error)}."

    async def _live(self, closed: Closed, started: asyncio.Future[None]) -> None:
        state = self._state
        state.phase, state.why = "starting", ""
        try:
            async with asyncio.timeout(self._servers.start_seconds) as self._limit:
                async with Client(
                    self._transport(closed),
                    client_info=types.Implementation(name="mahtab-tui", version=__version__),
                    message_handler=self._on_message,
                    cache=None,
                ) as client:
                    self._client = client
                    await self._list()
                    state.about = _about(client)
                    self._limit.reschedule(None)
                    self._limit = None
                    state.phase, state.ran = "running", True
                    started.set_result(None)
                    await closed.event.wait()
        except asyncio.CancelledError:
            state.why = "It was stopped."
            raise
        except TimeoutError:
            state.why = f"It was not ready within {self._servers.start_seconds:g} seconds."
        # Also the SDK's groups of exceptions; the loop and other servers go on.
        except BaseException as error:
            state.why = state.why or f"{_describe_error(error)}."
        finally:
            self._client = self._limit = None
            state.phase, state.login = "ended", ""
            closed.set()
            if closed.why or closed.code is not None:
                how = closed.why or describe_end(closed.code or 0)
                last = state.messages.last_line
                state.why = f"{how}{f' ({last})' if last else ''}."
            if not started.done():
                why = state.why or "it ended."
                started.set_exception(
                    ServerError(f"The server {state.name} could not be started: {why}")
                )

    def _transport(self, closed: Closed) -> Any:
        server, messages = self._server, self._state.messages
        if server.url is None:
            return PipeTransport(server, self._servers.folder, messages, closed)
        login = None
        if not any(name.lower() == "authorization" for name in server.headers):
            login = login_to(server.url, self._servers.logins, self._ask_to_log_in)
        return http_transport(server, login, messages)

    def _ask_to_log_in(self, url: str) -> None:
        """Ask the user to visit an address; "" ends that."""
        self._state.login = url
        if self._limit is not None:
            seconds = LOGIN_SECONDS + _PATIENCE if url else self._servers.start_seconds
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        if url:
            self._servers.report(
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
        tools: dict[str, ToolSignature] = {}
        names: set[str] = set()
        for wire, tool in self._listed.items():
            tool.input_schema = dict(with_required(tool.input_schema))
            name = identifier(wire, names)
            names.add(name)
            read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            words = tool.description or tool.title or ""
            tools[wire] = build_signature(
                wire, tool.input_schema, words, read_only=read_only, name=name
            )
        self._state.change(tools)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._state.stale = True


def _about(client: Client) -> str:
    info = client.server_info
    words = client.instructions or (info.title or info.name if info is not None else "")
    return " ".join((words or "").split())[:80]


def _describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer does not follow the protocol ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    if isinstance(error, MCPError) and str(error).startswith("Failed to parse"):
        return "its answer cannot be read"
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} does not exist"
    return (str(error) or type(error).__name__).strip().rstrip(".")[:1_000]


# Login over HTTP (OAuth). The SDK speaks the protocol; this part opens a port, to which the user's
# browser returns, and saves the tokens.

LOGIN_SECONDS = 600.0
_HOST = "127.0.0.1"
_BACK = "/callback"


def login_to(url: str, logins: SavedLogins, ask: Callable[[str], None]) -> OAuthClientProvider:
    """Return a login for a server. ask: called with the address to visit, then with ""."""
    login = _Login(url, logins, ask)
    metadata = OAuthClientMetadata(
        client_name="mahtab-tui", redirect_uris=[AnyUrl(f"http://{_HOST}:{login.port}{_BACK}")]
    )
    provider = OAuthClientProvider(url, metadata, login, login.begin, login.finish)
    provider.context.token_expiry_time = logins.get(url).get("expires")
    return provider


class _Login:
    def __init__(self, url: str, logins: SavedLogins, ask: Callable[[str], None]) -> None:
        self._url = url
        self._logins = logins
        self._ask = ask
        self.port: int = logins.get(url).get("port") or _free_port()
        """A server knows the program with this port."""
        self._leads_to = ""
        self._state = ""
        self._answer: asyncio.Future[AuthorizationCodeResult]
        self._listening: asyncio.Server

    async def get_tokens(self) -> OAuthToken | None:
        return _read(OAuthToken, self._logins.get(self._url).get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._keep(tokens=tokens.model_dump(mode="json"), expires=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _read(OAuthClientInformationFull, self._logins.get(self._url).get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._keep(client=client_info.model_dump(mode="json"), port=self.port)

    def _keep(self, **changes: Any) -> None:
        with contextlib.suppress(SettingsError):  # the disk is full; the user logs in again later
            self._logins.keep(self._url, **changes)

    async def begin(self, url: str) -> None:
        """Ask the user to log in. Raises `OAuthFlowError`."""
        self._leads_to = url
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._listening = await asyncio.start_server(self._visited, _HOST, self.port)
        except OSError as error:
            self._keep(client=None, port=None)  # the next login registers another port
            raise OAuthFlowError(
                f"the login needs port {self.port}, which cannot be used ({error.strerror})"
            ) from None
        self._ask(f"http://{_HOST}:{self.port}/")

    async def finish(self) -> AuthorizationCodeResult:
        """Wait for the login. Raises `OAuthFlowError`."""
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError("nobody logged in in time") from None
        finally:
            self._listening.close()
            self._ask("")

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request of a browser, which may be on a hostile page."""
        broken = asyncio.IncompleteReadError, asyncio.LimitOverrunError
        with contextlib.suppress(TimeoutError, OSError, ValueError, *broken):
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._answered(head.split(b"\r\n", 1)[0].decode("latin-1"))
            leads_to = f"Location: {self._leads_to}\r\n" if status.startswith("302") else ""
            more = f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{leads_to}{more}\r\n\r\n{text}".encode())
            await writer.drain()
        writer.close()

    def _answered(self, request: str) -> tuple[str, str]:
        address = urlsplit(request.partition(" ")[2].partition(" ")[0])
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/":
            return "302 Found", ""
        is_state = secrets.compare_digest(query.get("state", "").encode(), self._state.encode())
        if address.path != _BACK or not is_state:
            return "404 Not Found", "There is nothing here."
        if self._answer.done():
            return "200 OK", "This login is over."
        if "code" not in query:
            why = query.get("error_description") or query.get("error") or "the browser sent no code"
            self._answer.set_exception(OAuthFlowError(f"the login failed: {why[:300]}"))
            return "200 OK", "The login failed. You can close this page."
        result = AuthorizationCodeResult(
            code=query["code"], state=query["state"], iss=query.get("iss")
        )
        self._answer.set_result(result)
        return "200 OK", "You are logged in. You can close this page and go back to mahtab-tui."


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])


def _read(kind: type[Stored], raw: object) -> Stored | None:
    try:
        return kind.model_validate(raw)
    except ValidationError:
        return None
