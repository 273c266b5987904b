"""Three protocols of chat models: OpenAI's Chat Completions, Anthropic's Messages and Ollama's."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, ClassVar, Literal, NamedTuple

from mahtab_tui.llm.base import NOT_AN_ANSWER, ModelError, ServiceError
from mahtab_tui.llm.http_exchange import Exchange

Dialect = Literal["openai", "openrouter", "compatible", "anthropic", "ollama"]
Message = Mapping[str, Any]
"""A message in the form of Chat Completions."""

MAX_LINE_BYTES = 16_000_000
"""Longest line, or event, of an answer."""
_OTHER_FIELDS = (b"", b"id", b"retry")
"""Fields of server-sent events that say nothing about an answer; the field of a comment has no
name."""
_ANTHROPIC_MAX_TOKENS = 32_000
"""A limit that all models of Anthropic accept; a request must name one."""


class TokenUsage(NamedTuple):
    """Tokens of one answer."""

    read: int
    written: int
    from_cache: int
    """Tokens read that came from the cache, which costs less."""
    to_cache: int = 0
    """Tokens read that were written to the cache, which costs more."""


class ToolCallPiece(NamedTuple):
    """A piece of a tool call; id and name come with the first."""

    number: int
    """Number of the call in the answer, from 0."""
    id: str | None
    name: str | None
    arguments: str
    """A piece of its JSON."""


class AnswerEnd(NamedTuple):
    """What a service says at the end of an answer."""

    model: str
    """The service's name for the model; empty if it gives none."""
    reason: str
    """Why the answer ended, in the service's words."""
    usage: TokenUsage | None
    cost: object = None
    """US dollars, as the service reports them."""
    reasoning_details: Sequence[Mapping[str, Any]] = ()
    """The model's thinking in the service's form, to be sent back with its tool calls."""


class ChatChunk(NamedTuple):
    """A piece of an answer; an empty one if nothing has arrived for a moment."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolCallPiece] = ()
    end: AnswerEnd | None = None
    read_share: float | None = None
    """The share of the prompt that the model has read, from 0 to 1, if the service reports it."""

    @property
    def char_count(self) -> int:
        """Number of characters of its text, its thinking and the arguments of its calls."""
        arguments = sum(len(call.arguments) for call in self.calls)
        return len(self.text) + len(self.reasoning) + arguments

    def without_last_chars(self, count: int) -> ChatChunk:
        """Return its text and its thinking, each without the last `count` characters."""
        return ChatChunk(self.text[:-count], self.reasoning[:-count])


def join_waiting(chunks: Iterable[ChatChunk]) -> Iterator[ChatChunk]:
    """Join consecutive pieces of text, and of thinking, that arrived faster than they are read."""
    for text_kind, group in groupby(chunks, key=_text_kind):
        if text_kind is None:
            yield from group
            continue
        pieces = list(group)
        text = "".join(piece.text for piece in pieces)
        reasoning = "".join(piece.reasoning for piece in pieces)
        yield ChatChunk(text, reasoning)


def _text_kind(chunk: ChatChunk) -> Literal["text", "reasoning"] | None:
    """Return whether a chunk is only text or only thinking; None if it is anything else."""
    if chunk.calls or chunk.end is not None or chunk.read_share is not None:
        return None
    if chunk.text and chunk.reasoning:
        return None
    return "reasoning" if chunk.reasoning else "text"


def read_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines, which end with LF, CRLF or CR. Raises `ModelError` for one that is
    too long."""
    line_start = bytearray()
    after_cr = False
    for piece in pieces:
        if after_cr:
            piece = piece.removeprefix(b"\n")
        after_cr = piece.endswith(b"\r")
        lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        unfinished_line = lines.pop()
        for line in lines:
            yield bytes(line_start + line)
            line_start.clear()
        line_start += unfinished_line
        if len(line_start) > MAX_LINE_BYTES:
            raise ModelError(NOT_AN_ANSWER)
    if line_start:
        yield bytes(line_start)


class ServerSentEvent(NamedTuple):
    """One event of a stream."""

    data: bytes
    is_error: bool = False
    """Whether the stream marks it as an error; its data may say so, too."""


def read_events(lines: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Yield server-sent events, except comments and events without data.

    Some services answer with JSON instead of a stream, mostly to report an error. If the lines that
    belong to no event are JSON, they are the last event. Raises `ModelError` for too long an event.
    """
    data: list[bytes] = []
    other_lines: list[bytes] = []
    is_error = False
    event_bytes = 0
    other_bytes = 0
    for line in chain(lines, [b""]):
        name, _, value = line.partition(b":")
        event_bytes += len(line)
        if event_bytes > MAX_LINE_BYTES:
            raise ModelError(NOT_AN_ANSWER)
        if not line:
            if any(map(bytes.strip, data)):
                yield ServerSentEvent(b"\n".join(data), is_error)
            data = []
            is_error = False
            event_bytes = other_bytes
        elif name == b"data":
            data.append(value)
        elif name == b"error":  # of llama.cpp
            data.append(value)
            is_error = True
        elif name == b"event":
            is_error = is_error or value.strip() == b"error"
        elif name not in _OTHER_FIELDS:
            other_lines.append(line)
            other_bytes += len(line)

    text = b"\n".join(other_lines)
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict | list):
            yield ServerSentEvent(text)


def _parse_event(data: bytes, *, is_error: bool = False) -> Mapping[str, Any]:
    """Return the fields of an event.

    Args:
        data: JSON.
        is_error: whether the stream marks it as an error.

    Raises:
        ServiceError: the event is an error.
        ModelError: it is not what a model's service sends.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        if is_error:
            raise ServiceError(data) from None
        raise ModelError(NOT_AN_ANSWER) from None
    if isinstance(value, list) and len(value) == 1:  # of Gemini
        (value,) = value
    if is_error or (isinstance(value, dict) and _is_error(value)):
        raise ServiceError(value)
    return _mapping(value)


def _is_error(event: Mapping[str, Any]) -> bool:
    """Return whether an event is an error, in the forms of OpenAI, vLLM and FastAPI."""
    if event.get("error"):
        return True
    if event.get("object") == "error" or event.get("type") == "error":
        return True
    return "detail" in event and "choices" not in event


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ModelError(NOT_AN_ANSWER)
    return value


def _join_text(content: object) -> str:
    if isinstance(content, list):
        return "".join(
            _join_text(block.get("text")) for block in content if isinstance(block, dict)
        )
    return content if isinstance(content, str) else ""


def to_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 53 else None


class ChatAnswer:
    """An answer in one of the protocols, folded from its events."""

    path: ClassVar[str]
    """Where the protocol answers questions, after the service's address."""
    body: ClassVar[staticmethod[[Dialect, str, Sequence[Message], dict[str, Any]], dict[str, Any]]]
    """Makes a request of dialect, model, messages and options."""

    def __init__(self) -> None:
        self.begun = False
        self.ended = False
        """Whether the service said so."""
        self.reason = ""
        """Why it ended, in the service's words."""
        self.usage: TokenUsage | None = None
        self._model = ""

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        for data, is_error in read_events(read_lines(exchange.pieces())):
            yield _parse_event(data, is_error=is_error)

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        """Take an event, and yield what it adds to the answer. Raises `ModelError`."""
        raise NotImplementedError

    def end(self) -> AnswerEnd:
        return AnswerEnd(self._model, self.reason, self.usage)

    def _note_model(self, event: Mapping[str, Any]) -> None:
        model = event.get("model")
        if isinstance(model, str):
            self._model = model


# Chat Completions


def completions_body(
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


class CompletionAnswer(ChatAnswer):
    """An answer of Chat Completions; later counts of tokens replace earlier ones."""

    path = "/chat/completions"
    body = staticmethod(completions_body)

    def __init__(self) -> None:
        super().__init__()
        self._cost: object = None
        self._from_cache: int | None = None
        self._call_ids: list[str] = []
        self._reasoning_details: list[dict[str, Any]] = []

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        if str(exchange.headers.get("content-type")).startswith("application/json"):
            yield _parse_event(exchange.body(MAX_LINE_BYTES))  # the whole answer at once
        else:
            for data, is_error in read_events(read_lines(exchange.pieces())):
                if data.strip() == b"[DONE]":
                    break
                yield _parse_event(data, is_error=is_error)
            else:
                return
        self.ended = True

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        self._note_model(event)
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._note_usage(usage)
        timings = event.get("timings")
        if isinstance(timings, dict):  # of llama.cpp
            self._from_cache = to_count(timings.get("cache_n"))
        share = _read_share(event.get("prompt_progress"))
        if share is not None:
            yield ChatChunk(read_share=share)
        choices = event.get("choices") or []
        if not isinstance(choices, list):
            raise ModelError(NOT_AN_ANSWER)
        choice = choices[0] if choices else None
        if not choice:
            return

        self.begun = True
        if _mapping(choice).get("error"):  # of the provider behind OpenRouter
            raise ServiceError(choice)
        delta = _mapping(choice.get("delta") or choice.get("message") or {})
        self.reason = str(choice.get("finish_reason") or self.reason)
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            _add_details(self._reasoning_details, details)

        text = _join_text(delta.get("content")) or _join_text(delta.get("refusal"))
        reasoning = _join_text(delta.get("reasoning_content") or delta.get("reasoning"))
        calls = list(self._read_call_pieces(delta.get("tool_calls")))
        if text or reasoning or calls:
            yield ChatChunk(text, reasoning, calls)

    def end(self) -> AnswerEnd:
        usage = self.usage
        if usage is not None and not usage.from_cache and self._from_cache:
            usage = usage._replace(from_cache=min(self._from_cache, usage.read))
        return AnswerEnd(self._model, self.reason, usage, self._cost, self._reasoning_details)

    def _note_usage(self, usage: Mapping[str, Any]) -> None:
        read = to_count(usage.get("prompt_tokens"))
        written = to_count(usage.get("completion_tokens"))
        if read is not None and written is not None:
            details = usage.get("prompt_tokens_details")
            cached = to_count(details.get("cached_tokens")) if isinstance(details, dict) else None
            self.usage = TokenUsage(read, written, min(cached or 0, read))
            self._cost = usage.get("cost", self._cost)

    def _read_call_pieces(self, deltas: object) -> Iterator[ToolCallPiece]:
        """Not every service numbers its calls, and some repeat the id and the name."""
        for delta in deltas if isinstance(deltas, list) else ():
            function = _mapping(_mapping(delta).get("function"))
            call_id = delta.get("id")
            name = function.get("name")
            number = to_count(delta.get("index"))
            call_count = len(self._call_ids)

            # Without a number, a piece belongs to the newest call.
            index = call_count - 1 if number is None else min(number, call_count)
            is_new = not 0 <= index < call_count
            if not is_new and name and call_id and call_id != self._call_ids[index]:
                is_new = True
            if is_new:
                index = call_count
                self._call_ids.append(str(call_id or _new_call_id()))

            arguments = function.get("arguments") or ""
            yield ToolCallPiece(
                index,
                self._call_ids[index] if is_new else None,
                str(name or "") if is_new else None,
                arguments if isinstance(arguments, str) else json.dumps(arguments),
            )


def _read_share(progress: object) -> float | None:
    """Return the share of the prompt that llama.cpp has read; None if it does not say."""
    if not isinstance(progress, dict):
        return None
    read = to_count(progress.get("processed"))
    total = to_count(progress.get("total"))
    return min(1.0, read / total) if read is not None and total else None


def _new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:12]}"


def _add_details(details: list[dict[str, Any]], pieces: Sequence[object]) -> None:
    """Add pieces of thinking, and join the consecutive pieces of one thought."""
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        last_detail = details[-1] if details else {}
        is_new = not details or any(
            last_detail.get(name) != piece.get(name) for name in ("type", "index")
        )
        if is_new:
            # OpenAI forgets these ids before they could be sent back.
            if str(piece.get("id")).startswith("rs_"):
                piece = {name: value for name, value in piece.items() if name != "id"}
            details.append(dict(piece))
            continue

        for name, value in piece.items():
            last_value = last_detail.get(name)
            is_text = isinstance(last_value, str) and isinstance(value, str)
            if name in ("text", "summary", "data") and is_text:
                last_detail[name] = last_value + value
            elif value is not None:
                last_detail[name] = value


# Ollama's protocol


def ollama_body(
    dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
) -> dict[str, Any]:
    names_by_call = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls", ())
    }
    ollama_messages = [_ollama_message(message, names_by_call) for message in messages]
    body: dict[str, Any] = {"model": model, "messages": ollama_messages, "stream": True}
    if "max_tokens" in options:
        options["num_predict"] = options.pop("max_tokens")
    if options.pop("tool_choice", "auto") == "none":  # it has no such option
        options.pop("tools", None)
    for name in ("tools", "format", "think", "keep_alive"):
        if options.get(name):
            body[name] = options.pop(name)
    body["options"] = options
    return body


def _ollama_message(message: Message, names_by_call: Mapping[str, str]) -> dict[str, Any]:
    content = message.get("content") or ""
    converted: dict[str, Any] = {"role": message["role"], "content": content}
    if not isinstance(content, str):
        texts = [block["text"] for block in content if block.get("type") == "text"]
        urls = [block["image_url"]["url"] for block in content if block.get("type") == "image_url"]
        converted["content"] = "\n".join(texts)
        converted["images"] = [url.partition(";base64,")[2] for url in urls]

    calls = message.get("tool_calls")
    if calls:
        functions = [call["function"] for call in calls]
        converted["tool_calls"] = [
            {
                "function": {
                    "name": function["name"],
                    "arguments": json.loads(function["arguments"]),
                }
            }
            for function in functions
        ]
        reasoning = message.get("reasoning_content")
        if reasoning:
            converted["thinking"] = reasoning

    call_id = message.get("tool_call_id")
    if call_id is not None:
        converted["tool_name"] = names_by_call.get(call_id, "")
    return converted


class OllamaAnswer(ChatAnswer):
    path = "/api/chat"
    body = staticmethod(ollama_body)

    def __init__(self) -> None:
        super().__init__()
        self._call_count = 0

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        return (_parse_event(line) for line in read_lines(exchange.pieces()) if line.strip())

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        self._note_model(event)
        message = _mapping(event.get("message") or {})
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise ModelError(NOT_AN_ANSWER)
        self.begun = self.begun or "message" in event

        call_pieces: list[ToolCallPiece] = []
        for call in calls:
            function = _mapping(_mapping(call).get("function"))
            name = str(function.get("name") or "")
            arguments = json.dumps(function.get("arguments") or {})
            call_pieces.append(ToolCallPiece(self._call_count, _new_call_id(), name, arguments))
            self._call_count += 1

        text = _join_text(message.get("content"))
        thinking = _join_text(message.get("thinking"))
        if text or thinking or call_pieces:
            yield ChatChunk(text, thinking, call_pieces)

        if event.get("done") is True:
            self.ended = True
            self.reason = str(event.get("done_reason") or "stop")
            read_tokens = to_count(event.get("prompt_eval_count"))
            written_tokens = to_count(event.get("eval_count"))
            if read_tokens is not None and written_tokens is not None:
                self.usage = TokenUsage(read_tokens, written_tokens, 0)


# Anthropic's Messages


def messages_body(
    dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
) -> dict[str, Any]:
    options.setdefault("max_tokens", _ANTHROPIC_MAX_TOKENS)
    stop = options.pop("stop", None)
    tools = options.pop("tools", None)
    choice = options.pop("tool_choice", None)
    system_texts = [
        _join_text(message.get("content")) for message in messages if message["role"] == "system"
    ]
    body = {"model": model, "messages": _turns(messages), "stream": True, **options}
    if system_texts:
        body["system"] = "\n\n".join(system_texts)
    if stop:
        body["stop_sequences"] = stop
    if tools:
        functions = [tool["function"] for tool in tools]
        body["tools"] = [
            {
                "name": function["name"],
                "description": function.get("description", ""),
                "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
            }
            for function in functions
        ]
        if isinstance(choice, str):
            body["tool_choice"] = {"type": "any" if choice == "required" else choice}
        elif choice is not None:
            chosen_function = choice.get("function")
            if chosen_function is not None:
                choice = {"type": "tool", **chosen_function}
            body["tool_choice"] = choice
    return body


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as turns of user and assistant. Tool results are the user's, and must all be
    in the message after their calls."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = [] if message["role"] == "system" else [*_blocks(message)]
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:  # empty messages are rejected
            turns.append({"role": role, "content": blocks})
    if len(turns) > 1 and turns[-1]["role"] == "user":
        # A conversation that continued will continue; the service caches it only on request.
        turns[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return turns


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    content = message.get("content") or ""
    call_id = message.get("tool_call_id")
    if call_id is not None:
        yield {"type": "tool_result", "tool_use_id": call_id, "content": _join_text(content)}
        return
    yield from message.get("reasoning_details", ())
    blocks: list[dict[str, Any]] = content if isinstance(content, list) else []
    for block in blocks or [{"type": "text", "text": content}]:
        if block["type"] == "image_url":
            url = block["image_url"]["url"]
            media_type, separator, data = url.partition(";base64,")
            source = {"type": "url", "url": url}
            if separator:
                mime = media_type.removeprefix("data:")
                source = {"type": "base64", "media_type": mime, "data": data}
            yield {"type": "image", "source": source}
        elif block.get("text"):
            yield {"type": "text", "text": block["text"]}
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


class AnthropicAnswer(ChatAnswer):
    path = "/v1/messages"
    body = staticmethod(messages_body)

    def __init__(self) -> None:
        super().__init__()
        self._call_numbers: dict[int, int] = {}
        """Numbers of the calls by the indexes of their blocks."""
        self._thoughts: dict[int, tuple[Mapping[str, Any], dict[str, list[str]]]] = {}
        """Blocks of thinking by their index, and the pieces of their texts."""
        self._counts: dict[str, Any] = {}
        """Each count is of the whole answer so far, and not all are repeated."""

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        event_type = event.get("type")
        if event_type == "message_start":
            self.begun = True
            message = _mapping(event.get("message"))
            self._note_model(message)
            self._note_counts(message.get("usage"))
        elif event_type == "content_block_start":
            yield from self._begin_block(_block_index(event), _mapping(event.get("content_block")))
        elif event_type == "content_block_delta":
            yield from self._extend_block(_block_index(event), _mapping(event.get("delta")))
        elif event_type == "message_delta":
            self.reason = str(_mapping(event.get("delta")).get("stop_reason") or self.reason)
            self._note_counts(event.get("usage"))
            self.usage = self._sum_usage()
        elif event_type == "message_stop":
            self.ended = True
        else:  # an error, a ping, or something newer
            self._note_model(event)

    def end(self) -> AnswerEnd:
        thoughts = [
            {**block, **{name: "".join(texts) for name, texts in pieces.items()}}
            for block, pieces in self._thoughts.values()
        ]
        return super().end()._replace(reasoning_details=thoughts)

    def _begin_block(self, block_index: int, block: Mapping[str, Any]) -> Iterator[ChatChunk]:
        block_type = block.get("type")
        if block_type in ("thinking", "redacted_thinking"):
            self._thoughts[block_index] = block, {}
        elif block_type == "tool_use":
            call_number = len(self._call_numbers)
            self._call_numbers[block_index] = call_number
            arguments = json.dumps(block["input"]) if block.get("input") else ""
            call_id = str(block.get("id"))
            call = ToolCallPiece(call_number, call_id, str(block.get("name")), arguments)
            yield ChatChunk(calls=[call])
        elif text := _join_text(block.get("text")):
            yield ChatChunk(text)

    def _extend_block(self, block_index: int, delta: Mapping[str, Any]) -> Iterator[ChatChunk]:
        text = _join_text(delta.get("text"))
        thinking = _join_text(delta.get("thinking"))
        if block_index in self._thoughts:
            _, pieces = self._thoughts[block_index]
            for name in ("thinking", "signature"):
                piece = _join_text(delta.get(name))
                if piece:
                    pieces.setdefault(name, []).append(piece)

        arguments = _join_text(delta.get("partial_json"))
        if arguments:
            if block_index not in self._call_numbers:
                raise ModelError(NOT_AN_ANSWER)
            call = ToolCallPiece(self._call_numbers[block_index], None, None, arguments)
            yield ChatChunk(calls=[call])
        elif text or thinking:
            yield ChatChunk(text, thinking)

    def _note_counts(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._counts |= usage

    def _sum_usage(self) -> TokenUsage | None:
        """Return the counts as one usage: Anthropic counts tokens of the cache apart."""
        written = to_count(self._counts.get("output_tokens"))
        if written is None:
            return None
        uncached = to_count(self._counts.get("input_tokens")) or 0
        from_cache = to_count(self._counts.get("cache_read_input_tokens")) or 0
        to_cache = to_count(self._counts.get("cache_creation_input_tokens")) or 0
        return TokenUsage(uncached + from_cache + to_cache, written, from_cache, to_cache)


def _block_index(event: Mapping[str, Any]) -> int:
    block_index = to_count(event.get("index"))
    if block_index is None:
        raise ModelError(NOT_AN_ANSWER)
    return block_index


PROTOCOLS: Mapping[Dialect, type[ChatAnswer]] = {
    "anthropic": AnthropicAnswer,
    "ollama": OllamaAnswer,
}
"""Other dialects use `CompletionAnswer`."""
