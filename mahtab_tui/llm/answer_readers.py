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

OnText = Callable[[str | None], object]
"""Called with each piece of an answer's text, and with None when the answer starts again."""

_PORTION_INTERVAL_S = 0.03
"""Minimum seconds between two portions of text."""


def do_nothing(value: object) -> None:
    """Take a value; the default of a callback that nobody needs."""


@dataclass(frozen=True)
class AnswerListener:
    """What is called while an answer comes, on the thread that reads it."""

    on_text: OnText = do_nothing
    """Called with each piece of the answer's text, and with None when the answer starts again."""
    on_thought: Callable[[str], object] = do_nothing
    """Called with each piece of the model's thinking."""
    on_reading: Callable[[float], object] = do_nothing
    """Called with the share of the prompt that the model has read, from 0 to 1."""


class AnswerReader:
    """Joins the pieces of an answer, which may start again."""

    def __init__(self, listener: AnswerListener | None = None) -> None:
        self.text_pieces: list[str] = []
        """What the model says."""
        self.thoughts: list[str] = []
        """Pieces of the model's thinking."""
        self.metadata: dict[str, Any] = {}
        """What the service says about the answer, such as why it ended."""
        self.listener = listener or AnswerListener()

    @property
    def text(self) -> str:
        """The text received so far."""
        return "".join(self.text_pieces)

    @property
    def whole_text(self) -> str:
        """The text of an answer that has ended, as the service gives it at the end."""
        return make_encodable(str(self.metadata.get("final_text") or self.text))

    @property
    def refusal(self) -> ModelError | None:
        """The error if the service's safeguards have stopped the answer; else None."""
        return ModelError(REFUSED) if is_refused(self.metadata) else None

    def add_text(self, piece: str) -> None:
        """Add a piece of what the model says; it may be empty."""
        if piece:
            self.text_pieces.append(piece)
            self.listener.on_text(piece)

    def add_thought(self, thought: str) -> None:
        """Add a piece of the model's thinking; it may be empty."""
        if thought:
            self.thoughts.append(thought)
            self.listener.on_thought(thought)

    def restart(self) -> None:
        """Drop all text and thoughts, because the answer starts again."""
        self.thoughts.clear()
        if self.text_pieces:
            self.text_pieces.clear()
            self.listener.on_text(None)


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
        if has_restarted(chunk.response_metadata):
            self.restart()
        if self._keeps_chunks:
            self.chunks.append(chunk)
        if chunk.content or getattr(chunk, "tool_call_chunks", None):
            self.is_accepted = True
        if not is_stopped:
            self._tell_listener(chunk)
        self._add_usage(chunk)
        self.metadata |= chunk.response_metadata

    def restart(self) -> None:
        super().restart()
        self.chunks.clear()

    def _tell_listener(self, chunk: BaseMessage) -> None:
        share = read_share(chunk.response_metadata)
        if share is not None:
            self.listener.on_reading(share)
        self.add_thought(message_reasoning(chunk))
        self.add_text(str(chunk.text))

    def _add_usage(self, chunk: BaseMessage) -> None:
        """Count tokens, which may come in several chunks, also after the last text."""
        token_counts = getattr(chunk, "usage_metadata", None)
        if token_counts is not None:
            # Already imported: the chunk comes from this package.
            from langchain_core.messages.ai import add_usage

            self._token_counts = add_usage(self._token_counts, token_counts)


class TextPortions:
    """Passes text on in portions, so that a fast answer does not flood an event loop."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._waiting_pieces: list[str] = []
        self._flush_time = 0.0
        """Monotonic time in seconds of the last portion."""

    def add(self, piece: str | None) -> None:
        """Add a piece of text; what waits is passed on at most every `_PORTION_INTERVAL_S`.

        None means that the answer starts again, and drops what waits.
        """
        if piece is None:
            self._waiting_pieces.clear()
            self._on_text(None)
            return

        self._waiting_pieces.append(piece)
        if time.monotonic() - self._flush_time >= _PORTION_INTERVAL_S:
            self.flush()

    def flush(self) -> None:
        """Pass on the text that waits."""
        if not self._waiting_pieces:
            return
        portion = make_encodable("".join(self._waiting_pieces))
        self._waiting_pieces.clear()
        self._flush_time = time.monotonic()
        self._on_text(portion)
