"""Calls LangChain's models from the engine's loop."""

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
"""For the `claude` CLI, whose processes take 215 MB each."""

_MESSAGE_CLASSES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}


def _make_reply(reader: MessageReader) -> ModelReply:
    return ModelReply(reader.whole_text, is_cut(reader.metadata), reader.usage)


class ChatModel(Model):
    """A model of LangChain, and its instances, in one loop."""

    def __init__(self, llm: BaseChatModel, name: str, secrets: Secrets) -> None:
        super().__init__(name, secrets, llm)
        self.remembers = isinstance(llm, ChatClaudeCLI)
        if self.remembers:
            self.concurrency = CLI_CONCURRENCY
        has_max_tokens = "max_tokens" in type(llm).model_fields and not self.remembers
        self.takes_max_tokens = has_max_tokens and not getattr(llm, "thinking", None)
        # Others are called on a thread: providers' packages keep one asynchronous client for the
        # whole process, which fails when a second loop uses it.
        self.is_async = (
            type(llm)._stream is BaseChatModel._stream
            and type(llm)._astream is not BaseChatModel._astream
        )
        self._shared = not isinstance(llm, Stoppable)
        self.llm = llm
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
            name_or_llm: a name for `make_llm`, or a model.
            secrets: masked in its messages.
            make_llm: makes a model of a name.
            on_notice: called with the model's notices.
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
        instance = self.lease(conversation)
        masked_messages = [
            _MESSAGE_CLASSES[message["role"]](message["content"])
            for message in self.masked(messages)
        ]
        options = {} if conversation.max_tokens is None else {"max_tokens": conversation.max_tokens}
        if self.is_async:
            return _make_reply(await read_async(instance.llm, masked_messages, on_text, options))

        conversation.instance = instance
        instance.known_by = conversation
        call = ThreadedCall(instance.llm, masked_messages, on_text, options)
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
        """Take an instance for one call: the one that knows the conversation, one whose
        conversation has ended, a new one, or the longest unused."""
        if self._shared:
            return ModelInstance(self.llm)

        # An instance that knows a conversation need not be sent its beginning again.
        def rank(instance: ModelInstance) -> int:
            if instance.known_by is conversation:
                return 0
            return 1 if instance.known_by is None or instance.known_by.ended else 2

        instance = min(self._free_instances, key=rank, default=None)
        is_known_elsewhere = instance is not None and rank(instance) == 2
        if instance is None or (is_known_elsewhere and len(self._instances) <= self.concurrency):
            instance = ModelInstance(_copy_model(self.llm))
            self._instances.append(instance)
            return instance
        self._free_instances.remove(instance)
        return instance

    def release(self, instance: ModelInstance) -> None:
        if not self._shared:
            self._free_instances.append(instance)

    def close(self) -> None:
        for instance in self._instances:
            if isinstance(instance.llm, Stoppable):
                instance.llm.close()


class ModelInstance:
    """A LangChain model, and the conversation that it keeps."""

    def __init__(self, llm: BaseChatModel) -> None:
        self.llm = llm
        self.known_by: NodeConversation | None = None


def _copy_model(llm: BaseChatModel) -> BaseChatModel:
    settings = {name: getattr(llm, name) for name in type(llm).model_fields}
    if isinstance(llm, ChatClaudeCLI):
        settings["processes"] = 1
    return type(llm)(**settings)
