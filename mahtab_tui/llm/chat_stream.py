"""The news of a chat model's answer, and how a stream of bytes is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.failures import NOT_AN_ANSWER, ServiceError
from mahtab_tui.llm.http_service import Exchange

LONGEST_LINE = 16_000_000
"""Bytes of a line of a stream."""


class TokenUsage(NamedTuple):
    """Tokens of a call."""

    read: int
    """All, including those from the cache."""
    written: int
    from_cache: int
    to_cache: int = 0
    """Written to the cache, which costs more; part of those read."""


class ToolCallPiece(NamedTuple):
    """A part of a call of a tool: the arguments (JSON) come in pieces, the rest with the first of
    them."""

    number: int
    """Number of the call, from 0."""
    id: str | None
    name: str | None
    arguments: str


class AnswerEnd(NamedTuple):
    """Everything that is known of an answer at its end."""

    model: str
    """The service's name for the model; empty if it gives none."""
    reason: str
    """Why it ended: "stop", "length", "tool_calls", "content_filter" ..."""
    usage: TokenUsage | None
    cost: object = None
    """Cost according to the service, in US dollars; not checked."""
    reasoning_details: Sequence[Mapping[str, Any]] = ()
    """The model's thinking in the service's form, to be sent back with the calls of tools."""


class ChatChunk(NamedTuple):
    """News of an answer; an empty one is only a sign that nothing has come for a moment."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolCallPiece] = ()
    end: AnswerEnd | None = None


class Answer:
    """Folds the events of one answer."""

    def __init__(self) -> None:
        self.begun = False
        """Whether anything of an answer has come."""
        self.ended = False
        """Whether nothing more follows."""
        self.reason = ""
        self.usage: TokenUsage | None = None
        self._model = ""

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a response. Raises `ModelError`."""
        raise NotImplementedError

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        """Take in an event. Raises `ServiceError`, `ModelError`."""
        raise NotImplementedError

    def end(self) -> AnswerEnd:
        return AnswerEnd(self._model, self.reason, self.usage)

    def note_model(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            raise ServiceError(event)
        if isinstance(model := event.get("model"), str):
            self._model = model


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
    """Yield the data of server-sent events; comments keep only the connection alive."""
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


def parse_event(data: bytes) -> Mapping[str, Any]:
    """Parse the JSON of an event. Raises `ModelError` if it is no object."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise ModelError(NOT_AN_ANSWER)
    return event


def join_text(content: object) -> str:
    """Return a text, or those of a list of blocks."""
    if isinstance(content, list):
        return "".join(join_text(block.get("text")) for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def to_count(value: object) -> int | None:
    """Return a number of tokens; None if it cannot be one."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
        else None
    )
