"""What an answer of a chat model consists of, whatever protocol its service speaks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple

from mahtab_tui.llm.event_streams import parse_event, read_events, read_lines
from mahtab_tui.llm.http_exchange import Exchange

Dialect = Literal["openai", "openrouter", "compatible", "anthropic", "ollama"]
Message = Mapping[str, Any]
"""A message in the form of Chat Completions."""


class TokenUsage(NamedTuple):
    """Tokens of one answer."""

    read_tokens: int
    """All tokens of the prompt, with those of the cache."""
    written_tokens: int
    """All tokens of the answer, with those of the model's thinking."""
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
    """A piece of an answer; an empty one if nothing has arrived for a moment.

    `text` and `reasoning` are what the model says and thinks.
    """

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


class Thought:
    """A piece of the model's thinking in the service's form, whose texts come in pieces."""

    def __init__(self, fields: Mapping[str, Any] | None = None) -> None:
        self.fields = dict(fields or {})
        """The fields that are not texts in pieces."""
        self._texts: dict[str, list[str]] = {}

    def add_text(self, name: str, text: str) -> None:
        """Add a piece to one of its texts."""
        self._texts.setdefault(name, []).append(text)

    def whole(self) -> dict[str, Any]:
        """Return it with all its texts, to be sent back."""
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        return {**self.fields, **texts}


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


class ChatAnswer:
    """An answer in one of the protocols, folded from its events."""

    path: ClassVar[str]
    """Where the protocol answers questions, after the service's address."""

    def __init__(self) -> None:
        self.begun = False
        """Whether the model has begun to answer."""
        self.ended = False
        """Whether the service said so."""
        self.reason = ""
        """Why it ended, in the service's words."""
        self.usage: TokenUsage | None = None
        self._model = ""

    @staticmethod
    def body(
        dialect: Dialect, model: str, messages: Sequence[Message], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the body of a request.

        Args:
            dialect: The service's variant of the protocol.
            model: The service's name for the model.
            messages: The conversation.
            options: Options in the form of Chat Completions; the dictionary is used up.
        """
        raise NotImplementedError

    def events(self, exchange: Exchange) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a response as they arrive. Raises `ModelError`."""
        for data, is_error in read_events(read_lines(exchange.pieces())):
            yield parse_event(data, is_error=is_error)

    def fold(self, event: Mapping[str, Any]) -> Iterator[ChatChunk]:
        """Take an event, and yield what it adds to the answer. Raises `ModelError`."""
        raise NotImplementedError

    def end(self) -> AnswerEnd:
        """Return what the service has said about the answer as a whole."""
        return AnswerEnd(self._model, self.reason, self.usage)

    def _note_model(self, event: Mapping[str, Any]) -> None:
        model = event.get("model")
        if isinstance(model, str):
            self._model = model


def join_text(content: object) -> str:
    """Return a content's text: a string, or a list of blocks; empty for anything else."""
    if isinstance(content, list):
        return "".join(join_text(block.get("text")) for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def to_count(value: object) -> int | None:
    """Return a number of tokens or the like; None if a service's value is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 53 else None


def new_call_id() -> str:
    """Return an id for a tool call of a service that gives none."""
    return f"call_{uuid.uuid4().hex[:12]}"
