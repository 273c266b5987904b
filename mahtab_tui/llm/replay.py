"""LangChain models that stream prepared texts, and the one that reads them from a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from mahtab_tui.llm.messages import message_text
from mahtab_tui.llm.replay_file import Replay, ReplayLine, read_replay, split_tokens


class ScriptedChatModel(BaseChatModel):
    """A model that streams prepared texts, and can be stopped between two tokens."""

    reports_cost: ClassVar[bool] = True

    _stopped: threading.Event = PrivateAttr(default_factory=threading.Event)

    priced_as: ClassVar[str] = "local"
    sees: ClassVar[bool] = False

    def worst_cost(self) -> float | None:
        """Return the US dollars that an answer may cost."""
        return 0.0

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def stream_text(
        self, text: str, tokens_per_second: float | None
    ) -> Iterator[ChatGenerationChunk]:
        """Yield the text as chunks at a pace (None: at once), until stopped."""
        self._stopped.clear()
        for token in split_tokens(text):
            if tokens_per_second is not None and self._stopped.wait(1 / tokens_per_second):
                return
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))

    def _generate(
        self,
        messages: Sequence[BaseMessage],
        stop: object = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        return generate_from_stream(self._stream(list(messages)))


def usage_chunk(model: str, read: int, written: int, cost: float | None) -> ChatGenerationChunk:
    """Return the chunk with which an answer ends: the tokens that were read and written, and US
    dollars."""
    message = AIMessageChunk(
        content="",
        usage_metadata={
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        },
        response_metadata={"cost_usd": cost, "model_name": model},
    )
    return ChatGenerationChunk(message=message)


class ChatReplay(ScriptedChatModel):
    """Answers with the first unused line that matches the last message. Several threads may use
    it."""

    lines: list[ReplayLine]
    source: str

    _replay: Replay = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._replay = Replay(self.lines, self.source)

    @classmethod
    def from_file(cls, path: Path) -> ChatReplay:
        """Read a file. Raises `ModelError` if it is invalid."""
        return cls(lines=read_replay(path), source=str(path))

    @property
    def _llm_type(self) -> str:
        return "replay"

    def worst_cost(self) -> float | None:
        """Return the cost of the most expensive answer left; None if one has no cost."""
        return self._replay.worst_cost()

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        line = self._replay.next(message_text(messages[-1]))
        yield from self.stream_text(line.text, line.tokens_per_second)
        yield usage_chunk("replay", line.input_tokens, line.output_tokens, line.cost)
