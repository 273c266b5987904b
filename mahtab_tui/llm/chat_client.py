"""A client for chat models behind HTTP, in the protocols of `chat_protocols`."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.llm.base import BROKE_OFF, NOT_AN_ANSWER, ModelError, ServiceError, explain_error
from mahtab_tui.llm.chat_protocols import (
    COMPLETIONS,
    PROTOCOLS,
    ChatChunk,
    Dialect,
    Message,
    to_count,
)
from mahtab_tui.llm.http_service import Exchange, HttpService, fetch_json

OnNews = Callable[[ChatChunk | ModelError | None], object]
"""Gets a chunk of an answer, None at its end, or the error that ends it."""

_SILENCE = 0.1
"""Seconds without news before an empty chunk is yielded."""
_LARGEST_ERROR = 100_000
_ASKING = 1.0
_ASK_AGAIN = 30.0
"""Seconds before a server is asked again that did not answer."""


class ServerFacts(NamedTuple):
    """Description of a model by a server of open models; None if it gives none."""

    window: int | None = None
    sees: bool | None = None


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
    ) -> None:
        """address: without the protocol's own paths, as in http://localhost:8080/v1. timeout:
        seconds without a byte before an answer is abandoned."""
        self.model = model
        self._dialect: Dialect = dialect
        self._protocol = PROTOCOLS.get(dialect, COMPLETIONS)
        self._key = key
        self._key_name = key_name
        self._timeout = timeout
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if dialect == "anthropic":
            headers = {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
        elif dialect == "openrouter":
            headers["X-Title"] = "mahtab-tui"
        self._service = HttpService(address, headers)
        self._facts: ServerFacts | None = None
        self._ask_at = 0.0
        self._running: dict[Exchange, OnNews] = {}
        self._lock = threading.Lock()

    def stream(self, messages: Sequence[Message], **options: Any) -> Iterator[ChatChunk]:
        """Ask, and yield the answer as it comes; closing the iterator closes the connection. Raises
        `ModelError`."""
        arrived: queue.SimpleQueue[ChatChunk | ModelError | None] = queue.SimpleQueue()
        exchange = self.start(messages, arrived.put, **options)
        try:
            while True:
                try:
                    news = arrived.get(timeout=_SILENCE)
                except queue.Empty:
                    news = ChatChunk()
                if news is None:
                    return
                if isinstance(news, ModelError):
                    raise news
                yield news
        finally:
            exchange.stop()

    def start(self, messages: Sequence[Message], put: OnNews, **options: Any) -> Exchange:
        """Ask, and read the answer on a thread. put: gets the chunks, then None, or the error in
        its place."""
        options = {name: value for name, value in options.items() if value is not None}
        body = self._protocol.body(self._dialect, self.model, messages, options)
        exchange = Exchange(self._service, self._timeout)
        with self._lock:
            self._running[exchange] = put
        threading.Thread(
            target=self._read, args=(exchange, body, put), name="model", daemon=True
        ).start()
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
        """Ask a server of open models what it says of the model, once."""
        if self._facts is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _ASK_AGAIN
            with contextlib.suppress(ModelError):
                self._facts = _server_facts(self._service, self.model)
        return self._facts or ServerFacts()

    def _read(self, exchange: Exchange, body: object, put: OnNews) -> None:
        answer = self._protocol.answer()
        try:
            if not self._key.isascii() or not self._key.isprintable():
                raise ModelError(f"The key has characters that no key has. Check {self._key_name}.")
            exchange.send("POST", self._protocol.path, json.dumps(body).encode())
            self._check_status(exchange)
            for event in answer.events(exchange):
                for chunk in answer.fold(event):
                    put(chunk)
                if answer.ended:
                    break
            if not answer.begun:
                raise ModelError(NOT_AN_ANSWER)
            if not answer.reason and not answer.ended:
                raise ModelError(BROKE_OFF)
            if answer.reason == "error":
                raise ModelError("The service ended the answer with an error.")
            put(ChatChunk(end=answer.end()))
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

    def _check_status(self, exchange: Exchange) -> None:
        status = exchange.status
        if 300 <= status < 400:
            location = str(exchange.headers.get("location") or "")[:200]
            raise ModelError(
                f"The service points to another address, which is not followed: {location}. If it is right, set it as base_url."
            )
        if not 200 <= status < 300:
            raise ServiceError(exchange.body(_LARGEST_ERROR), status, exchange.headers)


def _server_facts(service: HttpService, model: str) -> ServerFacts:
    root = HttpService(service.address.rstrip("/").removesuffix("/v1"), service.headers)

    def fetch(server: HttpService, path: str) -> object:
        with contextlib.suppress(ValueError):
            return fetch_json(server, path, _ASKING)
        return None

    found = _entry(fetch(service, "/models"), model)
    window = to_count(found.get("max_model_len"))
    is_vllm = window is not None and found.get("owned_by") == "vllm"
    window = window or to_count(_mapping(found.get("meta")).get("n_ctx"))
    if is_vllm or not service.address.startswith("http://"):  # or it is a public service
        return ServerFacts(window)
    props = _mapping(fetch(root, "/props"))  # llama.cpp
    sees = _mapping(props.get("modalities")).get("vision")
    size = to_count(_mapping(props.get("default_generation_settings")).get("n_ctx"))
    if size is not None or isinstance(sees, bool):
        return ServerFacts(size or window, sees if isinstance(sees, bool) else None)
    found = _entry(fetch(root, "/api/v0/models"), model)  # LM Studio
    size = to_count(found.get("loaded_context_length"))
    size = size or to_count(found.get("max_context_length")) or window
    return ServerFacts(size, {"vlm": True, "llm": False}.get(str(found.get("type"))))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _entry(listed: object, model: str) -> Mapping[str, Any]:
    """Return what a list says of a model; a server with one model takes any name for it."""
    models = _mapping(listed).get("data")
    entries = [_mapping(each) for each in models] if isinstance(models, list) else []
    only = entries[0] if len(entries) == 1 else {}
    return next((each for each in entries if each.get("id") == model), only)
