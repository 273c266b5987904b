"""OpenAI's protocol Chat Completions, which many services speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.base import ModelError, ServiceError
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
    new_call_id,
    to_count,
)
from mahtab_tui.llm.event_streams import (
    MAX_LINE_BYTES,
    parse_event,
    read_events,
    read_lines,
    require_object,
)
from mahtab_tui.llm.failures import NOT_AN_ANSWER
from mahtab_tui.llm.http_exchange import Exchange

_THOUGHT_TEXTS = ("text", "summary", "data")
"""Fields of a thought that come in pieces."""


class CompletionAnswer(ChatAnswer):
    """An answer of Chat Completions; later counts of tokens replace earlier ones."""

    path = "/chat/completions"

    @staticmethod
    def body(
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

    def __init__(self) -> None:
        super().__init__()
        self._cost: object = None
        """What the service says that the answer costs, in US dollars; not checked."""
        self._from_cache: int | None = None
        """Tokens of the prompt that llama.cpp had read before; None if it did not say."""
        self._call_ids: list[str] = []
        """The ids of the calls, by their indexes."""
        self._thoughts: list[Thought] = []

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        if str(exchange.headers.get("content-type")).startswith("application/json"):
            # The service does not stream: this is the whole answer.
            yield parse_event(exchange.body(MAX_LINE_BYTES))
            self.ended = True
            return
        for data, is_error in read_events(read_lines(exchange.pieces())):
            if data.strip() == b"[DONE]":
                self.ended = True
                return
            yield parse_event(data, is_error=is_error)

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
        if choices and choices[0]:
            yield from self._fold_choice(require_object(choices[0]))

    def _fold_choice(self, choice: Mapping[str, Any]) -> Iterator[ChatChunk]:
        """Read a piece of the answer itself. Raises `ServiceError`."""
        self.begun = True
        if choice.get("error"):  # of the provider behind OpenRouter
            raise ServiceError(choice)
        delta = require_object(choice.get("delta") or choice.get("message") or {})
        self.reason = str(choice.get("finish_reason") or self.reason)
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self._add_detail(detail)

        text = join_text(delta.get("content")) or join_text(delta.get("refusal"))
        reasoning = join_text(delta.get("reasoning_content") or delta.get("reasoning"))
        calls = list(self._read_call_pieces(delta.get("tool_calls")))
        if text or reasoning or calls:
            yield ChatChunk(text, reasoning, calls)

    def end(self) -> AnswerEnd:
        usage = self.usage
        if usage is not None and not usage.from_cache and self._from_cache:
            usage = usage._replace(from_cache=min(self._from_cache, usage.read_tokens))
        thoughts = [thought.whole() for thought in self._thoughts]
        return AnswerEnd(self._model, self.reason, usage, self._cost, thoughts)

    def _note_usage(self, usage: Mapping[str, Any]) -> None:
        """Remember the counts of tokens and the cost, unless they are incomplete."""
        read = to_count(usage.get("prompt_tokens"))
        written = to_count(usage.get("completion_tokens"))
        if read is not None and written is not None:
            details = usage.get("prompt_tokens_details")
            cached = to_count(details.get("cached_tokens")) if isinstance(details, dict) else None
            self.usage = TokenUsage(read, written, min(cached or 0, read))
            self._cost = usage.get("cost", self._cost)

    def _read_call_pieces(self, deltas: object) -> Iterator[ToolCallPiece]:
        """Yield pieces of tool calls.

        Not every service numbers its calls, and some repeat the id and the name.
        """
        for delta in deltas if isinstance(deltas, list) else ():
            function = require_object(require_object(delta).get("function"))
            arguments = function.get("arguments") or ""
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments)

            index = self._find_call(delta, function)
            if index is not None:
                yield ToolCallPiece(index, None, None, arguments)
                continue
            call_id = str(delta.get("id") or new_call_id())
            name = str(function.get("name") or "")
            self._call_ids.append(call_id)
            yield ToolCallPiece(len(self._call_ids) - 1, call_id, name, arguments)

    def _find_call(self, delta: Mapping[str, Any], function: Mapping[str, Any]) -> int | None:
        """Return the index of the call to which a piece belongs; None if it begins a new one."""
        index = to_count(delta.get("index"))
        if index is None:
            # Without a number, a piece belongs to the newest call.
            index = len(self._call_ids) - 1
        if not 0 <= index < len(self._call_ids):
            return None
        call_id = delta.get("id")
        if function.get("name") and call_id and call_id != self._call_ids[index]:
            return None
        return index

    def _add_detail(self, detail: Mapping[str, Any]) -> None:
        """Add a piece of thinking, which may go on with the last thought."""
        thought = self._thoughts[-1] if self._thoughts else None
        is_new = thought is None or _thought_kind(detail) != _thought_kind(thought.fields)
        if thought is None or is_new:
            thought = Thought()
            self._thoughts.append(thought)
            # OpenAI forgets these ids before they could be sent back.
            if str(detail.get("id")).startswith("rs_"):
                detail = {name: value for name, value in detail.items() if name != "id"}
        for name, value in detail.items():
            if name in _THOUGHT_TEXTS and isinstance(value, str):
                thought.add_text(name, value)
            elif value is not None or is_new:
                thought.fields[name] = value


def _thought_kind(detail: Mapping[str, Any]) -> tuple[object, object]:
    """Return what pieces of one thought have in common."""
    return detail.get("type"), detail.get("index")


def _read_share(progress: object) -> float | None:
    """Return the share of the prompt that llama.cpp has read; None if it does not say."""
    if not isinstance(progress, dict):
        return None
    read = to_count(progress.get("processed"))
    total = to_count(progress.get("total"))
    return min(1.0, read / total) if read is not None and total else None
