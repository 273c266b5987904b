"""A function of the caller as a model. No model library is loaded for it."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import encodable
from mahtab_tui.search.conversation import (
    CONCURRENCY,
    Message,
    NodeConversation,
    OnWords,
    Reply,
    as_model_error,
    on_thread,
)

Function = Callable[[list[dict[str, str]]], Any]

CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("caller_loop", default=None)
"""The loop that awaits `arlm`: asynchronous functions run there, as clients that they share with
the caller's other code must."""


class FunctionModel:
    """A `conversation.Model`: a function that gets the messages as dicts with `role` and `content`.

    It returns the answer, or the answer and its usage, or an answer of the clients of OpenAI or
    Anthropic; or it yields the answer piece by piece. An asynchronous function is awaited in the
    caller's loop, or, for callers without one, in a loop that lasts as long as the process: clients
    keep connections that belong to a loop. Other functions run on a thread of their own for each
    call.
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
        here, there = asyncio.get_running_loop(), CALLER_LOOP.get() or _lasting_loop()

        def hear_later(words: str) -> None:
            here.call_soon_threadsafe(hear, encodable(words))

        if _is_async(self._function):
            work = self._await(sent, hear_later)
            value = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, there))
        else:
            value = await on_thread(partial(self._call, sent, hear_later, there))
        text, usage = self._text_and_usage(value)
        text = encodable(text)
        hear(None)
        hear(text)
        return Reply(text, False, usage)

    def close(self) -> None:
        """Do nothing: a function has no processes."""

    async def _await(self, sent: list[dict[str, str]], hear: Callable[[str], None]) -> Any:
        try:
            return await _awaited(self._function(sent), hear)
        except (SystemExit, KeyboardInterrupt) as error:  # would end the caller's loop
            raise as_model_error(error) from None

    def _call(
        self,
        sent: list[dict[str, str]],
        hear: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> Any:
        value = self._function(sent)
        if inspect.isgenerator(value):
            pieces: list[str] = []
            for piece in map(str, value):
                pieces.append(piece)
                hear(piece)
            return "".join(pieces)
        if inspect.isawaitable(value) or inspect.isasyncgen(value):  # of a lambda
            return asyncio.run_coroutine_threadsafe(_awaited(value, hear), loop).result()
        return value

    def _text_and_usage(self, value: Any) -> tuple[str, Usage | None]:
        usage = getattr(value, "usage", None)
        if isinstance(value, tuple) and len(value) == 2:
            value, usage = value
        elif hasattr(value, "choices"):  # of OpenAI's client
            value = value.choices[0].message.content or ""
        elif isinstance(getattr(value, "content", None), list):  # of Anthropic's
            value = "".join(getattr(block, "text", "") for block in value.content)
        if not isinstance(value, str):
            raise ModelError(
                f"{self.name} must return the answer as a str, not {type(value).__name__}."
            )
        read = _count(usage, "input_tokens", "prompt_tokens")
        written = _count(usage, "output_tokens", "completion_tokens")
        if read is None or written is None:
            return value, None
        return value, Usage(input_tokens=read, output_tokens=written, model=self.name)


def _is_async(function: Any) -> bool:
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (function, type(function).__call__)
    )


async def _awaited(value: Any, hear: Callable[[str], None]) -> Any:
    """Return the result of a coroutine, or the joined pieces of an asynchronous generator."""
    if not hasattr(value, "__aiter__"):
        return await value
    pieces = []
    async for piece in value:
        pieces.append(piece)
        hear(piece)
    return "".join(pieces)


def _count(usage: Any, *names: str) -> int | None:
    for name in names:
        found = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        if isinstance(found, int):
            return found
    return None


_lasting: tuple[int, asyncio.AbstractEventLoop] | None = None
_starting = threading.Lock()


def _lasting_loop() -> asyncio.AbstractEventLoop:
    """Return the loop for callers without one; a forked process gets its own."""
    global _lasting
    with _starting:
        if _lasting is None or _lasting[0] != os.getpid():
            _lasting = os.getpid(), asyncio.new_event_loop()
            threading.Thread(
                target=_lasting[1].run_forever, name="rlm-functions", daemon=True
            ).start()
        return _lasting[1]
