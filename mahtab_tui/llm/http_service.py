"""HTTP requests to a model's service over the standard library, which any thread can stop."""

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
from email.message import Message
from functools import cache
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mahtab_tui import __version__
from mahtab_tui.llm.base import BROKE_OFF, NOT_AN_ANSWER, ModelError, no_response_error

_PIECE = 65_536
_IDLE_SECONDS = 30.0
"""How long an unused connection is kept. Later a router on the way may have forgotten it."""
_END_SECONDS = 0.2
"""How long the end of a response is awaited that has nothing more to say."""
_LARGEST_JSON = 4_000_000


class HttpService:
    """The address of a service, and its open connections, for any threads."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        """headers: never sent to another address: redirects are not followed."""
        self.address = address
        self.headers = {"User-Agent": f"mahtab-tui/{__version__}", **(headers or {})}
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._lock = threading.Lock()

    def idle_connection(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS:
                return connection
            connection.close()

    def keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


class Exchange:
    """A request and its response, for one thread; any other may stop it."""

    def __init__(self, service: HttpService, timeout: float) -> None:
        """timeout: seconds without a byte before it fails."""
        self.status = 0
        self.headers = Message()
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
            if (connection := self._service.idle_connection()) is not None:
                with contextlib.suppress(ConnectionError):  # the service has just closed it
                    self._request(connection, method, path, body)
                    return
                connection.close()
            self._request(self._connected(), method, path, body)
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
            while piece := self._response.read1(_PIECE):
                yield piece
        except TimeoutError:
            raise no_response_error(self._timeout) from None
        # Also if `stop` has closed it meanwhile.
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            raise ModelError(BROKE_OFF) from None

    def body(self, limit: int) -> bytes:
        parts, size = [], 0
        for piece in self.pieces():
            parts.append(piece)
            size += len(piece)
            if size > limit:
                break
        return b"".join(parts)[:limit]

    def finish(self) -> None:
        """Keep the connection for another request if the response has ended, or else close it."""
        connection, response = self._connection, self._response
        ended = False
        if connection is not None and response is not None and not response.will_close:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                connection.sock.settimeout(_END_SECONDS)
                ended = not response.read1(1)
        with self._lock:
            ended = ended and not self._stopped
            if ended:
                self._connection = self._socket = None
        self.close()
        if ended and connection is not None:
            self._service.keep(connection)

    def stop(self) -> None:
        """End the connection at once, from any thread."""
        with self._lock:
            self._stopped = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()
        if self._response is not None:
            self._response.close()

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> None:
        with self._lock:
            self._connection, self._socket = connection, connection.sock
            if self._stopped:
                raise ModelError(BROKE_OFF)
        connection.sock.settimeout(self._timeout)
        url = urlsplit(self._service.address)
        target = f"{url.path.rstrip('/')}{path}{f'?{url.query}' if url.query else ''}"
        headers = dict(self._service.headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if url.scheme == "http" and (proxy := _proxy(url)) is not None:
            target = f"http://{url.netloc}{target}"
            headers |= _proxy_authorization(proxy)
        connection.request(method, target, body, headers)
        self._response = connection.getresponse()
        self.status, self.headers = self._response.status, self._response.headers

    def _connected(self) -> http.client.HTTPConnection:
        try:
            connection = _connection(urlsplit(self._service.address), self._timeout)
            connection.connect()
        except TimeoutError:
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = (isinstance(error, OSError) and error.strerror) or str(error)
            reason = " ".join((text or type(error).__name__).split()).rstrip(".")[:200]
            raise ModelError(
                f"The service cannot be reached: {reason} ({self._service.address})."
            ) from None
        return connection


def fetch_json(service: HttpService, path: str, seconds: float) -> Any:
    """Return a JSON document of a service. seconds: for the whole response, even if it comes in
    drops. Raises `ModelError`, `ValueError`."""
    exchange = Exchange(service, seconds)
    deadline = threading.Timer(seconds, exchange.stop)
    deadline.daemon = True
    deadline.start()
    try:
        exchange.send("GET", path)
        body = exchange.body(_LARGEST_JSON)
        if exchange.status != http.client.OK:
            raise ValueError(f"status {exchange.status}")
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    finally:
        deadline.cancel()
        exchange.close()


def _connection(url: SplitResult, timeout: float) -> http.client.HTTPConnection:
    proxy = _proxy(url)
    server = url if proxy is None else proxy
    host, port = server.hostname or "", server.port
    if url.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=_certificates())
    if proxy is not None:
        connection.set_tunnel(url.hostname or "", url.port, _proxy_authorization(proxy))
    return connection


def _proxy(url: SplitResult) -> SplitResult | None:
    host = url.hostname or ""
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or is_loopback(host) or proxy_bypass(host):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http":
        raise ValueError(f"a proxy of the kind {proxy.scheme}:// is not supported")
    return proxy


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )


@cache
def _certificates() -> ssl.SSLContext:
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:  # as in some builds of Python
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context
