"""Calling models from the engine's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import Stoppable
from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.masked import masked_messages
from mahtab_tui.llm.providers import MakeLLM, OnNotice, get_llm
from mahtab_tui.llm.replay import ChatReplay
from mahtab_tui.llm.usage import is_priced, model_name, usd_per_token, worst_cost
from mahtab_tui.search.listening import OnWords, Reply, ReplyReader, ThreadedReader, left

CONCURRENCY = 16
CLI_CONCURRENCY = 3
"""Of the `claude` CLI, whose every conversation is a process of 215 MB."""


class Model:
    """One model, and the instances of it that calls need. Lives in one loop."""

    def __init__(self, llm: BaseChatModel, name: str, secrets: Secrets) -> None:
        """secrets: what it is not told."""
        self.name = name
        self.secrets = secrets
        self.concurrency = CLI_CONCURRENCY if isinstance(llm, ChatClaudeCLI) else CONCURRENCY
        self.remembers = isinstance(llm, ChatClaudeCLI)
        """What it said must come back word for word, or it has to be told all again."""
        self.priced = is_priced(llm)
        """Whether it is known what a call has cost, if only after it."""
        self.usd_per_token = usd_per_token(llm)
        """Of a read and of a written one, as far as that is known before a call."""
        # Packages of the providers keep one asynchronous client for a whole process, whose connections belong to the loop that opened them:
        # used from a second loop (the caller's, the next search's) it fails. Their other client works on any thread.
        self.native = type(llm)._stream is BaseChatModel._stream and type(llm)._astream is not BaseChatModel._astream
        """It is asked on the loop, since it knows no other way."""
        self._shared = not isinstance(llm, Stoppable)
        self.llm = llm
        self._made: list[Instance] = []
        self._free: list[Instance] = []

    @classmethod
    def of(
        cls, given: str | BaseChatModel, *, secrets: Secrets | None = None, make_llm: MakeLLM = get_llm, on_notice: OnNotice | None = None
    ) -> Model:
        """By its name, or of a model that is there. Raises `ModelError`."""
        if isinstance(given, str):
            return cls(make_llm(given, on_notice=on_notice), given, secrets or Secrets())
        return cls(given, model_name(given) or given._llm_type, secrets or Secrets())

    def conversation(self, *messages: BaseMessage) -> Conversation:
        """A new conversation that begins so; its calls come one after the other."""
        return Conversation(self, messages)

    def lease(self, conversation: Conversation) -> Instance:
        """An instance for one call: the one that knows the conversation, one that nobody comes back to, a new one, the longest unused.

        There is one more than may be in use, so that a node which waits for its children still finds the one that knows it.
        """
        if isinstance(self.llm, ChatReplay):  # each conversation goes through the file by itself, whatever the others do
            return conversation.instance or Instance(_fresh(self.llm), own=True)
        if self._shared:
            return Instance(self.llm, own=True)
        found = next((instance for instance in self._free if instance.known_by is conversation), None)
        found = found or next((instance for instance in self._free if instance.known_by is None or instance.known_by.ended), None)
        if found is None and (len(self._made) <= self.concurrency or not self._free):
            self._made.append(Instance(_fresh(self.llm)))
            return self._made[-1]
        found = found or self._free[0]
        self._free.remove(found)
        return found

    def give_back(self, instance: Instance) -> None:
        """The call has ended, also where it was stopped."""
        if not instance.own:
            self._free.append(instance)

    def close(self) -> None:
        """End the processes. Called on another thread: it waits for answers that are being stopped."""
        for instance in self._made:
            if isinstance(instance.llm, Stoppable):
                instance.llm.close()


class Instance:
    """A LangChain model that gives one answer at a time."""

    def __init__(self, llm: BaseChatModel, *, own: bool = False) -> None:
        self.llm = llm
        self.own = own
        """It is not shared between conversations, or by all alike."""
        self.known_by: Conversation | None = None


class Conversation:
    """What one node says and hears."""

    def __init__(self, model: Model, messages: Sequence[BaseMessage]) -> None:
        self.model = model
        self.chars = 0
        """Of all messages."""
        self._messages: list[BaseMessage] = []
        for message in messages:
            self.add(message)
        self.instance: Instance | None = None
        self.ended = False
        """Nobody will say anything more."""
        self.heard = ""
        """What has come of the last answer, perhaps not all."""
        self.used: Usage | None = None
        """What the last call has used, also where it failed; None where the model did not say."""

    def add(self, message: BaseMessage) -> None:
        """What was said, or is to be said with the next call."""
        self._messages.append(message)
        self.chars += len(str(message.content))

    def beginning(self, count: int) -> list[BaseMessage]:
        """The first messages."""
        return self._messages[:count]

    def worst_cost(self) -> float | None:
        """US dollars that the next call may come to; None where nobody knows."""
        return worst_cost(self.model.llm, (str(message.content) for message in self._messages))

    async def say(self, on_words: OnWords) -> Reply:
        """One call; its answer is not added. Cancelling it returns at once, and the model is stopped.

        Raises `ModelError`, or what the provider's code raises.
        """
        self.heard, self.used = "", None

        def hear(words: str | None) -> None:
            self.heard = "" if words is None else self.heard + words
            on_words(words)

        instance = self.model.lease(self)
        messages = masked_messages(self._messages, self.model.secrets)
        if self.model.native:
            return await self._native(instance.llm, messages, hear)
        self.instance, instance.known_by = instance, self
        reading = ThreadedReader(instance.llm, messages, hear)
        reading.ended.add_done_callback(lambda ended: self.model.give_back(instance))
        try:
            return await asyncio.shield(reading.ended)
        except asyncio.CancelledError:
            reading.stop()
            raise
        except Exception:
            self.used = reading.hearing.used
            raise

    async def _native(self, llm: BaseChatModel, messages: list[BaseMessage], on_words: OnWords) -> Reply:
        hearing = ReplyReader(llm, on_words)
        try:
            async for chunk in llm.astream(messages):
                hearing.take(chunk)
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise left(error) from None  # its code wants to leave, or cancels itself: this is not its loop to end
        return hearing.said()


def _fresh(llm: BaseChatModel) -> BaseChatModel:
    """Another instance with the same settings, which can be stopped by itself."""
    settings = {name: getattr(llm, name) for name in type(llm).model_fields}
    if isinstance(llm, ChatClaudeCLI):
        settings["processes"] = 1
    return type(llm)(**settings)
