"""A model that answers from a file, for tests, talks and repeatable runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import PrivateAttr

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import text_of
from mahtab_tui.llm.replay_file import ReplayLine, read_replay
from mahtab_tui.llm.scripted import ScriptedChatModel, usage_chunk


class ChatReplay(ScriptedChatModel):
    """Answers with the first unused line that matches the last message. Several threads may use
    it."""

    lines: list[ReplayLine]
    source: str

    _used: set[int] = PrivateAttr(default_factory=set)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @classmethod
    def from_file(cls, path: Path) -> ChatReplay:
        """Read a file. Raises `ModelError` if it is invalid."""
        return cls(lines=read_replay(path), source=str(path))

    @property
    def _llm_type(self) -> str:
        return "replay"

    def worst_cost(self) -> float | None:
        """Return the cost of the most expensive answer left; None if one has no cost."""
        with self._lock:
            costs = [
                line.usage.cost
                for number, line in enumerate(self.lines)
                if number not in self._used and not line.error
            ]
        return (
            None
            if None in costs
            else max((cost for cost in costs if cost is not None), default=0.0)
        )

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        line = self._next(text_of(messages[-1]))
        if line.error:
            raise ModelError(line.error)
        yield from self.speak(line.text, line.tokens_per_second)
        yield usage_chunk(
            "replay", line.usage.input_tokens, line.usage.output_tokens, line.usage.cost
        )

    def _next(self, message: str) -> ReplayLine:
        with self._lock:
            for number, line in enumerate(self.lines):
                if number not in self._used and line.answers(message):
                    if not line.repeat:
                        self._used.add(number)
                    return line
        raise ModelError(f"The replay file {self.source} has no matching answer left.")
