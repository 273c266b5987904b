"""A client for chat models behind HTTP, in the protocols of `chat_protocols`."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import Message as Headers
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mahtab_tui import __version__
from mahtab_tui.llm.base import (
    BROKE_OFF,
    MAX_ANSWER_CHARS,
    NOT_AN_ANSWER,
    UNFINISHED,
    ModelError,
    ServiceError,
    answer_too_long_error,
    as_mapping,
    explain_error,
    is_loopback,
    no_response_error,
)
from mahtab_tui.llm.chat_protocols import (
    PROTOCOLS,
    ChatChunk,
    CompletionAnswer,
    Dialect,
    Message,
    join_waiting,
    to_count,
)
from mahtab_tui.system import start_thread

_PIECE = 65_536
_IDLE_SECONDS = 30.0
"""An unused connection is closed after this time, since a router may have dropped it."""
_END_SECONDS = 0.2
"""Time to wait for the end of a complete response."""
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
    """A request and its response, for one thread; other threads may stop it."""

    def __init__(self, service: HttpService, timeout: float) -> None:
        self.status = 0
        self.headers = Headers()
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
        body = bytearray()
        for piece in self.pieces():
            body += piece
            if len(body) > limit:
                break
        return bytes(body[:limit])

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


@cache
def _certificates() -> ssl.SSLContext:
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:  # as in some builds of Python
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


OnChunk = Callable[[ChatChunk | ModelError | None], object]
"""Gets a chunk of an answer, None at its end, or the error that ends it."""

_SILENCE = 0.1
"""Seconds of silence before an empty chunk is yielded."""
_LARGEST_ERROR = 100_000
_ASKING = 1.0
_ASK_AGAIN = 30.0
"""Seconds before a server that did not answer is asked again."""


class ServerFacts(NamedTuple):
    """What a server says about a model; None where it says nothing."""

    window: int | None = None
    """Tokens that the model can read."""
    sees: bool | None = None
    """Whether it accepts pictures."""
    parameters: int | None = None
    """The number of its parameters."""


class ChatClient:
    """One model of a service, for any threads."""

    def __init__(
        self,
        dialect: Dialect,
        address: str,
        model: str,
        *,
        key: str = "",
        key_name: str = "",
        timeout: float = 120.0,
        max_answer_chars: int = MAX_ANSWER_CHARS,
        on_notice: Callable[[str, str], object] | None = None,
    ) -> None:
        """Does not connect yet.

        Args:
            model: its name, as the service calls it.
            dialect: the protocol.
            address: without the protocol's own paths, as in http://localhost:8080/v1.
            key: the secret that the service asks for; may be empty.
            key_name: where the key comes from, for error messages.
            timeout: seconds without a byte before an answer is abandoned.
            max_answer_chars: a longer answer, with its thinking, is stopped.
            on_notice: gets a level and a sentence for the user, on the thread that reads the answer.
        """
        self.model = model
        self._dialect: Dialect = dialect
        self._protocol = PROTOCOLS.get(dialect, CompletionAnswer)
        self._key = key
        self._key_name = key_name
        self._timeout = timeout
        self._max_answer_chars = max_answer_chars
        self._on_notice = on_notice
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if dialect == "anthropic":
            headers = {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
        elif dialect == "openrouter":
            headers["X-Title"] = "mahtab-tui"
        self._service = HttpService(address, headers)
        self._facts: ServerFacts | None = None
        self._ask_at = 0.0
        self._running: dict[Exchange, OnChunk] = {}
        self._lock = threading.Lock()

    def stream(self, messages: Sequence[Message], **options: Any) -> Iterator[ChatChunk]:
        """Ask, and yield the answer as it comes; closing the iterator closes the connection. Raises
        `ModelError`."""
        arrived: queue.SimpleQueue[ChatChunk | ModelError | None] = queue.SimpleQueue()
        exchange = self.start(messages, arrived.put, **options)
        try:
            while True:
                chunks, is_ended, failure = _take_arrived(arrived)
                yield from join_waiting(chunks)
                if failure is not None:
                    raise failure
                if is_ended:
                    return
        finally:
            exchange.stop()

    def start(self, messages: Sequence[Message], put: OnChunk, **options: Any) -> Exchange:
        """Ask, and read the answer on a thread. put: gets the chunks, then None, or the error in
        its place."""
        options = {name: value for name, value in options.items() if value is not None}
        body = self._protocol.body(self._dialect, self.model, messages, options)
        exchange = Exchange(self._service, self._timeout)
        with self._lock:
            self._running[exchange] = put
        start_thread("model", self._read, exchange, body, put)
        return exchange

    def stop(self) -> None:
        with self._lock:
            running = list(self._running.items())
        for exchange, put in running:
            put(None)  # before the reading thread reports the end of the connection
            exchange.stop()

    def close(self) -> None:
        self.stop()
        self._service.close()

    def facts(self) -> ServerFacts:
        if self._facts is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _ASK_AGAIN
            with contextlib.suppress(ModelError):
                self._facts = _server_facts(self._service, self.model)
        return self._facts or ServerFacts()

    def _read(self, exchange: Exchange, body: object, put: OnChunk) -> None:
        answer = self._protocol()
        remaining_chars = self._max_answer_chars
        try:
            if not self._key.isascii() or not self._key.isprintable():
                raise ModelError(f"The key has characters that no key has. Check {self._key_name}.")
            self._ask(exchange, json.dumps(body).encode())
            for event in answer.events(exchange):
                for chunk in answer.fold(event):
                    remaining_chars -= chunk.char_count
                    if remaining_chars < 0:
                        put(chunk.without_last_chars(-remaining_chars))
                        raise answer_too_long_error(self._max_answer_chars)
                    put(chunk)
                if answer.ended:
                    break
            if not answer.begun:
                raise ModelError(NOT_AN_ANSWER)
            if not answer.reason and not answer.ended:
                raise ModelError(BROKE_OFF)
            if answer.reason == "error":
                raise ModelError("The service ended the answer with an error.")
            end = answer.end()
            put(ChatChunk(end=end._replace(reason=end.reason or UNFINISHED)))
            exchange.finish()
            put(None)
        except Exception as error:  # the thread's outermost frame; the waiting thread raises it
            if answer.usage is not None:
                put(ChatChunk(end=answer.end()))
            put(explain_error(error, key=self._key_name, secret=self._key, timeout=self._timeout))
        finally:
            with self._lock:
                del self._running[exchange]
            exchange.close()

    def _ask(self, exchange: Exchange, body: bytes) -> None:
        """Send the question. If there is nothing at the address, try once with /v1 after it. Raises
        `ModelError`, `ServiceError`."""
        exchange.send("POST", self._protocol.path, body)
        if exchange.status != http.client.NOT_FOUND:
            self._check_status(exchange)
            return

        # A service that does not know the model says so.
        answer = exchange.body(_LARGEST_ERROR)
        if b"model" in answer.lower() or self.model.encode() in answer:
            raise ServiceError(answer, exchange.status, exchange.headers)
        address = self._service.address.rstrip("/")
        tried_addresses = f"{address}{self._protocol.path}"
        if self._dialect == "compatible" and not address.endswith("/v1"):
            exchange.close()
            exchange.send("POST", f"/v1{self._protocol.path}", body)
            if exchange.status != http.client.NOT_FOUND:
                self._check_status(exchange)
                self._use_address(f"{address}/v1")
                return
            tried_addresses += f", nor at {address}/v1{self._protocol.path}"
        raise ModelError(f"There is no model service at {tried_addresses}. Check the address.")

    def _use_address(self, address: str) -> None:
        if self._on_notice is not None:
            text = f"There is no model service at {self._service.address}, but at {address}, which is used now. Change the address in your settings."
            self._on_notice("info", text)
        self._service.address = address

    def _check_status(self, exchange: Exchange) -> None:
        status = exchange.status
        if 300 <= status < 400:
            location = str(exchange.headers.get("location") or "")[:200]
            raise ModelError(
                f"The service points to another address, which is not followed: {location}. If it is right, set it as base_url."
            )
        if not 200 <= status < 300:
            raise ServiceError(exchange.body(_LARGEST_ERROR), status, exchange.headers)


def _take_arrived(
    arrived: queue.SimpleQueue[ChatChunk | ModelError | None],
) -> tuple[list[ChatChunk], bool, ModelError | None]:
    """Take everything that waits in the queue.

    Returns:
        The chunks, whether the answer has ended, and its error. If nothing arrives for a moment, one
        empty chunk, so that the caller can look after other things.
    """
    chunks: list[ChatChunk] = []
    try:
        item = arrived.get(timeout=_SILENCE)
        while isinstance(item, ChatChunk):
            chunks.append(item)
            item = arrived.get_nowait()
    except queue.Empty:
        return chunks or [ChatChunk()], False, None
    return chunks, True, item


def _server_facts(service: HttpService, model: str) -> ServerFacts:
    root = HttpService(service.address.rstrip("/").removesuffix("/v1"), service.headers)

    def fetch(server: HttpService, path: str) -> object:
        with contextlib.suppress(ValueError):
            return fetch_json(server, path, _ASKING)
        return None

    listed_model = _entry(fetch(service, "/models"), model)
    window = to_count(listed_model.get("max_model_len"))
    is_vllm = window is not None and listed_model.get("owned_by") == "vllm"
    meta = as_mapping(listed_model.get("meta"))  # llama.cpp
    window = window or to_count(meta.get("n_ctx"))
    parameters = to_count(meta.get("n_params"))
    if is_vllm or not service.address.startswith("http://"):  # or it is a public service
        return ServerFacts(window)
    props = as_mapping(fetch(root, "/props"))  # llama.cpp
    sees = as_mapping(props.get("modalities")).get("vision")
    size = to_count(as_mapping(props.get("default_generation_settings")).get("n_ctx"))
    if size is not None or isinstance(sees, bool):
        can_see = sees if isinstance(sees, bool) else None
        return ServerFacts(size or window, can_see, parameters)
    found = _entry(fetch(root, "/api/v0/models"), model)  # LM Studio
    size = to_count(found.get("loaded_context_length"))
    size = size or to_count(found.get("max_context_length")) or window
    return ServerFacts(size, {"vlm": True, "llm": False}.get(str(found.get("type"))))


def _entry(listed: object, model: str) -> Mapping[str, Any]:
    """Return a model's entry in a list; a server with one model accepts any name for it."""
    models = as_mapping(listed).get("data")
    entries = [as_mapping(each) for each in models] if isinstance(models, list) else []
    only = entries[0] if len(entries) == 1 else {}
    return next((each for each in entries if each.get("id") == model), only)
