"""A model behind HTTP, through its LangChain package: any thread may ask it, and whoever stops listening closes the connection."""

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
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, SecretStr

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.failures import explained

_SIGN = 0.1
"""Seconds of silence after which an empty piece is given, so that a listener can leave."""
_STARTING = threading.Lock()
"""Two first answers at once must not start two loops."""
_REASONS = ("finish_reason", "stop_reason", "done_reason")


class ChatRemote(BaseChatModel):
    """A provider's model, whose failures are sentences (`ModelError`). It asks once; asking again is for the caller."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    model: str
    provider: str
    """As it is named before the colon."""
    priced_as: str
    """Whose prices hold: a provider of genai-prices, the address of a service, "" where nobody knows, "local" where nothing is paid."""
    timeout: float
    """Seconds without a sign of the service before the answer is given up."""
    key: str = ""
    """The variable that holds the key."""
    secret: SecretStr = SecretStr("")
    """The key."""
    max_tokens: int | None = None
    """Of one answer; None where that is not known."""
    window: int | None = None
    """Tokens that the model reads at once; None where that is not known."""
    sees: bool | None = None
    """Whether it takes pictures; None where that is not known."""

    @property
    def _llm_type(self) -> str:
        return self.provider

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """As the provider's package has it."""
        bound: Any = self.inner.bind_tools(tools, **kwargs)
        return self.bind(**bound.kwargs)

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        arrived: queue.SimpleQueue[BaseMessageChunk | Exception | None] = queue.SimpleQueue()
        with _STARTING:
            loop = _loop()
        reading = asyncio.run_coroutine_threadsafe(self._read(messages, stop, kwargs, arrived.put), loop)
        ended = False
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
                    raise explained(chunk, key=self.key, secret=self.secret.get_secret_value(), timeout=self.timeout)
                ended = ended or getattr(chunk, "usage_metadata", None) is not None or any(chunk.response_metadata.get(reason) for reason in _REASONS)
                if chunk.response_metadata.get("finish_reason") == "error":
                    raise ModelError("The service ended the answer with an error.")
                yield ChatGenerationChunk(message=chunk)
        finally:
            reading.cancel()
        if not ended:
            raise ModelError("The connection broke off in the middle of the answer.")

    async def _read(self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], put: Callable[[Any], None]) -> None:
        try:
            async for chunk in self.inner.astream(messages, stop=stop, **kwargs):
                put(chunk)
            put(None)
        except Exception as error:  # the provider's own code
            put(error)

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One loop for all of them: the packages keep connections for a whole process, which belong to the loop that opened them."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="models", daemon=True).start()
    return loop
