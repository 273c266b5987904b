"""Login to a server over HTTP (OAuth).

The SDK speaks the protocol; this module opens a port, to which the user's browser returns, and
saves the tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Mapping
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

from mahtab_tui.servers.state import SavedLogins
from mahtab_tui.settings.model import SettingsError

StoredModel = TypeVar("StoredModel", bound=BaseModel)

LOGIN_TIMEOUT_S = 600.0
"""Seconds that the user has to log in."""
_REQUEST_TIMEOUT_S = 5.0
"""Seconds that the browser has to send a request."""
_MAX_REASON_CHARS = 300
"""Characters of the server's words about a failed login."""
_HOST = "127.0.0.1"
_CALLBACK_PATH = "/callback"
"""Where the server sends the browser after the login."""
_REDIRECTION = "302 Found"
"""The status that sends the browser to the page of the login."""


def make_login(url: str, logins: SavedLogins, ask: Callable[[str], None]) -> OAuthClientProvider:
    """Return a login for a server.

    Args:
        url: The server's address.
        logins: Where tokens are saved.
        ask: Called with the address to visit, then with "".
    """
    login = _Login(url, logins, ask)
    metadata = OAuthClientMetadata(
        client_name="mahtab-tui",
        redirect_uris=[AnyUrl(f"http://{_HOST}:{login.port}{_CALLBACK_PATH}")],
    )
    provider = OAuthClientProvider(url, metadata, login, login.begin, login.finish)
    provider.context.token_expiry_time = logins.get(url).get("expires")
    return provider


class _Login:
    """The storage of tokens, and the page to which the browser returns."""

    def __init__(self, url: str, logins: SavedLogins, ask: Callable[[str], None]) -> None:
        self._url = url
        self._logins = logins
        self._ask = ask
        self.port: int = logins.get(url).get("port") or _find_free_port()
        """A server knows the program with this port."""
        self._login_url = ""
        """The page on which the user logs in."""
        self._state = ""
        """A secret that only that page knows."""
        self._result: asyncio.Future[AuthorizationCodeResult]
        self._server: asyncio.Server

    async def get_tokens(self) -> OAuthToken | None:
        return _validate(OAuthToken, self._logins.get(self._url).get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expiry_time = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._save(tokens=tokens.model_dump(mode="json"), expires=expiry_time)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _validate(OAuthClientInformationFull, self._logins.get(self._url).get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._save(client=client_info.model_dump(mode="json"), port=self.port)

    def _save(self, **changes: Any) -> None:
        with contextlib.suppress(SettingsError):  # the disk is full; the user logs in again later
            self._logins.update(self._url, **changes)

    async def begin(self, url: str) -> None:
        """Ask the user to log in. Raises `OAuthFlowError`."""
        self._login_url = url
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._result = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._answer_request, _HOST, self.port)
        except OSError as error:
            self._save(client=None, port=None)  # the next login registers another port
            raise OAuthFlowError(
                f"the login needs port {self.port}, which cannot be used ({error.strerror})"
            ) from None
        self._ask(f"http://{_HOST}:{self.port}/")

    async def finish(self) -> AuthorizationCodeResult:
        """Wait for the login. Raises `OAuthFlowError`."""
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                return await self._result
        except TimeoutError:
            raise OAuthFlowError("nobody logged in in time") from None
        finally:
            self._server.close()
            self._ask("")

    async def _answer_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request of a browser, which may be on a hostile page."""
        with contextlib.suppress(
            TimeoutError,
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            request_line = head.split(b"\r\n", 1)[0].decode("latin-1")
            status, text = self._take_request(request_line)
            writer.write(self._format_response(status, text))
            await writer.drain()
        writer.close()

    def _format_response(self, status: str, text: str) -> bytes:
        """Return an answer of HTTP, which leads to the page of the login if its status says so."""
        lines = [f"HTTP/1.1 {status}"]
        if status == _REDIRECTION:
            lines.append(f"Location: {self._login_url}")
        lines += [
            "Content-Type: text/plain",
            f"Content-Length: {len(text)}",
            "Connection: close",
            "",
            text,
        ]
        return "\r\n".join(lines).encode()

    def _take_request(self, request_line: str) -> tuple[str, str]:
        """Take a request, and return the status and the text of its answer."""
        address = urlsplit(request_line.partition(" ")[2].partition(" ")[0])
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/":
            return _REDIRECTION, ""
        has_state = secrets.compare_digest(query.get("state", "").encode(), self._state.encode())
        if address.path != _CALLBACK_PATH or not has_state:
            return "404 Not Found", "There is nothing here."
        if self._result.done():
            return "200 OK", "This login is over."
        return "200 OK", self._take_result(query)

    def _take_result(self, query: Mapping[str, str]) -> str:
        """Take the result of the login, and return a sentence for the page.

        Args:
            query: What the server has told the browser to send.
        """
        if "code" not in query:
            reason = query.get("error_description") or query.get("error")
            reason = (reason or "the browser sent no code")[:_MAX_REASON_CHARS]
            self._result.set_exception(OAuthFlowError(f"the login failed: {reason}"))
            return "The login failed. You can close this page."

        result = AuthorizationCodeResult(
            code=query["code"], state=query["state"], iss=query.get("iss")
        )
        self._result.set_result(result)
        return "You are logged in. You can close this page and go back to mahtab-tui."


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _validate(model: type[StoredModel], data: object) -> StoredModel | None:
    """Return stored data as a model; None if it is not valid."""
    try:
        return model.model_validate(data)
    except ValidationError:
        return None
