"""Answers in Anthropic's protocol Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.anthropic_requests import write_request
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


class AnthropicAnswer(ChatAnswer):
    """An answer in Anthropic's protocol, which consists of numbered blocks."""

    path = "/v1/messages"

    @staticmethod
    def body(
        dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
    ) -> dict[str, Any]:
        return write_request(model, messages, options)

    def __init__(self) -> None:
        super().__init__()
        self._call_numbers: dict[int, int] = {}
        """Numbers of the calls by the indexes of their blocks."""
        self._thoughts: dict[int, Thought] = {}
        """Thoughts by the indexes of their blocks."""
        self._counts: dict[str, Any] = {}
        """The newest counts of tokens, by name. Each is of the whole answer so far, and an event need
        not repeat all."""

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
        """Begin a thought, a call of a tool, or words."""
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
        """Add a piece to a block that has begun. Raises `ModelError`."""
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
        """Remember the counts of tokens that an event has, if any."""
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
