"""Anthropic's Messages protocol: a request from messages of Chat Completions, and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_stream import (
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
from mahtab_tui.llm.failures import NOT_AN_ANSWER
from mahtab_tui.llm.http_service import Exchange

_VERSION = "2023-06-01"
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
"""The protocol's words for a choice of tools."""
_LIMITS = {"claude-3-5": 8_192, "claude-3-7": 64_000, "claude-3": 4_096}
"""Most tokens that older models may write, by the beginning of their names."""
_ANSWER_TOKENS = 32_000
"""Most tokens of an answer that all newer models accept; a request must name a number."""


def answer_tokens(model: str, wanted: int | None = None) -> int:
    """Return the most tokens of an answer to request of a model: not more than wanted, nor than it
    may write, as far as that is known."""
    limit = next(
        (most for begin, most in _LIMITS.items() if model.startswith(begin)),
        wanted or _ANSWER_TOKENS,
    )
    return min(wanted or limit, limit)


def messages_headers(key: str) -> dict[str, str]:
    """Return the headers of each request."""
    return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}


def messages_body(
    model: str, messages: Sequence[Mapping[str, Any]], options: dict[str, Any]
) -> dict[str, Any]:
    """Make the body of a request. options: as for Chat Completions, but for `seed`, which the
    protocol does not have."""
    options["max_tokens"] = answer_tokens(model, options.get("max_tokens"))
    stop, tools = options.pop("stop", None), options.pop("tools", None)
    choice = options.pop("tool_choice", None)
    system = [join_text(each.get("content")) for each in messages if each["role"] == "system"]
    body = {"model": model, "messages": _turns(messages), "stream": True, **options}
    if system:
        body["system"] = "\n\n".join(system)
    if stop:
        body["stop_sequences"] = stop
    if tools:
        body["tools"] = [_tool(tool["function"]) for tool in tools]
        if choice is not None:
            body["tool_choice"] = _tool_choice(choice)
    return body


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of user and model in turn. Results of tools are the user's, and must
    stand together in the message after their calls."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = [] if message["role"] == "system" else [*_blocks(message)]
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:  # empty messages are rejected
            turns.append({"role": role, "content": blocks})
    if len(turns) > 1 and turns[-1]["role"] == "user":
        # A conversation that has gone on will go on: the service keeps it for the next request,
        # which it does only on request.
        turns[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return turns


def _blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a message; empty texts are rejected."""
    content = message.get("content") or ""
    if "tool_call_id" in message:
        yield {
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            "content": join_text(content),
        }
        return
    yield from message.get("reasoning_details", ())
    blocks: list[dict[str, Any]] = content if isinstance(content, list) else []
    for block in blocks or [{"type": "text", "text": content}]:
        if block["type"] == "image_url":
            yield {"type": "image", "source": _picture_source(block["image_url"]["url"])}
        elif block.get("text"):
            yield {"type": "text", "text": block["text"]}
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _picture_source(url: str) -> dict[str, str]:
    head, is_data, data = url.partition(";base64,")
    if not is_data:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _tool_choice(choice: Any) -> dict[str, str]:
    if isinstance(choice, str):
        return {"type": _CHOICES[choice]}
    if "function" in choice:
        return {"type": "tool", "name": choice["function"]["name"]}
    return dict(choice)


class AnthropicAnswer(Answer):
    """An answer of the Messages protocol."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, int] = {}
        """Numbers of calls of tools, by block."""
        self._thoughts: dict[int, tuple[Mapping[str, Any], dict[str, list[str]]]] = {}
        """How each block of thinking began, and the pieces of its fields."""
        self._counts: dict[str, Any] = {}

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        return map(parse_event, read_events(read_lines(exchange.pieces())))

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        kind = event.get("type")
        if kind == "message_start":
            self.begun = True
            message = _field(event, "message")
            self.note_model(message)
            self._note_counts(message.get("usage"))
        elif kind == "content_block_start":
            yield from self._begin_block(_number(event), _field(event, "content_block"))
        elif kind == "content_block_delta":
            yield from self._extend_block(_number(event), _field(event, "delta"))
        elif kind == "message_delta":
            self.reason = str(_field(event, "delta").get("stop_reason") or self.reason)
            self._note_counts(event.get("usage"))
            self.usage = self._usage()
        elif kind == "message_stop":
            self.ended = True
        else:  # an error, a sign of life, or something newer
            self.note_model(event)

    def end(self) -> AnswerEnd:
        return (
            super()
            .end()
            ._replace(
                reasoning_details=[
                    {**block, **{name: "".join(texts) for name, texts in pieces.items()}}
                    for block, pieces in self._thoughts.values()
                ]
            )
        )

    def _begin_block(self, number: int, block: Mapping[str, Any]) -> Iterator[ChatChunk]:
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            self._thoughts[number] = block, {}
        elif kind == "tool_use":
            index = self._calls[number] = len(self._calls)
            arguments = json.dumps(block["input"]) if block.get("input") else ""
            call = ToolCallPiece(index, str(block.get("id")), str(block.get("name")), arguments)
            yield ChatChunk(calls=[call])
        elif text := join_text(block.get("text")):
            yield ChatChunk(text)

    def _extend_block(self, number: int, delta: Mapping[str, Any]) -> Iterator[ChatChunk]:
        text, thinking = join_text(delta.get("text")), join_text(delta.get("thinking"))
        if number in self._thoughts:
            _, pieces = self._thoughts[number]
            for name in ("thinking", "signature"):
                if piece := join_text(delta.get(name)):
                    pieces.setdefault(name, []).append(piece)
        if arguments := join_text(delta.get("partial_json")):
            if number not in self._calls:
                raise ModelError(NOT_AN_ANSWER)
            call = ToolCallPiece(self._calls[number], None, None, arguments)
            yield ChatChunk(calls=[call])
        elif text or thinking:
            yield ChatChunk(text, thinking)

    def _note_counts(self, usage: object) -> None:
        """Note counts of tokens: each is of the whole answer so far, and not all are repeated."""
        if isinstance(usage, dict):
            self._counts |= usage

    def _usage(self) -> TokenUsage | None:
        written = to_count(self._counts.get("output_tokens"))
        fresh, from_cache, to_cache = (
            to_count(self._counts.get(name)) or 0
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        if written is None:
            return None
        return TokenUsage(fresh + from_cache + to_cache, written, from_cache, to_cache)


def _field(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise ModelError(NOT_AN_ANSWER)
    return found


def _number(event: Mapping[str, Any]) -> int:
    """Return the number of an event's block."""
    number = to_count(event.get("index"))
    if number is None:
        raise ModelError(NOT_AN_ANSWER)
    return number
