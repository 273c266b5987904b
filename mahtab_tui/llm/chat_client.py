"""A client for chat models behind HTTP: OpenAI's Chat Completions, which most services speak,
Anthropic's Messages, and Ollama's own protocol.

Messages are dicts as Chat Completions has them: `role`, `content` (a text or blocks), and for tools
`tool_calls` and `tool_call_id`. LangChain is not needed here; `chat_service.py` is the model for
it.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mahtab_tui.llm.anthropic_messages import AnthropicAnswer, messages_body, messages_headers
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_stream import (
    LONGEST_LINE,
    Answer,
    AnswerEnd,
    ChatChunk,
    TokenUsage,
    ToolCallPiece,
    join_text,
    parse_event,
    read_events,
    read_lines,
    to_count,
)
from mahtab_tui.llm.failures import BROKE_OFF, NOT_AN_ANSWER, ServiceError, explain_error
from mahtab_tui.llm.http_service import Exchange, HttpService, fetch_json

Dialect = Literal["openai", "openrouter", "compatible", "anthropic", "ollama"]
Message = Mapping[str, Any]
OnNews = Callable[[ChatChunk | ModelError | None], object]
"""Gets a chunk of an answer, None at its end, or the error that ends it."""

_SILENCE = 0.1
"""Seconds without news before an empty chunk is yielded, so that the reader can do something
else."""
_LARGEST_ERROR = 100_000
"""Bytes that are read of a service's description of an error."""
_ASKING = 1.0
"""Seconds to wait for what a server says of its model."""
_ASK_AGAIN = 30.0
"""Seconds before a server is asked again that did not answer."""


class ServerFacts(NamedTuple):
    """Description of a model by a server of open models; None if it gives none."""

    window: int | None = None
    sees: bool | None = None


class ChatClient:
    """One model of a service. Any thread may use it, and several at a time."""

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
        """address: without the protocol's own paths, as in http://localhost:8080/v1. key_name: the
        variable that holds the key.

        timeout: seconds without a byte before an answer is abandoned.
        """
        self.model = model
        self._dialect = dialect
        self._key = key
        self._key_name = key_name
        self._timeout = timeout
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if dialect == "anthropic":
            headers = messages_headers(key)
        if dialect == "openrouter":
            headers["X-Title"] = "mahtab-tui"
        self._service = HttpService(address, headers)
        self._facts: ServerFacts | None = None
        self._ask_at = 0.0
        self._running: dict[Exchange, OnNews] = {}
        self._lock = threading.Lock()

    def stream(self, messages: Sequence[Message], **options: Any) -> Iterator[ChatChunk]:
        """Ask, and yield the answer as it comes. Raises `ModelError`. Closing the iterator closes
        the connection.

        options: temperature, top_p, seed, max_tokens, stop, tools, tool_choice, and others of the
        protocol; None: not sent.
        """
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
        """Ask, and read the answer on a thread of its own; stopping the exchange ends it. put: gets
        the answer's chunks, then None, or the error in its place. options: see `stream`."""
        options = {name: value for name, value in options.items() if value is not None}
        if self._dialect == "ollama":
            path, body = "/api/chat", _ollama_body(self.model, messages, options)
        elif self._dialect == "anthropic":
            path, body = "/v1/messages", messages_body(self.model, messages, options)
        else:
            path, body = (
                "/chat/completions",
                _completions_body(self._dialect, self.model, messages, options),
            )
        exchange = Exchange(self._service, self._timeout)
        with self._lock:
            self._running[exchange] = put
        threading.Thread(
            target=self._read, args=(exchange, path, body, put), name="model", daemon=True
        ).start()
        return exchange

    def stop(self) -> None:
        """End the running answers: their streams end, and their connections are closed."""
        with self._lock:
            running = list(self._running.items())
        for exchange, put in running:
            put(None)  # before the reading thread reports the end of the connection
            exchange.stop()

    def close(self) -> None:
        """End the running answers, and close all connections."""
        self.stop()
        self._service.close()

    def facts(self) -> ServerFacts:
        """Ask a server of open models what it says of the model, once. Waits for it for a
        moment."""
        if self._facts is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _ASK_AGAIN
            with contextlib.suppress(ModelError):
                self._facts = _server_facts(self._service, self.model)
        return self._facts or ServerFacts()

    def _read(self, exchange: Exchange, path: str, body: object, put: OnNews) -> None:
        """Read an answer; runs on a thread."""
        answer = _ANSWERS.get(self._dialect, _Completion)()
        try:
            if not self._key.isascii() or not self._key.isprintable():
                raise ModelError(f"The key has characters that no key has. Check {self._key_name}.")
            exchange.send("POST", path, json.dumps(body).encode())
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
        """Raise the service's error, if it sends one in place of an answer."""
        status = exchange.status
        if 300 <= status < 400:
            location = str(exchange.headers.get("location") or "")[:200]
            raise ModelError(
                f"The service points to another address, which is not followed: {location}. If it is right, set it as base_url."
            )
        if not 200 <= status < 300:
            raise ServiceError(exchange.body(_LARGEST_ERROR), status, exchange.headers)


# What is sent


def _completions_body(
    dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        **options,
    }
    if dialect == "openai" and "max_tokens" in body:  # models that reason refuse the older name
        body["max_completion_tokens"] = body.pop("max_tokens")
    if dialect == "openrouter":
        body["usage"] = {"include": True}
    if not body.get("tools"):
        body.pop("tools", None)
        body.pop("tool_choice", None)
    return body


def _ollama_body(
    model: str, messages: Sequence[Message], options: dict[str, Any]
) -> dict[str, Any]:
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls", ())
    }
    body: dict[str, Any] = {
        "model": model,
        "messages": [_ollama_message(message, names) for message in messages],
        "stream": True,
    }
    if "max_tokens" in options:
        options["num_predict"] = options.pop("max_tokens")
    if options.pop("tool_choice", "auto") == "none":  # it has no such option
        options.pop("tools", None)
    for name in ("tools", "format", "think", "keep_alive"):
        if options.get(name):
            body[name] = options.pop(name)
    body["options"] = options
    return body


def _ollama_message(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a message in Ollama's form. names: of the tools, by the id of their call."""
    content = message.get("content") or ""
    sent: dict[str, Any] = {"role": message["role"], "content": content}
    if not isinstance(content, str):
        sent["content"] = "\n".join(
            block["text"] for block in content if block.get("type") == "text"
        )
        urls = [block["image_url"]["url"] for block in content if block.get("type") == "image_url"]
        sent["images"] = [url.partition(";base64,")[2] for url in urls]
    if calls := message.get("tool_calls"):
        functions = (call["function"] for call in calls)
        sent["tool_calls"] = [
            {"function": {"name": each["name"], "arguments": json.loads(each["arguments"])}}
            for each in functions
        ]
        if reasoning := message.get("reasoning_content"):
            sent["thinking"] = reasoning
    if (call_id := message.get("tool_call_id")) is not None:
        sent["tool_name"] = names.get(call_id, "")
    return sent


# What comes back


class _Completion(Answer):
    """An answer of Chat Completions. Later counts of tokens replace earlier ones: some services
    count the whole again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._cost: object = None
        self._from_cache: int | None = None
        self._calls: list[str | None] = []
        """The id of each call of a tool."""
        self._details: list[dict[str, Any]] = []

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        pieces = exchange.pieces()
        if str(exchange.headers.get("content-type")).startswith(
            "application/json"
        ):  # the whole answer at once
            yield parse_event(exchange.body(LONGEST_LINE))
            self.ended = True
            return
        for data in read_events(read_lines(pieces)):
            if data.strip() == b"[DONE]":
                self.ended = True
                return
            yield parse_event(data)

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        self.note_model(event)
        if isinstance(usage := event.get("usage"), dict):
            self._note_usage(usage)
        if isinstance(timings := event.get("timings"), dict):  # of llama.cpp
            self._from_cache = to_count(timings.get("cache_n"))
        choices = event.get("choices", [])
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise ModelError(NOT_AN_ANSWER)
        for choice in choices[:1]:
            self.begun = True
            if choice.get("error"):  # of the provider behind OpenRouter
                raise ServiceError(choice)
            delta = choice.get("delta") or choice.get("message") or {}
            if not isinstance(delta, dict):
                raise ModelError(NOT_AN_ANSWER)
            if reason := choice.get("finish_reason"):
                self.reason = str(reason)
            if isinstance(details := delta.get("reasoning_details"), list):
                _add_details(self._details, details)
            text = join_text(delta.get("content")) or join_text(delta.get("refusal"))
            reasoning = join_text(delta.get("reasoning_content")) or join_text(
                delta.get("reasoning")
            )
            calls = [*self._pieces(delta.get("tool_calls"))]
            if text or reasoning or calls:
                yield ChatChunk(text, reasoning, calls)

    def end(self) -> AnswerEnd:
        usage = self.usage
        if usage is not None and not usage.from_cache and self._from_cache:
            usage = usage._replace(from_cache=min(self._from_cache, usage.read))
        return AnswerEnd(self._model, self.reason, usage, self._cost, self._details)

    def _note_usage(self, usage: Mapping[str, Any]) -> None:
        read, written = (
            to_count(usage.get("prompt_tokens")),
            to_count(usage.get("completion_tokens")),
        )
        if read is None or written is None:
            return
        details = usage.get("prompt_tokens_details")
        cached = to_count(details.get("cached_tokens")) if isinstance(details, dict) else None
        self.usage = TokenUsage(read, written, min(cached or 0, read))
        self._cost = usage.get("cost", self._cost)

    def _pieces(self, deltas: object) -> Iterator[ToolCallPiece]:
        """Yield the pieces of calls. Not every service numbers its calls, and some repeat the id
        and the name."""
        for delta in deltas if isinstance(deltas, list) else ():
            function = delta.get("function") if isinstance(delta, dict) else None
            if not isinstance(function, dict):
                raise ModelError(NOT_AN_ANSWER)
            number, given, name = (
                to_count(delta.get("index")),
                delta.get("id"),
                function.get("name"),
            )
            index = len(self._calls) - 1 if number is None else min(number, len(self._calls))
            is_new = not 0 <= index < len(self._calls) or (
                bool(name) and bool(given) and given != self._calls[index]
            )
            if is_new:
                index = len(self._calls)
                self._calls.append(str(given or f"call_{uuid.uuid4().hex[:12]}"))
            arguments = function.get("arguments") or ""
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
            yield ToolCallPiece(
                index,
                self._calls[index] if is_new else None,
                str(name or "") if is_new else None,
                written,
            )


class _OllamaAnswer(Answer):
    """An answer of Ollama."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        return (parse_event(line) for line in read_lines(exchange.pieces()) if line.strip())

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        self.note_model(event)
        message = event.get("message", {})
        calls = message.get("tool_calls") or [] if isinstance(message, dict) else None
        if not isinstance(calls, list):
            raise ModelError(NOT_AN_ANSWER)
        self.begun = self.begun or "message" in event
        chunk = ChatChunk(
            join_text(message.get("content")),
            join_text(message.get("thinking")),
            [*map(self._whole_call, calls)],
        )
        if any(chunk):
            yield chunk
        if event.get("done") is True:
            self.ended = True
            self.reason = str(event.get("done_reason") or "stop")
            read, written = (
                to_count(event.get("prompt_eval_count")),
                to_count(event.get("eval_count")),
            )
            if read is not None and written is not None:
                self.usage = TokenUsage(read, written, 0)

    def _whole_call(self, call: object) -> ToolCallPiece:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ModelError(NOT_AN_ANSWER)
        self._calls += 1
        written = json.dumps(function.get("arguments") or {})
        return ToolCallPiece(
            self._calls - 1,
            f"call_{uuid.uuid4().hex[:12]}",
            str(function.get("name") or ""),
            written,
        )


_ANSWERS: Mapping[Dialect, type[Answer]] = {
    "ollama": _OllamaAnswer,
    "anthropic": AnthropicAnswer,
}
"""Readers of answers; of other services they are completions."""


def _add_details(known: list[dict[str, Any]], pieces: Sequence[object]) -> None:
    """Join the pieces of reasoning that belong together: their texts follow one another, the rest
    is repeated."""
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        last = known[-1] if known else {}
        if known and all(last.get(name) == piece.get(name) for name in ("type", "index")):
            for name, value in piece.items():
                joined = (
                    name in ("text", "summary", "data")
                    and isinstance(last.get(name), str)
                    and isinstance(value, str)
                )
                last[name] = (
                    last[name] + value if joined else last.get(name) if value is None else value
                )
        else:
            # Ids of OpenAI's answers are forgotten there before they could be sent back.
            known.append(
                {
                    name: value
                    for name, value in piece.items()
                    if not (name == "id" and str(value).startswith("rs_"))
                }
            )


# What a server says of its model


def _server_facts(service: HttpService, model: str) -> ServerFacts:
    """Ask in the ways of llama.cpp, vLLM and LM Studio. Raises `ModelError` if nobody answers."""
    root = HttpService(service.address.rstrip("/").removesuffix("/v1"), service.headers)
    try:
        found = _entry(fetch_json(service, "/models", _ASKING), model)
        meta = found.get("meta")
        window = to_count(found.get("max_model_len")) or (
            to_count(meta.get("n_ctx")) if isinstance(meta, dict) else None
        )
        if window is not None and found.get("owned_by") == "vllm":
            return ServerFacts(window)
    except ValueError:
        window = None
    if not service.address.startswith("http://"):  # a public service
        return ServerFacts(window)
    for path, facts in (("/props", _llama_facts), ("/api/v0/models", _lm_studio_facts)):
        try:
            reply = facts(fetch_json(root, path, _ASKING), model)
        except ValueError:
            continue
        if reply != ServerFacts():
            return reply._replace(window=reply.window or window)
    return ServerFacts(window)


def _llama_facts(props: Any, model: str) -> ServerFacts:
    if not isinstance(props, dict):
        return ServerFacts()
    defaults, modalities = props.get("default_generation_settings"), props.get("modalities")
    sees = modalities.get("vision") if isinstance(modalities, dict) else None
    return ServerFacts(
        to_count(defaults.get("n_ctx")) if isinstance(defaults, dict) else None,
        sees if isinstance(sees, bool) else None,
    )


def _lm_studio_facts(listed: Any, model: str) -> ServerFacts:
    found = _entry(listed, model)
    window = to_count(found.get("loaded_context_length")) or to_count(
        found.get("max_context_length")
    )
    return ServerFacts(window, {"vlm": True, "llm": False}.get(str(found.get("type"))))


def _entry(listed: Any, model: str) -> Mapping[str, Any]:
    """Return what a list of models says of one; empty if nothing. A server with one model takes any
    name for it."""
    models = listed.get("data") if isinstance(listed, dict) else None
    entries = (
        [each for each in models if isinstance(each, dict)] if isinstance(models, list) else []
    )
    return next(
        (each for each in entries if each.get("id") == model),
        entries[0] if len(entries) == 1 else {},
    )
