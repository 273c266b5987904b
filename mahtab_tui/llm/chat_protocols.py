"""The protocol of chat models: OpenAI's Chat Completions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.llm.base import NOT_AN_ANSWER, ModelError, ServiceError

if TYPE_CHECKING:
    from mahtab_tui.llm.chat_client import Exchange
    from mahtab_tui.llm.providers import Dialect

Message = Mapping[str, Any]

LONGEST_LINE = 16_000_000


class TokenUsage(NamedTuple):
    read: int
    written: int
    from_cache: int


class ToolCallPiece(NamedTuple):
    number: int
    id: str | None
    name: str | None
    arguments: str


class AnswerEnd(NamedTuple):
    model: str
    """The service's name for the model; empty if it gives none."""
    reason: str
    usage: TokenUsage | None
    cost: object = None
    reasoning_details: Sequence[Mapping[str, Any]] = ()
    """The model's thinking in the service's form, to be sent back with the calls of tools."""


class ChatChunk(NamedTuple):
    """News of an answer; an empty one is a sign that nothing has come for a moment."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolCallPiece] = ()
    end: AnswerEnd | None = None


def read_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines. Raises `ModelError` for one that is too long."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise ModelError(NOT_AN_ANSWER)
    if size:
        yield b"".join(parts)


def read_events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of server-sent events, without comments."""
    data: list[bytes] = []
    size = 0
    for line in lines:
        line = line.rstrip(b"\r")
        if line.startswith(b"data:"):
            data.append(line[5:])
            size += len(line)
            if size > LONGEST_LINE:
                raise ModelError(NOT_AN_ANSWER)
        elif not line and data:
            yield b"\n".join(data)
            data, size = [], 0
    if data:
        yield b"\n".join(data)


def _parse_event(data: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(data))
    except (ValueError, RecursionError):
        raise ModelError(NOT_AN_ANSWER) from None


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


def request_body(
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


class Answer:
    """An answer of Chat Completions; later counts of tokens replace earlier ones."""

    def __init__(self) -> None:
        self.begun = False
        self.reason = ""
        self.usage: TokenUsage | None = None
        self._model = ""
        self._cost: object = None
        self._from_cache: int | None = None
        self._calls: list[str] = []
        self._details: list[dict[str, Any]] = []

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        if str(exchange.headers.get("content-type")).startswith("application/json"):
            yield _parse_event(exchange.body(LONGEST_LINE))  # the whole answer at once
        else:
            for data in read_events(read_lines(exchange.pieces())):
                if data.strip() == b"[DONE]":
                    break
                yield _parse_event(data)
            else:
                return
        self.ended = True

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        if event.get("error"):
            raise ServiceError(event)
        if isinstance(model := event.get("model"), str):
            self._model = model
        if isinstance(usage := event.get("usage"), dict):
            self._note_usage(usage)
        if isinstance(timings := event.get("timings"), dict):  # of llama.cpp
            self._from_cache = to_count(timings.get("cache_n"))
        choices = event.get("choices", [])
        if not isinstance(choices, list):
            raise ModelError(NOT_AN_ANSWER)
        for choice in choices[:1]:
            self.begun = True
            if _mapping(choice).get("error"):  # of the provider behind OpenRouter
                raise ServiceError(choice)
            delta = _mapping(choice.get("delta") or choice.get("message") or {})
            self.reason = str(choice.get("finish_reason") or self.reason)
            if isinstance(details := delta.get("reasoning_details"), list):
                _add_details(self._details, details)
            text = _join_text(delta.get("content")) or _join_text(delta.get("refusal"))
            reasoning = _join_text(delta.get("reasoning_content") or delta.get("reasoning"))
            calls = [*self._pieces(delta.get("tool_calls"))]
            if text or reasoning or calls:
                yield ChatChunk(text, reasoning, calls)

    def end(self) -> AnswerEnd:
        usage = self.usage
        if usage is not None and not usage.from_cache and self._from_cache:
            usage = usage._replace(from_cache=min(self._from_cache, usage.read))
        return AnswerEnd(self._model, self.reason, usage, self._cost, self._details)

    def _note_usage(self, usage: Mapping[str, Any]) -> None:
        read = to_count(usage.get("prompt_tokens"))
        written = to_count(usage.get("completion_tokens"))
        if read is not None and written is not None:
            details = usage.get("prompt_tokens_details")
            cached = to_count(details.get("cached_tokens")) if isinstance(details, dict) else None
            self.usage = TokenUsage(read, written, min(cached or 0, read))
            self._cost = usage.get("cost", self._cost)

    def _pieces(self, deltas: object) -> Iterator[ToolCallPiece]:
        """Not every service numbers its calls, and some repeat the id and the name."""
        for delta in deltas if isinstance(deltas, list) else ():
            function = _mapping(_mapping(delta).get("function"))
            number, given, name = (
                to_count(delta.get("index")),
                delta.get("id"),
                function.get("name"),
            )
            known = len(self._calls)
            index = known - 1 if number is None else min(number, known)
            if is_new := not 0 <= index < known or bool(
                name and given and given != self._calls[index]
            ):
                index = known
                self._calls.append(str(given or _new_call_id()))
            arguments = function.get("arguments") or ""
            yield ToolCallPiece(
                index,
                self._calls[index] if is_new else None,
                str(name or "") if is_new else None,
                arguments if isinstance(arguments, str) else json.dumps(arguments),
            )


def _new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:12]}"


def _add_details(known: list[dict[str, Any]], pieces: Sequence[object]) -> None:
    """Join the pieces of reasoning that belong together; their texts follow one another."""
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        last = known[-1] if known else {}
        if not known or any(last.get(name) != piece.get(name) for name in ("type", "index")):
            # Ids of OpenAI's answers are forgotten there before they could be sent back.
            if str(piece.get("id")).startswith("rs_"):
                piece = {name: value for name, value in piece.items() if name != "id"}
            known.append(dict(piece))
            continue
        for name, value in piece.items():
            before = last.get(name)
            is_text = isinstance(before, str) and isinstance(value, str)
            if name in ("text", "summary", "data") and is_text:
                last[name] = before + value
            elif value is not None:
                last[name] = value
