"""Joins the pieces of an answer while it comes, and tells a listener about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mahtab_tui.llm.answer_metadata import (
    REFUSED,
    has_restarted,
    is_refused,
    message_reasoning,
    read_share,
)
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.usage import reported_usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.ai import UsageMetadata

    from mahtab_tui.bus.records import Usage

OnWords = Callable[[str | None], object]
"""Called with each piece of an answer's words, and with None when the answer starts again."""

_PORTION_INTERVAL_S = 0.03
"""Minimum seconds between two portions of words."""


def ignore(value: object) -> None:
    """Do nothing; the default of a callback."""


@dataclass(frozen=True)
class AnswerListener:
    """What is called while an answer comes, on the thread that reads it."""

    on_words: OnWords = ignore
    on_thought: Callable[[str], object] = ignore
    """Called with each piece of the model's thinking."""
    on_reading: Callable[[float], object] = ignore
    """Called with the share of the prompt that the model has read, from 0 to 1."""


class AnswerReader:
    """Joins the pieces of an answer, which may start again."""

    def __init__(self, listener: AnswerListener | None = None) -> None:
        self.words: list[str] = []
        """Pieces of what the model says."""
        self.thoughts: list[str] = []
        """Pieces of the model's thinking."""
        self.metadata: dict[str, Any] = {}
        """What the service says about the answer, such as why it ended."""
        self.listener = listener or AnswerListener()

    @property
    def text(self) -> str:
        """The words received so far."""
        return "".join(self.words)

    @property
    def whole_text(self) -> str:
        """The words of an answer that has ended, as the service gives them at the end."""
        return make_encodable(str(self.metadata.get("final_text") or self.text))

    @property
    def refusal(self) -> ModelError | None:
        """The error if the service's safeguards have stopped the answer; else None."""
        return ModelError(REFUSED) if is_refused(self.metadata) else None

    def add_words(self, words: str) -> None:
        """Add a piece of what the model says; it may be empty."""
        if words:
            self.words.append(words)
            self.listener.on_words(words)

    def add_thought(self, thought: str) -> None:
        """Add a piece of the model's thinking; it may be empty."""
        if thought:
            self.thoughts.append(thought)
            self.listener.on_thought(thought)

    def restart(self) -> None:
        """Drop all words and thoughts, because the answer starts again."""
        self.thoughts.clear()
        if self.words:
            self.words.clear()
            self.listener.on_words(None)


class MessageReader(AnswerReader):
    """Joins the chunks of a LangChain model's answer."""

    def __init__(
        self,
        llm: BaseChatModel,
        listener: AnswerListener | None = None,
        *,
        keeps_chunks: bool = False,
    ) -> None:
        """Start without an answer.

        Args:
            llm: The model.
            listener: Called while the answer comes.
            keeps_chunks: Whether to collect the chunks, which contain the model's tool calls.
        """
        super().__init__(listener)
        self.chunks: list[BaseMessage] = []
        """The chunks of the latest attempt, if they are kept."""
        self.is_accepted = False
        """Whether the service accepted the request, which may then cost money."""
        self._llm = llm
        self._keeps_chunks = keeps_chunks
        self._token_counts: UsageMetadata | None = None

    @property
    def usage(self) -> Usage | None:
        """The call's usage; None if the model did not report it."""
        return reported_usage(self._llm, self._token_counts, self.metadata)

    def add(self, chunk: BaseMessage, *, is_stopped: bool = False) -> None:
        """Add a chunk.

        Args:
            chunk: The chunk.
            is_stopped: Whether the answer was stopped, so that only its usage matters.
        """
        if self._keeps_chunks:
            self.chunks.append(chunk)
        if chunk.content or getattr(chunk, "tool_call_chunks", None):
            self.is_accepted = True
        if has_restarted(chunk.response_metadata):
            self.restart()

        if not is_stopped:
            share = read_share(chunk.response_metadata)
            if share is not None:
                self.listener.on_reading(share)
            self.add_thought(message_reasoning(chunk))
            self.add_words(str(chunk.text))

        # Usage may come in several chunks, also after the last word.
        token_counts = getattr(chunk, "usage_metadata", None)
        if token_counts is not None:
            # The import is free: the package is loaded, because the chunk is one of its objects.
            from langchain_core.messages.ai import add_usage

            self._token_counts = add_usage(self._token_counts, token_counts)
        self.metadata |= chunk.response_metadata


class WordPortions:
    """Passes words on in portions, so that a fast answer does not flood an event loop."""

    def __init__(self, on_words: OnWords) -> None:
        self._on_words = on_words
        self._waiting_words: list[str] = []
        self._flush_time = 0.0
        """Monotonic time in seconds of the last portion."""

    def add(self, words: str | None) -> None:
        """Add words, and pass them on if the last portion is long ago; None if the answer starts
        again."""
        if words is None:
            self._waiting_words.clear()
            self._on_words(None)
            return

        self._waiting_words.append(words)
        current_time = time.monotonic()
        if current_time - self._flush_time >= _PORTION_INTERVAL_S:
            self._flush_time = current_time
            self.flush()

    def flush(self) -> None:
        """Pass on the words that wait."""
        if self._waiting_words:
            words = make_encodable("".join(self._waiting_words))
            self._waiting_words.clear()
            self._on_words(words)
