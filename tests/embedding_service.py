"""A local embedding service with OpenAI's protocol: words of one topic have similar vectors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.services import LocalServer, answering

_WORD = re.compile(r"[a-z]+")


def _direction(name: str, length: int) -> list[float]:
    chance = random.Random(hashlib.sha256(name.encode()).digest())
    return [chance.gauss(0, 1) for _ in range(length)]


def _texts(body: dict[str, Any]) -> list[str]:
    return [body["input"]] if isinstance(body["input"], str) else body["input"]


class EmbeddingService:
    def __init__(self, topics: Mapping[str, str], length: int = 96) -> None:
        self._topics = topics
        self._length = length
        self._known: dict[str, list[float]] = {}
        self.asked: list[dict[str, Any]] = []
        """The bodies of the requests."""
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.body: Any = None
        """The response instead of vectors, unless it is None."""
        self.hang = threading.Event()
        self.hang.set()
        """Cleared while requests wait."""
        self.url = ""

    @property
    def texts(self) -> list[str]:
        return [text for body in self.asked for text in _texts(body)]

    def vector(self, text: str) -> list[float]:
        """Return the sum of the words' directions."""
        sums = [0.0] * self._length
        for word in _WORD.findall(text.lower()):
            if word not in self._known:
                topic = self._topics.get(word)
                weight = 0.2 if topic is None else 1.0
                self._known[word] = [
                    weight * component for component in _direction(topic or word, self._length)
                ]
            sums = [
                sum_value + known_value
                for sum_value, known_value in zip(sums, self._known[word], strict=True)
            ]
        return sums

    def reply(self, body: dict[str, Any]) -> Any:
        if self.body is not None:
            return self.body
        data = [
            {"object": "embedding", "index": index, "embedding": self.vector(text)}
            for index, text in enumerate(_texts(body))
        ]
        return {
            "object": "list",
            "model": body["model"],
            "data": data,
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }


@contextlib.contextmanager
def embedding(topics: Mapping[str, str], length: int = 96) -> Iterator[EmbeddingService]:
    service = EmbeddingService(topics, length)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append(body)
            service.headers.append({name.lower(): value for name, value in self.headers.items()})
            service.hang.wait()
            answer = json.dumps(service.reply(body)).encode()
            with contextlib.suppress(OSError):
                self.send_response(service.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    with LocalServer(Handler) as server, answering(server):
        service.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield service
        finally:
            service.hang.set()
