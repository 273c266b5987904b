"""Requests to services over HTTP: connections that are kept, proxies, and stops from any thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from email.message import Message as Headers
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.failures import BROKE_OFF, NOT_AN_ANSWER, no_response_error
from mahtab_tui.llm.names import is_loopback
from mahtab_tui.version import __version__

_READ_BYTES = 65_536
"""Bytes of a response that are read at a time."""
_IDLE_TIMEOUT_S = 30.0
"""An unused connection is closed after this time, since a router may have dropped it."""
_END_TIMEOUT_S = 0.2
"""Time to wait for the end of a complete response."""
_MAX_JSON_BYTES = 4_000_000
"""Bytes of a JSON document that are read."""
_MAX_REASON_CHARS = 200
"""Characters of why a service cannot be reached."""


class _IdleConnection(NamedTuple):
    """A connection that waits for another request."""

    connection: http.client.HTTPConnection
    since: float
    """As monotonic time."""


class HttpService:
    """The address of a service, and its open connections, for any threads."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        """
        Args:
            address: The address, to which the paths of requests are added.
            headers: Never sent to another address: redirects are not followed.
        """
        self.address = address
        self.headers = {"User-Agent": f"mahtab-tui/{__version__}", **(headers or {})}
        self._idle: list[_IdleConnection] = []
        self._lock = threading.Lock()

    def take_idle_connection(self) -> http.client.HTTPConnection | None:
        """Return a connection that was used before; None if there is none that is new enough."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                idle = self._idle.pop()
            if time.monotonic() - idle.since < _IDLE_TIMEOUT_S:
                return idle.connection
            idle.connection.close()

    def return_connection(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for another request."""
        with self._lock:
            self._idle.append(_IdleConnection(connection, time.monotonic()))

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle_connections = self._idle
            self._idle = []
        for idle in idle_connections:
            idle.connection.close()


class Exchange:
    """A request and its response, for one thread; other threads may stop it."""

    def __init__(self, service: HttpService, timeout: float) -> None:
        """
        Args:
            service: Where the request goes.
            timeout: Seconds without a byte after which it fails.
        """
        self.status = 0
        """The status of the response; 0 before it begins."""
        self.headers = Headers()
        """The headers of the response."""
        self._service = service
        self._timeout = timeout
        self._lock = threading.Lock()
        self._stopped = False
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def send(self, method: str, path: str, body: bytes | None = None) -> None:
        """Send the request, and wait for the head of the response. Raises `ModelError`."""
        try:
            # A kept connection may have been closed by the service, so there is a second try.
            connection = self._service.take_idle_connection()
            if connection is not None:
                with contextlib.suppress(ConnectionError):  # the service has just closed it
                    self._request(connection, method, path, body)
                    return
                connection.close()
            self._request(self._connect(), method, path, body)
        except TimeoutError:
            raise no_response_error(self._timeout) from None
        except ConnectionError:
            raise ModelError(BROKE_OFF) from None
        except (OSError, ValueError, http.client.HTTPException):
            raise ModelError(NOT_AN_ANSWER) from None

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises `ModelError`."""
        assert self._response is not None
        try:
            while piece := self._response.read1(_READ_BYTES):
                yield piece
        except TimeoutError:
            raise no_response_error(self._timeout) from None
        # Also if `stop` has closed it meanwhile.
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            raise ModelError(BROKE_OFF) from None

    def body(self, max_bytes: int) -> bytes:
        """Return the body, or its beginning if it is longer. Raises `ModelError`."""
        body = bytearray()
        for piece in self.pieces():
            body += piece
            if len(body) > max_bytes:
                break
        return bytes(body[:max_bytes])

    def finish(self) -> None:
        """Keep the connection for another request if the response has ended, or else close it."""
        connection = self._connection
        response = self._response
        has_ended = False
        if connection is not None and response is not None and not response.will_close:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                connection.sock.settimeout(_END_TIMEOUT_S)
                has_ended = not response.read1(1)
        with self._lock:
            is_reusable = has_ended and not self._stopped
            if is_reusable:
                self._connection = None
                self._socket = None
        self.close()
        if is_reusable and connection is not None:
            self._service.return_connection(connection)

    def stop(self) -> None:
        """End the response at once. Any thread may call it."""
        with self._lock:
            self._stopped = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, unless it was kept."""
        with self._lock:
            connection = self._connection
            self._connection = None
            self._socket = None
        if connection is not None:
            connection.close()
        if self._response is not None:
            self._response.close()

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> None:
        """Send the request over a connection, and read the head of the response."""
        with self._lock:
            self._connection = connection
            self._socket = connection.sock
            if self._stopped:
                raise ModelError(BROKE_OFF)

        connection.sock.settimeout(self._timeout)
        url = urlsplit(self._service.address)
        target = f"{url.path.rstrip('/')}{path}"
        if url.query:
            target += f"?{url.query}"
        headers = dict(self._service.headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        proxy = _find_proxy(url) if url.scheme == "http" else None
        if proxy is not None:
            target = f"http://{url.netloc}{target}"
            headers |= _proxy_authorization(proxy)
        connection.request(method, target, body, headers)
        self._response = connection.getresponse()
        self.status = self._response.status
        self.headers = self._response.headers

    def _connect(self) -> http.client.HTTPConnection:
        """Open a connection. Raises `ModelError` and `TimeoutError`."""
        try:
            connection = _open_connection(urlsplit(self._service.address), self._timeout)
            connection.connect()
        except TimeoutError:
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = str(error)
            if isinstance(error, OSError) and error.strerror:
                text = error.strerror
            words = (text or type(error).__name__).split()
            reason = " ".join(words).rstrip(".")[:_MAX_REASON_CHARS]
            raise ModelError(
                f"The service cannot be reached: {reason} ({self._service.address})."
            ) from None
        return connection


def fetch_json(service: HttpService, path: str, seconds: float) -> Any:
    """Return a JSON document of a service.

    Args:
        service: The service.
        path: The document's path.
        seconds: Time limit of the whole response, even if it comes in drops.

    Raises:
        ModelError: The service cannot be reached, or breaks off.
        ValueError: There is no such document, or it is not JSON.
    """
    exchange = Exchange(service, seconds)
    deadline = threading.Timer(seconds, exchange.stop)
    deadline.daemon = True
    deadline.start()
    try:
        exchange.send("GET", path)
        body = exchange.body(_MAX_JSON_BYTES)
        if exchange.status != http.client.OK:
            raise ValueError(f"status {exchange.status}")
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    finally:
        deadline.cancel()
        exchange.close()


def _open_connection(url: SplitResult, timeout: float) -> http.client.HTTPConnection:
    """Return a connection to a service, over a proxy if the environment names one.

    It is opened by its first request.
    """
    proxy = _find_proxy(url)
    server = url if proxy is None else proxy
    host = server.hostname or ""
    port = server.port
    if url.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    connection = http.client.HTTPSConnection(
        host, port, timeout=timeout, context=_load_certificates()
    )
    if proxy is not None:
        connection.set_tunnel(url.hostname or "", url.port, _proxy_authorization(proxy))
    return connection


def _find_proxy(url: SplitResult) -> SplitResult | None:
    """Return the proxy for an address, as the environment says. Raises `ValueError`."""
    host = url.hostname or ""
    proxies = getproxies()
    address = proxies.get(url.scheme) or proxies.get("all")
    if not address or is_loopback(host) or proxy_bypass(host):
        return None
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    if proxy.scheme != "http":
        raise ValueError(f"a proxy of the kind {proxy.scheme}:// is not supported")
    return proxy


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


@cache
def _load_certificates() -> ssl.SSLContext:
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:  # as in some builds of Python
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context
