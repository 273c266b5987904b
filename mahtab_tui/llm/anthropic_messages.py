"""Anthropic's protocol Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_answers import (
    AnswerEnd,
    ChatAnswer,
    ChatChunk,
    Dialect,
    Message,
    Thought,
    TokenUsage,
    ToolCallPiece,
    join_text,
    to_count,
)
from mahtab_tui.llm.event_streams import require_object
from mahtab_tui.llm.failures import NOT_AN_ANSWER

_MAX_TOKENS = 32_000
"""A limit that all models of Anthropic accept; a request must name one."""


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _tool_choice(choice: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return which tool the model must call: "auto", "none", "required", or a function."""
    if isinstance(choice, str):
        return {"type": "any" if choice == "required" else choice}
    if choice.get("function") is None:
        return choice
    return {"type": "tool", **choice["function"]}


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as turns of user and assistant.

    Tool results are the user's, and must all be in the message after their calls.
    """
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
    """Yield the content blocks of a message: a tool result, or thinking, contents and calls."""
    content = message.get("content") or ""
    call_id = message.get("tool_call_id")
    if call_id is not None:
        yield {"type": "tool_result", "tool_use_id": call_id, "content": join_text(content)}
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


def _picture_source(url: str) -> dict[str, Any]:
    media_type, separator, data = url.partition(";base64,")
    if not separator:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type.removeprefix("data:"), "data": data}


class AnthropicAnswer(ChatAnswer):
    """An answer in Anthropic's protocol, which consists of numbered blocks."""

    path = "/v1/messages"

    @staticmethod
    def body(
        dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
    ) -> dict[str, Any]:
        options.setdefault("max_tokens", _MAX_TOKENS)
        stop = options.pop("stop", None)
        tools = options.pop("tools", None)
        choice = options.pop("tool_choice", None)
        system_texts = [
            join_text(message.get("content")) for message in messages if message["role"] == "system"
        ]
        body = {"model": model, "messages": _turns(messages), "stream": True, **options}
        if system_texts:
            body["system"] = "\n\n".join(system_texts)
        if stop:
            body["stop_sequences"] = stop
        if tools:
            body["tools"] = [_tool(tool["function"]) for tool in tools]
            if choice is not None:
                body["tool_choice"] = _tool_choice(choice)
        return body

    def __init__(self) -> None:
        super().__init__()
        self._call_numbers: dict[int, int] = {}
        """Numbers of the calls by the indexes of their blocks."""
        self._thoughts: dict[int, Thought] = {}
        """Thoughts by the indexes of their blocks."""
        self._counts: dict[str, Any] = {}
        """Each count is of the whole answer so far, and not all are repeated."""

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        match event.get("type"):
            case "message_start":
                self.begun = True
                message = require_object(event.get("message"))
                self._note_model(message)
                self._note_counts(message.get("usage"))
            case "content_block_start":
                block = require_object(event.get("content_block"))
                yield from self._begin_block(_block_index(event), block)
            case "content_block_delta":
                delta = require_object(event.get("delta"))
                yield from self._extend_block(_block_index(event), delta)
            case "message_delta":
                delta = require_object(event.get("delta"))
                self.reason = str(delta.get("stop_reason") or self.reason)
                self._note_counts(event.get("usage"))
                self.usage = self._sum_usage()
            case "message_stop":
                self.ended = True
            case _:  # a ping, or something newer
                self._note_model(event)

    def end(self) -> AnswerEnd:
        thoughts = [thought.whole() for thought in self._thoughts.values()]
        return super().end()._replace(reasoning_details=thoughts)

    def _begin_block(self, block_index: int, block: Mapping[str, Any]) -> Iterator[ChatChunk]:
        block_type = block.get("type")
        if block_type in ("thinking", "redacted_thinking"):
            self._thoughts[block_index] = Thought(block)
        elif block_type == "tool_use":
            call_number = len(self._call_numbers)
            self._call_numbers[block_index] = call_number
            arguments = json.dumps(block["input"]) if block.get("input") else ""
            call_id = str(block.get("id"))
            call = ToolCallPiece(call_number, call_id, str(block.get("name")), arguments)
            yield ChatChunk(calls=[call])
        elif text := join_text(block.get("text")):
            yield ChatChunk(text)

    def _extend_block(self, block_index: int, delta: Mapping[str, Any]) -> Iterator[ChatChunk]:
        text = join_text(delta.get("text"))
        thinking = join_text(delta.get("thinking"))
        thought = self._thoughts.get(block_index)
        if thought is not None:
            for name in ("thinking", "signature"):
                if piece := join_text(delta.get(name)):
                    thought.add_text(name, piece)

        arguments = join_text(delta.get("partial_json"))
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
    """Return the index of the block that an event is about. Raises `ModelError`."""
    block_index = to_count(event.get("index"))
    if block_index is None:
        raise ModelError(NOT_AN_ANSWER)
    return block_index
