"""A model that answers from a file, for tests, talks and repeatable runs.

Each line: ``text`` (the answer) or ``error`` (the model fails with this sentence); optional
``match`` (a regular expression that the last message must contain), ``repeat`` (use this line any
number of times; otherwise once), ``tokens_per_second``, ``usage`` (``input_tokens``,
``output_tokens``, ``cost``)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.messages import message_text

_TOKENS = re.compile(r"\s*\S{1,12}|\s+\Z")
"""Small pieces of a text; joined, they are the text again."""


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


class ReplayUsage(BaseModel):
    """The usage that the model reports for an answer."""

    model_config = ConfigDict(extra="forbid")

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class ReplayLine(BaseModel):
    """One prepared answer."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    error: str = ""
    match: str | None = None
    repeat: bool = False
    tokens_per_second: float | None = Field(None, gt=0)
    usage: ReplayUsage = ReplayUsage()

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @model_validator(mode="before")
    @classmethod
    def _has_content(cls, value: Any) -> Any:
        if isinstance(value, dict) and "text" not in value and "error" not in value:
            raise ValueError("it has neither text nor error")
        return value

    def answers(self, message: str) -> bool:
        """Tell whether this line matches a message."""
        return self.match is None or re.search(self.match, message) is not None


def read_replay(path: Path) -> list[ReplayLine]:
    """Read a replay file. Raises `ModelError` with file, line and reason."""
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"The replay file {path} is not a file.")
        text = path.read_text("utf-8")
    except OSError as error:
        raise ModelError(f"The replay file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ModelError(f"The replay file {path} is not UTF-8 text.") from None
    lines = []
    # Only a line feed ends a line: JSON may contain U+2028 and the like.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                # Not pydantic's parser, which rejects the lone surrogates that a model may send.
                lines.append(ReplayLine.model_validate(json.loads(line)))
            except json.JSONDecodeError as error:
                raise ModelError(
                    f"{path}, line {number}: invalid JSON: {error.msg} (column {error.colno})."
                ) from None
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise ModelError(
                    f"{path}, line {number}: {where + ': ' if where else ''}{first['msg']}."
                ) from None
            except (
                ValueError,
                RecursionError,
            ):  # a number of thousands of digits, or brackets nested too deeply
                raise ModelError(
                    f"{path}, line {number}: a number is too long, or the JSON is nested too deeply."
                ) from None
    if not lines:
        raise ModelError(f"The replay file {path} has no answers in it.")
    return lines


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
        line = self._next(message_text(messages[-1]))
        if line.error:
            raise ModelError(line.error)
        yield from self.stream_text(line.text, line.tokens_per_second)
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
