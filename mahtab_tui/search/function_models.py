"""Functions as the models of a search."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.answer_metadata import is_cut
from mahtab_tui.llm.answer_readers import OnText
from mahtab_tui.llm.async_calls import exits_as_model_errors, run_on_thread
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.prices import Tariff
from mahtab_tui.llm.usage import with_cost
from mahtab_tui.search.conversation import Model, ModelReply, NodeConversation, PromptMessage

ModelFunction = Callable[[list[dict[str, str]]], Any]
"""Gets messages, and returns an answer in one of the forms that `FunctionModel` names."""

CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("caller_loop", default=None)
"""The loop that awaits `arlm`: asynchronous functions run there, since clients keep connections
that belong to a loop."""

_background_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Loops by process: a fork needs its own."""
_background_lock = threading.Lock()


class FunctionModel(Model):
    """A function that gets the messages as dicts with `role` and `content`.

    It returns the answer, the answer and its usage, or an answer of OpenAI's or Anthropic's client,
    or yields the answer in pieces. An asynchronous function is awaited in the caller's loop, or in a
    lasting one; others run on a thread for each call.
    """

    def __init__(
        self,
        function: ModelFunction,
        secrets: Secrets,
        *,
        name: str = "",
        tariff: Tariff | None = None,
    ) -> None:
        """Make a model of a function.

        Args:
            function: Answers the messages.
            secrets: Masked in its messages.
            name: By default the function's.
            tariff: Prices of what it asks, if known.
        """
        name = name or str(getattr(function, "__name__", type(function).__name__))
        super().__init__(name, secrets, tariff)
        self._function = function
        self._tariff = tariff

    async def answer(
        self,
        conversation: NodeConversation,
        messages: Sequence[PromptMessage],
        on_text: OnText,
    ) -> ModelReply:
        loop = asyncio.get_running_loop()

        def pass_on(piece: str) -> None:
            loop.call_soon_threadsafe(on_text, make_encodable(piece))

        caller_loop = CALLER_LOOP.get() or _background_loop()
        call = _Call(self._function, self.masked(messages), pass_on, caller_loop)
        if self._is_async():
            future = asyncio.run_coroutine_threadsafe(call.run_async(), caller_loop)
            result = await asyncio.wrap_future(future)
        else:
            result = await run_on_thread(call.run)

        reply = self._to_reply(result)
        if reply.usage is not None and self._tariff is not None:
            add_cost = partial(with_cost, reply.usage, self._tariff.priced_as)
            reply = reply._replace(usage=await run_on_thread(add_cost))
        # The whole answer may differ from its pieces.
        on_text(None)
        on_text(reply.text)
        return reply

    def _is_async(self) -> bool:
        """Return whether the function is asynchronous by its definition."""
        callables = (self._function, type(self._function).__call__)
        return any(
            inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            for function in callables
        )

    def _to_reply(self, result: Any) -> ModelReply:
        """Read what the function returned. Raises `ModelError` if it is not an answer."""
        text = result
        usage = getattr(result, "usage", None)
        stop_reason = getattr(result, "stop_reason", None)
        if isinstance(result, tuple) and len(result) == 2:
            text, usage = result
        elif hasattr(result, "choices"):  # of OpenAI's client
            if not result.choices:
                raise ModelError(_no_choices_message(self.name, result))
            choice = result.choices[0]
            text = getattr(choice.message, "content", None) or ""
            stop_reason = getattr(choice, "finish_reason", None)
        elif isinstance(getattr(result, "content", None), list):  # of Anthropic's
            text = "".join(getattr(block, "text", "") for block in result.content)
        if not isinstance(text, str):
            raise ModelError(
                f"{self.name} must return the answer as a str, not {type(text).__name__}."
            )

        was_cut = is_cut({"stop_reason": str(stop_reason or "")})
        return ModelReply(make_encodable(text), was_cut, self._read_usage(usage))

    def _read_usage(self, usage: object) -> Usage | None:
        """Return the counts of a usage, as either client or a mapping names them.

        None if there are none.
        """
        read_tokens = _get_count(usage, "input_tokens", "prompt_tokens")
        written_tokens = _get_count(usage, "output_tokens", "completion_tokens")
        if read_tokens is None or written_tokens is None:
            return None
        return Usage(input_tokens=read_tokens, output_tokens=written_tokens, model=self.name)


@dataclass(frozen=True)
class _Call:
    """One call of a function."""

    function: ModelFunction
    messages: list[dict[str, str]]
    pass_on: Callable[[str], object]
    """Called with each piece of an answer that comes in pieces."""
    caller_loop: asyncio.AbstractEventLoop
    """Where what is asynchronous runs."""

    def run(self) -> Any:
        """Call the function on this thread, and return its result."""
        value = self.function(self.messages)
        if inspect.isgenerator(value):
            return "".join(map(self._pass_piece, value))
        # Of a function that returns a coroutine, such as a lambda.
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            waiting = asyncio.run_coroutine_threadsafe(self._finish(value), self.caller_loop)
            return waiting.result()
        return value

    async def run_async(self) -> Any:
        """Call the function in this loop, and return its result."""
        with exits_as_model_errors():
            value = self.function(self.messages)
        return await self._finish(value)

    async def _finish(self, value: Any) -> Any:
        """Return a coroutine's result, or the joined pieces of an asynchronous generator."""
        with exits_as_model_errors():
            if not hasattr(value, "__aiter__"):
                return await value
            return "".join([self._pass_piece(piece) async for piece in value])

    def _pass_piece(self, piece: object) -> str:
        text = str(piece)
        self.pass_on(text)
        return text


def _get_count(usage: object, *names: str) -> int | None:
    """Return the first of the named counts that a usage has, as an item or an attribute."""
    for name in names:
        if isinstance(usage, Mapping):
            count = usage.get(name)
        else:
            count = getattr(usage, name, None)
        if isinstance(count, int):
            return count
    return None


def _no_choices_message(name: str, response: object) -> str:
    """Say that an answer of OpenAI's client has no text, and what its service says of that."""
    reason = getattr(response, "error", None)
    ending = f": {reason}" if reason else ""
    return f"{name} returned an answer without choices{ending}."


def _background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop for callers without one."""
    with _background_lock:
        loop = _background_loops.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            _background_loops[os.getpid()] = loop
            name = "rlm-functions"
            threading.Thread(target=_run_lasting, args=(loop,), name=name, daemon=True).start()
        return loop


def _run_lasting(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for the rest of the process, even if a task that a function leaves behind exits or
    stops it."""
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
