"""Calls LangChain's models from the search engine's event loop.

An asynchronous model is awaited; any other is called on a thread. Some serve only one call at a time,
such as the `claude` program, which also keeps a conversation: of these, several instances are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.answer_metadata import is_cut
from mahtab_tui.llm.answer_readers import MessageReader, OnText
from mahtab_tui.llm.async_calls import ThreadedCall, read_async
from mahtab_tui.llm.base import Stoppable
from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.prices import model_name
from mahtab_tui.llm.providers import MakeLLM, get_llm
from mahtab_tui.llm.sampling import Sampling, with_sampling
from mahtab_tui.llm.services import OnNotice
from mahtab_tui.search.conversation import Model, ModelReply, NodeConversation, PromptMessage

CLI_CONCURRENCY = 3
"""Calls of the `claude` CLI at a time; each of its processes takes 215 MB."""

_MESSAGE_CLASSES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}


class ChatModel(Model):
    """A model of LangChain, with the instances that serve several calls at a time.

    Use it in one event loop only.
    """

    def __init__(self, llm: BaseChatModel, name: str, secrets: Secrets) -> None:
        """
        Args:
            llm: The model; it is copied if an instance can serve only one call at a time.
            name: The name that people read.
            secrets: Masked in the messages to it.
        """
        super().__init__(name, secrets, llm)
        self.llm = llm
        self.remembers = isinstance(llm, ChatClaudeCLI)
        if self.remembers:
            self.concurrency = CLI_CONCURRENCY
        # For a model that thinks, a limit of the answer would cover its thoughts, too.
        has_max_tokens = "max_tokens" in type(llm).model_fields and not self.remembers
        self.takes_max_tokens = has_max_tokens and not getattr(llm, "thinking", None)
        # Only a model that streams in no other way is awaited. The others are called on a thread:
        # providers' packages keep one asynchronous client for the whole process, which fails when a
        # second loop uses it.
        self.is_async = (
            type(llm)._stream is BaseChatModel._stream
            and type(llm)._astream is not BaseChatModel._astream
        )
        # `stop` ends whatever an instance generates, so each call needs an instance for itself.
        self._is_shared = not isinstance(llm, Stoppable)
        self._instances: list[ModelInstance] = []
        self._free_instances: list[ModelInstance] = []
        """Least recently used first."""

    @classmethod
    def create(
        cls,
        name_or_llm: str | BaseChatModel,
        *,
        secrets: Secrets | None = None,
        make_llm: MakeLLM = get_llm,
        on_notice: OnNotice | None = None,
        sampling: Sampling | None = None,
    ) -> ChatModel:
        """Make a model of a name or of a LangChain model.

        Args:
            name_or_llm: A name for `make_llm`, or a model.
            secrets: Masked in the messages to it.
            make_llm: Makes a model of a name.
            on_notice: Called with the model's notices.
            sampling: `temperature`, `top_p` and `seed`, as far as they are set.

        Raises:
            ModelError: The model is not available, or does not take an option.
        """
        if isinstance(name_or_llm, str):
            name = name_or_llm
            llm = make_llm(name, on_notice=on_notice)
        else:
            llm = name_or_llm
            name = model_name(llm) or llm._llm_type
        return cls(with_sampling(llm, name, sampling or {}), name, secrets or Secrets())

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[PromptMessage], on_text: OnText
    ) -> ModelReply:
        masked_messages = [
            _MESSAGE_CLASSES[message["role"]](message["content"])
            for message in self.masked(messages)
        ]
        options: dict[str, int] = {}
        if conversation.max_tokens is not None:
            options["max_tokens"] = conversation.max_tokens
        instance = self.lease(conversation)
        if self.is_async:
            return _make_reply(await read_async(instance.llm, masked_messages, on_text, options))
        return await self._answer_on_thread(
            conversation, instance, masked_messages, on_text, options
        )

    async def _answer_on_thread(
        self,
        conversation: NodeConversation,
        instance: ModelInstance,
        messages: Sequence[BaseMessage],
        on_text: OnText,
        options: dict[str, int],
    ) -> ModelReply:
        """Call an instance on a thread, and stop it if this task is cancelled."""
        conversation.instance = instance
        instance.conversation = conversation
        call = ThreadedCall(instance.llm, messages, on_text, options)
        call.ended.add_done_callback(lambda _: self.release(instance))
        try:
            await asyncio.shield(call.ended)
        except asyncio.CancelledError:
            call.stop()
            raise
        except Exception:
            conversation.used = call.reader.usage
            raise
        return _make_reply(call.reader)

    def lease(self, conversation: NodeConversation) -> ModelInstance:
        """Take an instance for one call, until `release` gives it back.

        This is, in this order: the one that knows the conversation, one whose conversation has ended,
        a new one, or the one that was not used for longest.
        """
        if self._is_shared:
            return ModelInstance(self.llm)

        # An instance that knows a conversation need not be sent its beginning again.
        for instance in self._free_instances:
            if instance.conversation is conversation:
                return self._take(instance)
        for instance in self._free_instances:
            if instance.is_unneeded:
                return self._take(instance)

        # Rather start another one than take one from a conversation that goes on.
        may_start = len(self._instances) <= self.concurrency
        if may_start or not self._free_instances:
            instance = ModelInstance(_copy_model(self.llm))
            self._instances.append(instance)
            return instance
        return self._take(self._free_instances[0])

    def release(self, instance: ModelInstance) -> None:
        """Let other calls take an instance, when its call has ended."""
        if not self._is_shared:
            self._free_instances.append(instance)

    def close(self) -> None:
        for instance in self._instances:
            if isinstance(instance.llm, Stoppable):
                instance.llm.close()

    def _take(self, instance: ModelInstance) -> ModelInstance:
        self._free_instances.remove(instance)
        return instance


class ModelInstance:
    """A LangChain model that serves one call at a time, and the conversation that it keeps."""

    def __init__(self, llm: BaseChatModel) -> None:
        self.llm = llm
        self.conversation: NodeConversation | None = None
        """The last one that it has answered; None before its first answer."""

    @property
    def is_unneeded(self) -> bool:
        """Whether it keeps no conversation that still goes on."""
        return self.conversation is None or self.conversation.ended


def _copy_model(llm: BaseChatModel) -> BaseChatModel:
    """Return a new model with the same settings, which shares no process with the old one."""
    settings = {name: getattr(llm, name) for name in type(llm).model_fields}
    if isinstance(llm, ChatClaudeCLI):
        settings["processes"] = 1
    return type(llm)(**settings)


def _make_reply(reader: MessageReader) -> ModelReply:
    return ModelReply(reader.whole_text, cut=is_cut(reader.metadata), usage=reader.usage)
