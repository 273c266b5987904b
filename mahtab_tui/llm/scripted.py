"""Streams prepared texts like a model's answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

_TOKENS = re.compile(r"\s*\S{1,12}|\s+\Z")
"""Small pieces of a text; joined, they are the text again."""


class ScriptedChatModel(BaseChatModel):
    """A model that streams prepared texts, and can be stopped between two tokens."""

    tells_cost: ClassVar[bool] = True

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

    def speak(self, text: str, tokens_per_second: float | None) -> Iterator[ChatGenerationChunk]:
        """Yield the text as chunks at a pace (None: at once), until stopped."""
        self._stopped.clear()
        for token in _TOKENS.findall(text):
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
