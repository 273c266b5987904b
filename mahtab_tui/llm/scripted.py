"""Streams prepared texts like a model's answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

_TOKENS = re.compile(r"\s*\S{1,12}|\s+\Z")


def tokens(text: str) -> list[str]:
    """Split a text into small pieces; joined, they are the text again."""
    return _TOKENS.findall(text)


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
        """Stop the running answer."""
        self._stopped.set()

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def speak(self, text: str, tokens_per_second: float | None) -> Iterator[ChatGenerationChunk]:
        """Yield the text as chunks at a pace (None: at once), until stopped."""
        self._stopped.clear()
        for token in tokens(text):
            if tokens_per_second is not None and self._stopped.wait(1 / tokens_per_second):
                return
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))

    def _generate(self, messages: Sequence[BaseMessage], stop: object = None, run_manager: object = None, **kwargs: object) -> ChatResult:
        chunks = list(self._stream(list(messages)))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return ChatResult(generations=[ChatGeneration(message=whole.message)])
