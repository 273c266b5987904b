"""The messages of one node, and what the engine wants of a model. Loads no model library."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError

T = TypeVar("T")

CONCURRENCY = 16
"""Calls of a model at a time, by default."""

OnWords = Callable[[str | None], None]
"""Gets what a model says piece by piece, and None when the answer starts again and earlier pieces
no longer count."""


class Message(NamedTuple):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Reply(NamedTuple):
    """One answer."""

    text: str
    cut: bool
    """Whether it reached the model's token limit."""
    usage: Usage | None
    """Usage of the call; None if the model did not report it."""


class Model(Protocol):
    """One model. Lives in one loop."""

    name: str
    concurrency: int
    """Calls at a time."""
    remembers: bool
    """Whether it keeps conversations itself; its answers must come back word for word, or
    everything is sent again."""
    priced: bool
    """Whether the price of a call is known, if only after it."""
    usd_per_token: tuple[float, float]
    """For a token read and a token written, if known before a call."""

    def conversation(self, *messages: Message) -> NodeConversation:
        """Start a conversation with these messages; its calls are made one after the other."""

    def worst_cost(self, messages: Sequence[Message]) -> float | None:
        """Return the US dollars that an answer to these messages may cost at most; None if
        unknown."""

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], hear: OnWords
    ) -> Reply:
        """Return the answer to messages. Cancelling stops the model at once. Raises `ModelError`,
        or what the provider's code raises."""

    def close(self) -> None:
        """End its processes. May block, so call it on another thread."""


class NodeConversation:
    """The messages of one node."""

    def __init__(self, model: Model, messages: Sequence[Message]) -> None:
        self.model = model
        self.chars = 0
        """Characters of all messages."""
        self.messages: list[Message] = []
        for message in messages:
            self.add(message)
        self.instance: Any = None
        """The model's instance that knows it."""
        self.ended = False
        """Whether no more calls will be made."""
        self.heard = ""
        """The last answer so far."""
        self.used: Usage | None = None
        """Usage of the last call, also if it failed; None if the model did not report it."""

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.chars += len(message.content)

    def replace(self, old: Message, new: Message) -> None:
        """Put a message in the place of another."""
        place = next(place for place, message in enumerate(self.messages) if message is old)
        self.messages[place] = new
        self.chars += len(new.content) - len(old.content)

    def worst_cost(self) -> float | None:
        """Return the US dollars that the next call may cost at most; None if unknown."""
        return self.model.worst_cost(self.messages)

    async def say(self, on_words: OnWords) -> Reply:
        """Send the messages and return the answer, which is not added to them; see
        `Model.answer`."""
        self.heard, self.used = "", None

        def hear(words: str | None) -> None:
            self.heard = "" if words is None else self.heard + words
            on_words(words)

        return await self.model.answer(self, self.messages, hear)


def as_model_error(error: BaseException) -> ModelError:
    """Turn an exception that is meant to end a program or a task (`SystemExit`) into a
    `ModelError`."""
    return ModelError(f"The model could not answer: {type(error).__name__} {error}".rstrip() + ".")


def on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a model's code on a daemon thread, which cannot delay the program's exit. Returns what
    will have its result, or its failure."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(ended.set_result, work())
        except Exception as error:  # the thread's outermost frame; whoever waits raises it
            settle = partial(ended.set_exception, error)
        except BaseException as error:  # the code exits, which must not end this process
            settle = partial(ended.set_exception, as_model_error(error))
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(lambda: ended.done() or settle())

    threading.Thread(target=run, name="rlm-model", daemon=True).start()
    return ended
