"""Local model services that speak the providers' streaming protocols, well or badly."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, NamedTuple

Piece = bytes | Callable[[], object]
"""Data that is sent at once, or an action between two pieces."""

_NO_HEADERS: Mapping[str, str] = {}

_READ = {"input_tokens": 600, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 0}

_CLAUDE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "claude-sonnet-4-5",
    "stop_reason": None,
    "stop_sequence": None,
}

_USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
_DONE = b"data: [DONE]\n\n"

_ROUTED = "anthropic/claude-sonnet-4.5"
_ALIVE = b": OPENROUTER PROCESSING\n\n"
_COST = {
    **_USAGE,
    "cost": 0.0123,
    "is_byok": False,
    "cost_details": {"upstream_inference_cost": None},
}

_OLLAMA_END: dict[str, Any] = {
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "prompt_eval_count": 1000,
    "eval_count": 100,
}


class Reply(NamedTuple):
    """One answer of a service."""

    pieces: Iterable[Piece]
    status: int = 200
    headers: Mapping[str, str] = _NO_HEADERS
    drop: bool = False
    """Cut the connection after the pieces, without an end of the response."""


class Service:
    """Sends the replies in order, and repeats the last one."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.asked: list[dict[str, Any]] = []
        """The bodies of the requests."""
        self.headers: list[dict[str, str]] = []
        self.documents: dict[str, Any] = {}
        """Responses to GET, by path: JSON, bytes, or `stall`."""
        self.paths: list[str] = []
        """Paths of the POST requests."""
        self.connections: set[Any] = set()
        """Client addresses of the POST requests."""
        self.left = threading.Event()
        """Set if a client closed its connection before its response was complete."""
        self.over = threading.Event()
        """Set when the test ends: nothing waits any more."""
        self.url = ""

    def next_reply(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def stall(self) -> None:
        """Send nothing until the test ends or the client leaves (see `_Handler`)."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def _note_headers(self) -> None:
        self.service.headers.append({name.lower(): value for name, value in self.headers.items()})

    def do_GET(self) -> None:
        self._note_headers()
        document = self.service.documents.get(self.path)
        if document == self.service.stall:
            with contextlib.suppress(OSError):
                self._stall()
            self.close_connection = True
            return
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        self.service.asked.append({"connect": self.path})
        self._note_headers()
        self.send_error(403)

    def do_POST(self) -> None:
        self.service.connections.add(self.client_address)
        self.service.paths.append(self.path)
        self.service.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self._note_headers()
        reply = self.service.next_reply()
        try:
            self._answer(reply)
        except OSError:
            self.service.left.set()
            self.close_connection = True

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            if piece == self.service.stall:
                self._stall()
            elif callable(piece):
                piece()
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.drop:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _stall(self) -> None:
        while not self.service.over.is_set():
            if select.select([self.connection], [], [], 0.05)[0] and not self.connection.recv(
                1, socket.MSG_PEEK
            ):
                raise ConnectionError

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


class LocalServer(ThreadingHTTPServer):
    """A server on a free port that waits for no client when it ends."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def answering(server: BaseServer) -> Iterator[None]:
    """Serve on another thread."""
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield
    finally:
        server.shutdown()


@contextlib.contextmanager
def serving() -> Iterator[Service]:
    service = Service()
    handler = type("Handler", (_Handler,), {"service": service})
    with LocalServer(handler) as server, answering(server):
        service.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield service
        finally:
            service.over.set()


class Protocol(NamedTuple):
    """A provider's streaming protocol."""

    spec: str
    """The model's name for mahtab-tui."""
    words: Callable[[str], bytes]
    """Encodes one piece of an answer."""
    begin: list[bytes]
    end: list[bytes]
    """The end of an answer that read 1,000 tokens and wrote 100."""
    cut: list[bytes]
    """The end of an answer that has reached the limit of tokens."""
    broken: bytes
    """An overload in the middle of an answer."""
    content: str = "text/event-stream"

    def reply(self, *words: str) -> Reply:
        return self.sending([*map(self.words, words), *self.end])

    def sending(self, pieces: Iterable[Piece], *, drop: bool = False) -> Reply:
        return Reply([*self.begin, *pieces], 200, {"content-type": self.content}, drop)


def refusing(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    plain: bool = False,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Reply:
    """Return an error instead of an answer. plain: in Ollama's form."""
    error = {"type": kind, "code": kind, "message": message}
    body = {"type": "error", "error": message if plain else error, "message": message}
    return Reply(
        [json.dumps(body).encode()], status, {"content-type": "application/json", **headers}
    )


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _data(model: str, **data: Any) -> bytes:
    about = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model}
    return f"data: {json.dumps(about | data)}\n\n".encode()


def _delta(model: str, reason: str | None = None, **delta: Any) -> bytes:
    return _data(
        model,
        choices=[{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": reason}],
    )


def _line(**data: Any) -> bytes:
    return (
        json.dumps({"model": "llama3.2", "created_at": "2025-01-01T00:00:00Z", **data}).encode()
        + b"\n"
    )


def _anthropic_end(reason: str) -> list[bytes]:
    return [
        _event("content_block_stop", index=0),
        _event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage=_READ | {"output_tokens": 100},
        ),
        _event("message_stop"),
    ]


ANTHROPIC = Protocol(
    "anthropic:claude-sonnet-4-5",
    lambda words: _event(
        "content_block_delta", index=0, delta={"type": "text_delta", "text": words}
    ),
    [
        _event("message_start", message={**_CLAUDE, "usage": _READ | {"output_tokens": 1}}),
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        _event("ping"),
    ],
    _anthropic_end("end_turn"),
    _anthropic_end("max_tokens"),
    _event("error", error={"type": "overloaded_error", "message": "Overloaded"}),
)

OPENAI = Protocol(
    "openai:gpt-4o",
    lambda words: _delta("gpt-4o", content=words),
    [_delta("gpt-4o", content="")],
    [_delta("gpt-4o", "stop"), _data("gpt-4o", choices=[], usage=_USAGE), _DONE],
    [_delta("gpt-4o", "length"), _data("gpt-4o", choices=[], usage=_USAGE), _DONE],
    b'data: {"error": {"message": "Overloaded", "type": "server_error", "code": null}}\n\n',
)

OPENROUTER = Protocol(
    f"openrouter:{_ROUTED}",
    lambda words: _ALIVE + _delta(_ROUTED, content=words),
    [_ALIVE, _ALIVE],
    [_delta(_ROUTED, "stop"), _data(_ROUTED, choices=[], usage=_COST), _DONE],
    [_delta(_ROUTED, "length"), _data(_ROUTED, choices=[], usage=_COST), _DONE],
    _data(_ROUTED, error={"code": 502, "message": "Overloaded"}, choices=[]),
)

OLLAMA = Protocol(
    "ollama:llama3.2",
    lambda words: _line(message={"role": "assistant", "content": words}, done=False),
    [],
    [_line(**_OLLAMA_END, done_reason="stop")],
    [_line(**_OLLAMA_END, done_reason="length")],
    b'{"error": "overloaded"}\n',
    "application/x-ndjson",
)

PROTOCOLS = {"anthropic": ANTHROPIC, "openai": OPENAI, "openrouter": OPENROUTER, "ollama": OLLAMA}
