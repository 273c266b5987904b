"""Functions, and clients of OpenAI and Anthropic, as the models of a search."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.answer_metadata import is_cut
from mahtab_tui.llm.answer_readers import OnWords
from mahtab_tui.llm.async_calls import exits_as_model_errors, run_on_thread
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.sampling import SAMPLING_OPTIONS, Sampling, check_sampling
from mahtab_tui.llm.usage import Tariff, with_cost
from mahtab_tui.search.conversation import Model, ModelReply, NodeConversation, PromptMessage

ModelFunction = Callable[[list[dict[str, str]]], Any]

CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("caller_loop", default=None)
"""The loop that awaits `arlm`: asynchronous functions run there, since clients keep connections
that belong to a loop."""

_MAX_ANTHROPIC_TOKENS = 8_192
"""Most tokens of an answer that Anthropic's client returns without streaming."""

_background_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Loops by process: a fork needs its own."""
_background_lock = threading.Lock()


class FunctionModel(Model):
    """A function that gets the messages as dicts with `role` and `content`.

    It returns the answer, the answer and its usage, or an answer of OpenAI's or Anthropic's client,
    or yields the answer in pieces. An asynchronous function is awaited in the caller's loop, or in a
    lasting one; others run on a thread for each call."""

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
            function: answers the messages.
            secrets: masked in its messages.
            name: by default the function's.
            tariff: prices of what it asks, if known.
        """
        name = name or str(getattr(function, "__name__", type(function).__name__))
        super().__init__(name, secrets, tariff)
        self._function = function
        self._tariff = tariff

    async def answer(
        self,
        conversation: NodeConversation,
        messages: Sequence[PromptMessage],
        on_words: OnWords,
    ) -> ModelReply:
        masked_messages = self.masked(messages)
        loop = asyncio.get_running_loop()
        caller_loop = CALLER_LOOP.get() or _background_loop()

        def pass_on(piece: object) -> str:
            loop.call_soon_threadsafe(on_words, make_encodable(str(piece)))
            return str(piece)

        async def get_result(value: Any) -> Any:
            """Return a coroutine's result, or the joined pieces of an asynchronous generator."""
            with exits_as_model_errors():
                if not hasattr(value, "__aiter__"):
                    return await value
                return "".join([pass_on(piece) async for piece in value])

        async def call_async() -> Any:
            with exits_as_model_errors():
                value = self._function(masked_messages)
            return await get_result(value)

        def call() -> Any:
            value = self._function(masked_messages)
            if inspect.isgenerator(value):
                return "".join(map(pass_on, value))
            if inspect.isawaitable(value) or inspect.isasyncgen(value):  # of a lambda
                return asyncio.run_coroutine_threadsafe(get_result(value), caller_loop).result()
            return value

        if self._is_async():
            future = asyncio.run_coroutine_threadsafe(call_async(), caller_loop)
            value = await asyncio.wrap_future(future)
        else:
            value = await run_on_thread(call)

        reply = self._to_reply(value)
        if reply.usage is not None and self._tariff is not None:
            add_cost = partial(with_cost, reply.usage, self._tariff.priced_as)
            reply = reply._replace(usage=await run_on_thread(add_cost))
        on_words(None)
        on_words(reply.text)
        return reply

    def _is_async(self) -> bool:
        callables = (self._function, type(self._function).__call__)
        return any(
            inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            for function in callables
        )

    def _to_reply(self, value: Any) -> ModelReply:
        """Read what the function returned. Raises `ModelError` if it is not an answer."""
        usage = getattr(value, "usage", None)
        stop_reason = getattr(value, "stop_reason", None)
        if isinstance(value, tuple) and len(value) == 2:
            value, usage = value
        elif hasattr(value, "choices"):  # of OpenAI's client
            if not value.choices:
                raise ModelError(_no_choices_message(self.name, value))
            choice = value.choices[0]
            value = getattr(choice.message, "content", None) or ""
            stop_reason = getattr(choice, "finish_reason", None)
        elif isinstance(getattr(value, "content", None), list):  # of Anthropic's
            value = "".join(getattr(block, "text", "") for block in value.content)
        if not isinstance(value, str):
            raise ModelError(
                f"{self.name} must return the answer as a str, not {type(value).__name__}."
            )

        read_tokens = _get_count(usage, "input_tokens", "prompt_tokens")
        written_tokens = _get_count(usage, "output_tokens", "completion_tokens")
        used = None
        if read_tokens is not None and written_tokens is not None:
            used = Usage(input_tokens=read_tokens, output_tokens=written_tokens, model=self.name)
        return ModelReply(
            make_encodable(value), is_cut({"stop_reason": str(stop_reason or "")}), used
        )


def _get_count(usage: object, *names: str) -> int | None:
    """Return the first of the named counts that a usage has, as an item or an attribute."""
    for name in names:
        count = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
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
            threading.Thread(
                target=_run_lasting, args=(loop,), name="rlm-functions", daemon=True
            ).start()
        return loop


def _run_lasting(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for the rest of the process, even if a task that a function leaves behind exits or
    stops it."""
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def client_package(client: object) -> str:
    """Return "openai" or "anthropic" for a client of one of these packages, without loading them;
    empty for anything else."""
    classes = [(base.__module__.partition(".")[0], base.__name__) for base in type(client).__mro__]
    for package, name in (("openai", "OpenAI"), ("anthropic", "Anthropic")):
        if (package, name) in classes or (package, f"Async{name}") in classes:
            return package
    return ""


def make_client_model(
    client_and_name: tuple[Any, ...], secrets: Secrets, sampling: Sampling
) -> FunctionModel:
    """Make a model of a client of OpenAI or Anthropic and a model's name. Raises `ModelError`."""
    client: Any = client_and_name[0] if client_and_name else None
    model = client_and_name[1] if len(client_and_name) == 2 else ""
    package = client_package(client)
    if not package or not isinstance(model, str) or not model:
        raise ModelError(
            'A tuple as the model must be a client of OpenAI or Anthropic and a model\'s name, as in (client, "gpt-4o-mini").'
        )
    check_sampling(model, sampling, SAMPLING_OPTIONS, package)

    def ask(messages: list[dict[str, str]]) -> Any:
        if package == "openai":
            return client.chat.completions.create(model=model, messages=messages, **sampling)
        system_texts = [message["content"] for message in messages if message["role"] == "system"]
        return client.messages.create(
            model=model,
            max_tokens=_MAX_ANTHROPIC_TOKENS,
            system="\n\n".join(system_texts),
            messages=[message for message in messages if message["role"] != "system"],
            extra_body=dict(sampling),  # newer versions have no arguments for them
        )

    async def ask_async(messages: list[dict[str, str]]) -> Any:
        return await ask(messages)

    is_async = any(base.__name__.startswith("Async") for base in type(client).__mro__)
    max_tokens = _MAX_ANTHROPIC_TOKENS if package == "anthropic" else None
    return FunctionModel(
        ask_async if is_async else ask,
        secrets,
        name=model,
        tariff=Tariff(model, str(client.base_url), max_tokens),
    )
