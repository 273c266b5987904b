"""A function of the caller as a model. No model library is loaded for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import encodable
from mahtab_tui.search.conversation import (
    CONCURRENCY,
    Message,
    NodeConversation,
    OnWords,
    Reply,
    on_thread,
)

Function = Callable[[list[dict[str, str]]], Any]


class FunctionModel:
    """A `conversation.Model`: a function that gets the messages as dicts with `role` and `content`,
    and returns the answer.

    An asynchronous function is awaited in the engine's loop, another one runs on a thread of its
    own for each call.
    """

    remembers = False
    priced = False
    usd_per_token = (0.0, 0.0)

    def __init__(self, function: Function, secrets: Secrets) -> None:
        """secrets: masked in its messages."""
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.concurrency = CONCURRENCY
        self._function = function
        self._secrets = secrets

    def conversation(self, *messages: Message) -> NodeConversation:
        return NodeConversation(self, messages)

    def worst_cost(self, messages: Sequence[Message]) -> float | None:
        return None

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], hear: OnWords
    ) -> Reply:
        sent = [
            {"role": message.role, "content": self._secrets.told(message.content)}
            for message in messages
        ]
        said = await (
            self._function(sent)
            if inspect.iscoroutinefunction(self._function)
            else on_thread(lambda: self._function(sent))
        )
        if not isinstance(said, str):
            raise ModelError(
                f"{self.name} must return the answer as a str, not {type(said).__name__}."
            )
        text = encodable(said)
        hear(text)
        return Reply(text, False, None)

    def close(self) -> None:
        """Do nothing: a function has no processes."""
