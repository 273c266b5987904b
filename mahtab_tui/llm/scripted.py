"""LangChain models without a service: what they share, and the one that reads prepared answers from
a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from mahtab_tui.llm.answer_metadata import message_text
from mahtab_tui.llm.replay_file import Replay, ReplayLine, read_replay, split_tokens


class ScriptedChatModel(BaseChatModel):
    """A model that streams prepared texts, and can be stopped between two tokens."""

    reports_cost: ClassVar[bool] = True
    """Whether an answer's metadata say what it cost."""
    priced_as: ClassVar[str] = "local"
    """The name under which prices are looked up."""
    sees: ClassVar[bool] = False
    """Whether it can be sent pictures."""

    _stopped: threading.Event = PrivateAttr(default_factory=threading.Event)

    def worst_cost(self) -> float | None:
        """Return the most that an answer can cost, in US dollars; None if that is unknown."""
        return 0.0

    def stop(self) -> None:
        """Stop the running answer. Any thread may call it."""
        self._stopped.set()

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def stream_text(
        self, text: str, tokens_per_second: float | None
    ) -> Iterator[ChatGenerationChunk]:
        """Yield a text as chunks, until stopped.

        Args:
            text: The text of the answer.
            tokens_per_second: The pace; None for all at once.
        """
        self._stopped.clear()
        for token in split_tokens(text):
            if tokens_per_second is not None and self._stopped.wait(1 / tokens_per_second):
                return
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages))


def usage_chunk(
    model: str, read_tokens: int, written_tokens: int, cost: float | None
) -> ChatGenerationChunk:
    """Return the last chunk of an answer, which says what it took.

    Args:
        model: The name of the model.
        read_tokens: Tokens that it read.
        written_tokens: Tokens that it wrote.
        cost: What the answer cost in US dollars; None if that is unknown.
    """
    usage = UsageMetadata(
        input_tokens=read_tokens,
        output_tokens=written_tokens,
        total_tokens=read_tokens + written_tokens,
    )
    metadata = {"cost_usd": cost, "model_name": model}
    message = AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata)
    return ChatGenerationChunk(message=message)


class ChatReplay(ScriptedChatModel):
    """A model that reads its answers from a file."""

    lines: list[ReplayLine]
    """The prepared answers."""
    source: str
    """The file, for messages."""

    _replay: Replay = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._replay = Replay(self.lines, self.source)

    @classmethod
    def from_file(cls, path: Path) -> ChatReplay:
        """Make a model of a file. Raises `ModelError`."""
        return cls(lines=read_replay(path), source=str(path))

    @property
    def _llm_type(self) -> str:
        return "replay"

    def worst_cost(self) -> float | None:
        """Return what its most expensive answer costs."""
        return self._replay.worst_cost()

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        line = self._replay.next(message_text(messages[-1]))
        yield from self.stream_text(line.text, line.tokens_per_second)
        yield usage_chunk("replay", line.input_tokens, line.output_tokens, line.cost)
