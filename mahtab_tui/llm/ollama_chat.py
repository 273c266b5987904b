"""Ollama's own protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_answers import (
    ChatAnswer,
    ChatChunk,
    Dialect,
    Message,
    TokenUsage,
    ToolCallPiece,
    join_text,
    new_call_id,
    to_count,
)
from mahtab_tui.llm.event_streams import parse_event, read_lines, require_object
from mahtab_tui.llm.failures import NOT_AN_ANSWER
from mahtab_tui.llm.http_exchange import Exchange


def _ollama_message(message: Message, names_by_call: Mapping[str, str]) -> dict[str, Any]:
    """Return a message in Ollama's form.

    Args:
        names_by_call: The functions' names by the calls' ids.
    """
    content = message.get("content") or ""
    converted: dict[str, Any] = {"role": message["role"], "content": content}
    if not isinstance(content, str):
        texts = [block["text"] for block in content if block.get("type") == "text"]
        urls = [block["image_url"]["url"] for block in content if block.get("type") == "image_url"]
        converted["content"] = "\n".join(texts)
        converted["images"] = [url.partition(";base64,")[2] for url in urls]

    calls = message.get("tool_calls")
    if calls:
        converted["tool_calls"] = [_ollama_call(call["function"]) for call in calls]
        reasoning = message.get("reasoning_content")
        if reasoning:
            converted["thinking"] = reasoning

    call_id = message.get("tool_call_id")
    if call_id is not None:
        converted["tool_name"] = names_by_call.get(call_id, "")
    return converted


def _ollama_call(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call of a function in Ollama's form, which has the arguments as an object."""
    arguments = json.loads(function["arguments"])
    return {"function": {"name": function["name"], "arguments": arguments}}


class OllamaAnswer(ChatAnswer):
    """An answer in Ollama's protocol, whose events are lines of JSON."""

    path = "/api/chat"

    @staticmethod
    def body(
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
        # Ollama has no such option; without tools, none is called.
        if options.pop("tool_choice", "auto") == "none":
            options.pop("tools", None)
        for name in ("tools", "format", "think", "keep_alive"):
            if options.get(name):
                body[name] = options.pop(name)
        body["options"] = options
        return body

    def __init__(self) -> None:
        super().__init__()
        self._call_count = 0

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        return (parse_event(line) for line in read_lines(exchange.pieces()) if line.strip())

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        self._note_model(event)
        message = require_object(event.get("message") or {})
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise ModelError(NOT_AN_ANSWER)
        self.begun = self.begun or "message" in event

        call_pieces = [self._read_call(require_object(call)) for call in calls]
        text = join_text(message.get("content"))
        thinking = join_text(message.get("thinking"))
        if text or thinking or call_pieces:
            yield ChatChunk(text, thinking, call_pieces)

        if event.get("done") is True:
            self.ended = True
            self.reason = str(event.get("done_reason") or "stop")
            read_tokens = to_count(event.get("prompt_eval_count"))
            written_tokens = to_count(event.get("eval_count"))
            if read_tokens is not None and written_tokens is not None:
                self.usage = TokenUsage(read_tokens, written_tokens, 0)

    def _read_call(self, call: Mapping[str, Any]) -> ToolCallPiece:
        """Return a call of a tool, which Ollama sends whole and without an id."""
        function = require_object(call.get("function"))
        name = str(function.get("name") or "")
        arguments = json.dumps(function.get("arguments") or {})
        number = self._call_count
        self._call_count += 1
        return ToolCallPiece(number, new_call_id(), name, arguments)
