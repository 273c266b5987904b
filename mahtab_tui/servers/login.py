"""Logging in to a server over HTTP (OAuth). The SDK speaks the protocol; here are the user's
browser, which comes back to a port, and the tokens."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from mahtab_tui.servers.servers import SavedLogins
from mahtab_tui.settings.model import SettingsError

Stored = TypeVar("Stored", bound=BaseModel)

LOGIN_SECONDS = 600.0
"""For the user to log in."""
_HOST = "127.0.0.1"
_BACK = "/callback"
_LONGEST = 16_384
"""Bytes of a request of the browser."""
_BROWSER_SECONDS = 10.0


def login_to(url: str, logins: SavedLogins, ask: Callable[[str], None]) -> OAuthClientProvider:
    """Return what logs in to a server when it wants that. ask: called with the address that the
    user has to visit, and with "" after that."""
    login = _Login(url, logins, ask)
    metadata = OAuthClientMetadata(
        client_name="mahtab-tui", redirect_uris=[AnyUrl(f"http://{_HOST}:{login.port}{_BACK}")]
    )
    provider = OAuthClientProvider(url, metadata, login, login.begin, login.finish)
    provider.context.token_expiry_time = login.expires
    return provider


class _Login:
    """One server's login: the SDK's `TokenStorage`, and its two handlers."""

    def __init__(self, url: str, logins: SavedLogins, ask: Callable[[str], None]) -> None:
        self._url = url
        self._logins = logins
        self._ask = ask
        login = logins.get(url)
        self.port: int = login.get("port") or _free_port()
        """A server that knows the program knows it with this port."""
        self.expires: float | None = login.get("expires")
        """When the kept token does, in seconds since 1970."""
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
        with contextlib.suppress(SettingsError):  # a full disk: the user logs in again next time
            self._logins.keep(self._url, **changes)

    async def begin(self, url: str) -> None:
        """Ask the user to log in. Raises `OAuthFlowError`."""
        self._leads_to = url
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._listening = await asyncio.start_server(
                self._visited, _HOST, self.port, limit=_LONGEST
            )
        except OSError as error:
            self._keep(client=None, port=None)  # it introduces itself again with another port
            raise OAuthFlowError(
                f"the login needs port {self.port}, which cannot be used ({error.strerror})"
            ) from None
        self._ask(f"http://{_HOST}:{self.port}/")

    async def finish(self) -> AuthorizationCodeResult:
        """Wait until the user has logged in. Raises `OAuthFlowError`."""
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError(
                f"nobody logged in within {LOGIN_SECONDS / 60:.0f} minutes"
            ) from None
        finally:
            self._listening.close()
            self._ask("")

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser, which may be on a hostile page."""
        try:
            async with asyncio.timeout(_BROWSER_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self._answered(head.split(b"\r\n", 1)[0].decode("latin-1")))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _answered(self, request: str) -> bytes:
        method, _, rest = request.partition(" ")
        address = urlsplit(rest.partition(" ")[0])
        given = {name: values[0] for name, values in parse_qs(address.query).items()}
        if method == "GET" and address.path == "/":
            return _response("302 Found", "", f"Location: {self._leads_to}\r\n")
        is_state = secrets.compare_digest(given.get("state", "").encode(), self._state.encode())
        if method != "GET" or address.path != _BACK or not is_state:
            return _response("404 Not Found", "There is nothing here.")
        if self._answer.done():
            return _response("200 OK", "This login is over.")
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "the browser sent no code"
            self._answer.set_exception(OAuthFlowError(f"the login failed: {why[:300]}"))
            return _response("200 OK", "The login failed. You can close this page.")
        result = AuthorizationCodeResult(
            code=given["code"], state=given["state"], iss=given.get("iss")
        )
        self._answer.set_result(result)
        return _response(
            "200 OK", "You are logged in. You can close this page and go back to mahtab-tui."
        )


def _response(status: str, text: str, headers: str = "") -> bytes:
    more = f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
    return f"HTTP/1.1 {status}\r\n{headers}{more}\r\n{text}".encode()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])


def _read(kind: type[Stored], raw: object) -> Stored | None:
    try:
        return kind.model_validate(raw)
    except ValidationError:
        return None
