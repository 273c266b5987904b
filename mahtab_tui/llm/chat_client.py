"""A client for chat models behind HTTP, in the protocols of OpenAI, Anthropic and Ollama."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.llm.answer_metadata import UNFINISHED
from mahtab_tui.llm.anthropic_messages import AnthropicAnswer
from mahtab_tui.llm.base import MAX_ANSWER_CHARS, ModelError, ServiceError
from mahtab_tui.llm.chat_answers import (
    ChatAnswer,
    ChatChunk,
    Dialect,
    Message,
    join_waiting,
)
from mahtab_tui.llm.completions import CompletionAnswer
from mahtab_tui.llm.failures import BROKE_OFF, NOT_AN_ANSWER, answer_too_long_error, explain_error
from mahtab_tui.llm.http_exchange import Exchange, HttpService
from mahtab_tui.llm.ollama_chat import OllamaAnswer
from mahtab_tui.llm.server_facts import ServerFacts, fetch_facts
from mahtab_tui.system import start_thread

OnChunk = Callable[[ChatChunk | ModelError | None], object]
"""Gets a chunk of an answer, None at its end, or the error that ends it."""

_PROTOCOLS: Mapping[Dialect, type[ChatAnswer]] = {
    "openai": CompletionAnswer,
    "openrouter": CompletionAnswer,
    "compatible": CompletionAnswer,
    "anthropic": AnthropicAnswer,
    "ollama": OllamaAnswer,
}
_EMPTY_CHUNK_S = 0.1
"""Seconds of silence before an empty chunk is yielded."""
_MAX_ERROR_BYTES = 100_000
"""How much of an answer that says why the service failed is read."""
_FACTS_RETRY_S = 30.0
"""Seconds before a server that did not answer is asked again."""


class _Arrived(NamedTuple):
    """What has come of an answer since it was last looked at."""

    chunks: list[ChatChunk]
    is_ended: bool
    failure: ModelError | None = None
    """The error that ended it; None if there was none."""


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
        """Prepare a client, which does not connect yet.

        Args:
            dialect: The protocol.
            address: Without the protocol's own paths, as in http://localhost:8080/v1.
            model: Its name, as the service calls it.
            key: The secret that the service asks for; may be empty.
            key_name: Where the key comes from, for error messages.
            timeout: Seconds without a byte before an answer is abandoned.
            max_answer_chars: A longer answer, with its thinking, is stopped.
            on_notice: Gets a level and a sentence for the user, on the thread that reads the answer.
        """
        self.model = model
        self._dialect: Dialect = dialect
        self._protocol = _PROTOCOLS[dialect]
        self._key = key
        self._key_name = key_name
        self._timeout = timeout
        self._max_answer_chars = max_answer_chars
        self._on_notice = on_notice
        headers: dict[str, str] = {}
        if key and dialect == "anthropic":
            headers["x-api-key"] = key
        elif key:
            headers["Authorization"] = f"Bearer {key}"
        if dialect == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        elif dialect == "openrouter":
            headers["X-Title"] = "mahtab-tui"
        self._service = HttpService(address, headers)
        self._facts: ServerFacts | None = None
        self._next_facts_time = 0.0
        """When the server may be asked again for its facts, as monotonic time."""
        self._running: dict[Exchange, OnChunk] = {}
        """The answers that are being read, with what gets their chunks."""
        self._lock = threading.Lock()

    def stream(self, messages: Sequence[Message], **options: Any) -> Iterator[ChatChunk]:
        """Ask, and yield the answer as it comes; closing the iterator closes the connection.

        Args:
            messages: The conversation, in the form of Chat Completions.
            options: Options of the service; those that are None are left out.

        Raises:
            ModelError: The service failed.
        """
        arrived: queue.SimpleQueue[ChatChunk | ModelError | None] = queue.SimpleQueue()
        exchange = self.start(messages, arrived.put, **options)
        try:
            while True:
                news = _take_arrived(arrived)
                yield from join_waiting(news.chunks)
                if news.failure is not None:
                    raise news.failure
                if news.is_ended:
                    return
        finally:
            exchange.stop()

    def start(self, messages: Sequence[Message], put: OnChunk, **options: Any) -> Exchange:
        """Ask, and read the answer on a thread.

        Args:
            messages: As for `stream`.
            options: As for `stream`.
            put: Gets the chunks, then None, or the error in its place.
        """
        options = {name: value for name, value in options.items() if value is not None}
        if self._facts is not None and self._facts.reports_progress:
            options["return_progress"] = True
        body = self._protocol.body(self._dialect, self.model, messages, options)
        exchange = Exchange(self._service, self._timeout)
        with self._lock:
            self._running[exchange] = put
        start_thread("model", self._read, exchange, body, put)
        return exchange

    def stop(self) -> None:
        """End all answers; what has come stays. Any thread may call it."""
        with self._lock:
            running = list(self._running.items())
        for exchange, put in running:
            put(None)  # before the reading thread reports the end of the connection
            exchange.stop()

    def close(self) -> None:
        """End all answers, and close the connections."""
        self.stop()
        self._service.close()

    def facts(self) -> ServerFacts:
        """Return what the server says about the model; asks it at the first call."""
        if self._facts is None and time.monotonic() >= self._next_facts_time:
            self._next_facts_time = time.monotonic() + _FACTS_RETRY_S
            with contextlib.suppress(ModelError):
                self._facts = fetch_facts(self._service, self.model)
        return self._facts or ServerFacts()

    def _read(self, exchange: Exchange, body: object, put: OnChunk) -> None:
        """Ask, and read the answer, on a thread of its own."""
        answer = self._protocol()
        try:
            if not self._key.isascii() or not self._key.isprintable():
                raise ModelError(f"The key has characters that no key has. Check {self._key_name}.")
            self._ask(exchange, json.dumps(body).encode())
            self._read_events(exchange, answer, put)
            _check_complete(answer)
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

    def _read_events(self, exchange: Exchange, answer: ChatAnswer, put: OnChunk) -> None:
        """Read the events of an answer until it ends. Raises `ModelError` if it is too long."""
        remaining_chars = self._max_answer_chars
        for event in answer.events(exchange):
            for chunk in answer.fold(event):
                remaining_chars -= chunk.char_count
                if remaining_chars < 0:
                    put(chunk.without_last_chars(-remaining_chars))
                    raise answer_too_long_error(self._max_answer_chars)
                put(chunk)
            if answer.ended:
                return

    def _ask(self, exchange: Exchange, body: bytes) -> None:
        """Send the question.

        If there is nothing at the address, try once with /v1 after it. Raises `ModelError`,
        `ServiceError`.
        """
        exchange.send("POST", self._protocol.path, body)
        if exchange.status != http.client.NOT_FOUND:
            self._check_status(exchange)
            return

        # A service that does not know the model says so.
        answer = exchange.body(_MAX_ERROR_BYTES)
        if b"model" in answer.lower() or self.model.encode() in answer:
            raise ServiceError(answer, exchange.status, exchange.headers)
        address = self._service.address.rstrip("/")
        tried_addresses = f"{address}{self._protocol.path}"
        if self._dialect in ("compatible", "openai") and not address.endswith("/v1"):
            exchange.close()
            exchange.send("POST", f"/v1{self._protocol.path}", body)
            if exchange.status != http.client.NOT_FOUND:
                self._check_status(exchange)
                self._use_address(f"{address}/v1")
                return
            tried_addresses += f", nor at {address}/v1{self._protocol.path}"
        raise ModelError(f"There is no model service at {tried_addresses}. Check the address.")

    def _use_address(self, address: str) -> None:
        """Ask at another address from now on, and tell the user."""
        if self._on_notice is not None:
            text = f"There is no model service at {self._service.address}, but at {address}, which is used now. Change the address in your settings."
            self._on_notice("info", text)
        self._service.address = address

    def _check_status(self, exchange: Exchange) -> None:
        """Raise `ModelError` or `ServiceError` if a service has not taken a question."""
        status = exchange.status
        if 300 <= status < 400:
            location = str(exchange.headers.get("location") or "")[:200]
            raise ModelError(
                f"The service points to another address, which is not followed: {location}. If it is right, set it as base_url."
            )
        if not 200 <= status < 300:
            raise ServiceError(exchange.body(_MAX_ERROR_BYTES), status, exchange.headers)


def _check_complete(answer: ChatAnswer) -> None:
    """Raise `ModelError` if an answer whose events were read is not complete."""
    if not answer.begun:
        raise ModelError(NOT_AN_ANSWER)
    if not answer.reason and not answer.ended:
        raise ModelError(BROKE_OFF)
    if answer.reason == "error":
        raise ModelError("The service ended the answer with an error.")


def _take_arrived(arrived: queue.SimpleQueue[ChatChunk | ModelError | None]) -> _Arrived:
    """Take everything that waits in the queue.

    If nothing arrives for a moment, this is one empty chunk, so that the caller can look after other
    things.
    """
    chunks: list[ChatChunk] = []
    try:
        item = arrived.get(timeout=_EMPTY_CHUNK_S)
        while isinstance(item, ChatChunk):
            chunks.append(item)
            item = arrived.get_nowait()
    except queue.Empty:
        return _Arrived(chunks or [ChatChunk()], is_ended=False)
    return _Arrived(chunks, is_ended=True, failure=item)
