"""Calls LangChain's models from the engine's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import add_usage

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import (
    REFUSED,
    ModelError,
    Stoppable,
    has_restarted,
    is_cut,
    is_refused,
    make_encodable,
)
from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.providers import MakeLLM, OnNotice, Sampling, get_llm, with_sampling
from mahtab_tui.llm.usage import model_name, reported_usage
from mahtab_tui.search.conversation import (
    Message,
    Model,
    NodeConversation,
    OnWords,
    Reply,
    WordStream,
    as_model_error,
    on_thread,
)

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata

_STOP_AGAIN = 0.1
"""Seconds before a stop is repeated, since one that comes before the answer starts is lost."""


class ReplyReader:
    def __init__(self, llm: BaseChatModel, on_words: OnWords) -> None:
        self._llm = llm
        self._words = WordStream(on_words)
        self._usage: UsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def add(self, chunk: BaseMessage) -> None:
        if has_restarted(chunk.response_metadata):
            self._words.restart()
        self._words.add(str(chunk.text))
        if (usage := getattr(chunk, "usage_metadata", None)) is not None:
            self._usage = add_usage(self._usage, usage)
        self._metadata |= chunk.response_metadata

    def reply(self) -> Reply:
        """Return the whole answer. Raises `ModelError` if the service refused to answer."""
        self._words.flush()
        if is_refused(self._metadata):
            raise ModelError(REFUSED)
        text = str(self._metadata.get("final_text") or self._words.text)
        return Reply(make_encodable(text), is_cut(self._metadata), self.used)

    @property
    def used(self) -> Usage | None:
        return reported_usage(self._llm, self._usage, self._metadata)


class ThreadedReader:
    def __init__(
        self,
        llm: BaseChatModel,
        messages: list[BaseMessage],
        on_words: OnWords,
        options: Mapping[str, Any],
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()

        def send(words: str | None) -> None:
            loop.call_soon_threadsafe(on_words, words)

        self._llm = llm
        self._messages = messages
        self._options = options
        self.reader = ReplyReader(llm, send)
        self._stopped = threading.Event()
        self.ended = on_thread(self._read)
        # Take note of the error of an answer that nobody waits for: asyncio would log it.
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def stop(self) -> None:
        self._stopped.set()
        if not self.ended.done() and isinstance(self._llm, Stoppable):
            self._llm.stop()
            self._loop.call_later(_STOP_AGAIN, self.stop)

    def _read(self) -> Reply:
        for chunk in self._llm.stream(self._messages, **self._options):
            if not self._stopped.is_set():
                self.reader.add(chunk)
            elif not isinstance(self._llm, Stoppable):
                break  # which closes the connection
        else:
            return self.reader.reply()
        raise ModelError("The call was stopped.")


CLI_CONCURRENCY = 3
"""For the `claude` CLI, whose processes take 215 MB each."""

_KINDS: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}


class ChatModel(Model):
    """A model of LangChain, and its instances, in one loop."""

    def __init__(self, llm: BaseChatModel, name: str, secrets: Secrets) -> None:
        super().__init__(name, secrets, llm)
        self.remembers = isinstance(llm, ChatClaudeCLI)
        if self.remembers:
            self.concurrency = CLI_CONCURRENCY
        limited = "max_tokens" in type(llm).model_fields and not self.remembers
        self.takes_max_tokens = limited and not getattr(llm, "thinking", None)
        # Others are called on a thread: providers' packages keep one asynchronous client for the
        # whole process, which fails when a second loop uses it.
        self.native = (
            type(llm)._stream is BaseChatModel._stream
            and type(llm)._astream is not BaseChatModel._astream
        )
        self._shared = not isinstance(llm, Stoppable)
        self.llm = llm
        self._made: list[ModelInstance] = []
        self._free: list[ModelInstance] = []

    @classmethod
    def create(
        cls,
        given: str | BaseChatModel,
        *,
        secrets: Secrets | None = None,
        make_llm: MakeLLM = get_llm,
        on_notice: OnNotice | None = None,
        sampling: Sampling | None = None,
    ) -> ChatModel:
        name = given if isinstance(given, str) else model_name(given) or given._llm_type
        llm = make_llm(given, on_notice=on_notice) if isinstance(given, str) else given
        return cls(with_sampling(llm, name, sampling or {}), name, secrets or Secrets())

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        instance = self.lease(conversation)
        sent = [_KINDS[each["role"]](each["content"]) for each in self.masked(messages)]
        options = {} if conversation.max_tokens is None else {"max_tokens": conversation.max_tokens}
        if self.native:
            return await self._native(instance.llm, sent, on_words, options)
        conversation.instance, instance.known_by = instance, conversation
        reading = ThreadedReader(instance.llm, sent, on_words, options)
        reading.ended.add_done_callback(lambda ended: self.release(instance))
        try:
            return await asyncio.shield(reading.ended)
        except asyncio.CancelledError:
            reading.stop()
            raise
        except Exception:
            conversation.used = reading.reader.used
            raise

    async def _native(
        self,
        llm: BaseChatModel,
        messages: list[BaseMessage],
        on_words: OnWords,
        options: Mapping[str, Any],
    ) -> Reply:
        reader = ReplyReader(llm, on_words)
        try:
            async for chunk in llm.astream(messages, **options):
                reader.add(chunk)
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # The provider's code exits or cancels itself, which must not end this loop.
            raise as_model_error(error) from None
        return reader.reply()

    def lease(self, conversation: NodeConversation) -> ModelInstance:
        """Take an instance for one call: the one that knows the conversation, one whose
        conversation has ended, a new one, or the longest unused."""
        if self._shared:
            return ModelInstance(self.llm)

        def rank(instance: ModelInstance) -> int:
            if instance.known_by is conversation:
                return 0
            return 1 if instance.known_by is None or instance.known_by.ended else 2

        best = min(self._free, key=rank, default=None)
        if best is None or (rank(best) == 2 and len(self._made) <= self.concurrency):
            self._made.append(ModelInstance(_copy_model(self.llm)))
            return self._made[-1]
        self._free.remove(best)
        return best

    def release(self, instance: ModelInstance) -> None:
        if not self._shared:
            self._free.append(instance)

    def close(self) -> None:
        for instance in self._made:
            if isinstance(instance.llm, Stoppable):
                instance.llm.close()


class ModelInstance:
    def __init__(self, llm: BaseChatModel) -> None:
        self.llm = llm
        self.known_by: NodeConversation | None = None


def _copy_model(llm: BaseChatModel) -> BaseChatModel:
    settings = {name: getattr(llm, name) for name in type(llm).model_fields}
    if isinstance(llm, ChatClaudeCLI):
        settings["processes"] = 1
    return type(llm)(**settings)
