"""A model behind HTTP through its LangChain package: Anthropic's. Any thread may use it; closing a
stream closes its connection."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, BaseMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage, subtract_usage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, SecretStr

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import REASONS
from mahtab_tui.llm.failures import explained

_SIGN = 0.1
"""Seconds of silence before an empty chunk is yielded, so that the reader can stop."""
_STARTING = threading.Lock()
"""Prevents two first answers from starting two loops."""


class ChatRemote(BaseChatModel):
    """A provider's model, whose failures are sentences (`ModelError`). It does not retry."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    model: str
    provider: str
    """The part of the name before the colon."""
    priced_as: str
    """Name whose prices apply: a provider of genai-prices, a service's address, "" if unknown,
    "local" if free."""
    timeout: float
    """Seconds without a response before the answer is abandoned."""
    key: str = ""
    """The variable that holds the key."""
    secret: SecretStr = SecretStr("")
    """The key."""
    max_tokens: int | None = None
    """Most tokens of one answer; None if unknown."""
    window: int | None = None
    """The context window in tokens; None if unknown."""
    sees: bool | None = None
    """Whether it accepts pictures; None if unknown."""

    @property
    def _llm_type(self) -> str:
        return self.provider

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind tools as the provider's package does."""
        bound: Any = self.inner.bind_tools(tools, **kwargs)
        return self.bind(**bound.kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        arrived: queue.SimpleQueue[BaseMessageChunk | Exception | None] = queue.SimpleQueue()
        with _STARTING:
            loop = _loop()
        reading = asyncio.run_coroutine_threadsafe(
            self._read(messages, stop, kwargs, arrived.put), loop
        )
        ended = False
        counted: UsageMetadata | None = None
        try:
            while True:
                try:
                    chunk = arrived.get(timeout=_SIGN)
                except queue.Empty:
                    yield ChatGenerationChunk(message=AIMessageChunk(content=""))
                    continue
                if chunk is None:
                    break
                if isinstance(chunk, Exception):
                    raise explained(
                        chunk,
                        key=self.key,
                        secret=self.secret.get_secret_value(),
                        timeout=self.timeout,
                    )
                if isinstance(chunk, AIMessageChunk) and chunk.usage_metadata is not None:
                    # Chunks are summed, but services count from the beginning of the answer, and
                    # some repeat their counts.
                    chunk.usage_metadata = subtract_usage(chunk.usage_metadata, counted)
                    counted = add_usage(counted, chunk.usage_metadata)
                ended = (
                    ended
                    or getattr(chunk, "usage_metadata", None) is not None
                    or any(chunk.response_metadata.get(reason) for reason in REASONS)
                )
                if chunk.response_metadata.get("finish_reason") == "error":
                    raise ModelError("The service ended the answer with an error.")
                yield ChatGenerationChunk(message=chunk)
        finally:
            reading.cancel()
        if not ended:
            raise ModelError("The connection broke off in the middle of the answer.")

    async def _read(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        put: Callable[[Any], None],
    ) -> None:
        try:
            async for chunk in self.inner.astream(messages, stop=stop, **kwargs):
                put(chunk)
            put(None)
        except Exception as error:  # the provider's code
            put(error)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop for all models: the packages keep connections for the whole process, which
    belong to the loop that opened them."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="models", daemon=True).start()
    return loop
