"""Models of searches that do not load LangChain: of services, over our own client or over the
caller's client of OpenAI or Anthropic, and of a file with answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.chat_protocols import ChatChunk, answer_tokens
from mahtab_tui.llm.messages import REFUSED, is_cut, is_refused
from mahtab_tui.llm.providers import Sampling, Service, check_sampling
from mahtab_tui.llm.replay_file import Replay, read_replay, split_tokens
from mahtab_tui.llm.usage import LOCAL, Tariff, answer_usage
from mahtab_tui.search.conversation import (
    FunctionModel,
    Message,
    Model,
    NodeConversation,
    OnWords,
    Reply,
    WordStream,
    client_package,
    on_thread,
)

_ANSWER_TOKENS = 8_192
"""Most tokens of an answer that Anthropic's client does not want to stream."""
_SAMPLING = ("temperature", "top_p", "seed")


class ServiceModel(Model):
    """A model of a service. Lives in one loop."""

    takes_max_tokens = True

    def __init__(self, service: Service, name: str, secrets: Secrets, sampling: Sampling) -> None:
        """name: for people. Raises `ModelError` if it does not take a sampling option."""
        check_sampling(name, sampling, _SAMPLING, service.dialect)
        self._tariff = Tariff(service.model, service.priced_as, service.max_tokens)
        super().__init__(name, secrets, self._tariff)
        self._options = {"max_tokens": service.max_tokens, **sampling}
        if service.num_ctx is not None:
            self._options["num_ctx"] = service.num_ctx
        self._client = ChatClient(
            service.dialect,
            service.address,
            service.model,
            key=service.secret,
            key_name=service.key,
            timeout=service.timeout,
        )

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        reader = _Reader(self._tariff, on_words)
        options = dict(self._options)
        if conversation.max_tokens is not None:
            options["max_tokens"] = conversation.max_tokens
        exchange = self._client.start(self.masked(messages), reader.take, **options)
        try:
            return await reader.ended
        except asyncio.CancelledError:
            exchange.stop()
            raise
        except ModelError:
            conversation.used = reader.used
            raise

    def close(self) -> None:
        self._client.close()


class _Reader:
    """Joins the pieces of an answer on the client's thread, and reports to the loop."""

    def __init__(self, tariff: Tariff, on_words: OnWords) -> None:
        self._tariff = tariff
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Reply] = self._loop.create_future()
        self._words = WordStream(lambda words: self._report(lambda: on_words(words)))
        self._end = {"finish_reason": ""}
        self.used: Usage | None = None

    def take(self, news: ChatChunk | ModelError | None) -> None:
        """Take a chunk, None at the end, or an error in its place."""
        if isinstance(news, ChatChunk):
            self._words.add(news.text)
            if news.end is not None:
                self._end = {"finish_reason": news.end.reason}
                self.used = answer_usage(self._tariff, news.end)
            return
        if news is None and is_refused(self._end):
            news = ModelError(REFUSED)
        if news is not None:
            settle = partial(self.ended.set_exception, news)
        else:
            self._words.flush()
            reply = Reply(self._words.text, is_cut(self._end), self.used)
            settle = partial(self.ended.set_result, reply)
        self._report(lambda: self.ended.done() or settle())

    def _report(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(call)


def client_model(given: tuple[Any, ...], secrets: Secrets, sampling: Sampling) -> FunctionModel:
    """Make a model of a client of OpenAI or Anthropic and a model's name. Raises `ModelError` if it
    is no such client, or does not take a sampling option."""
    client: Any = given[0] if given else None
    model = given[1] if len(given) == 2 else ""
    package = client_package(client)
    if not package or not isinstance(model, str) or not model:
        raise ModelError(
            'A tuple as the model must be a client of OpenAI or Anthropic and a model\'s name, as in (client, "gpt-4o-mini").'
        )
    check_sampling(model, sampling, _SAMPLING, package)

    def ask(messages: list[dict[str, str]]) -> Any:
        if package == "openai":
            return client.chat.completions.create(model=model, messages=messages, **sampling)
        system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
        return client.messages.create(
            model=model,
            max_tokens=answer_tokens(model, _ANSWER_TOKENS),
            system=system,
            messages=[each for each in messages if each["role"] != "system"],
            extra_body=dict(sampling),  # newer versions have no arguments for them
        )

    async def ask_async(messages: list[dict[str, str]]) -> Any:
        return await ask(messages)

    is_async = any(each.__name__.startswith("Async") for each in type(client).__mro__)
    limit = _ANSWER_TOKENS if package == "anthropic" else None
    return FunctionModel(
        ask_async if is_async else ask,
        secrets,
        name=model,
        tariff=Tariff(model, str(client.base_url), limit),
    )


class ReplayModel(Model):
    """A model that answers from a file, which each conversation reads from its beginning."""

    def __init__(self, name: str, path: Path, secrets: Secrets) -> None:
        """Raises `ModelError`."""
        super().__init__(name, secrets, Tariff("replay", LOCAL, None))
        self._path = path
        self._lines = read_replay(path)

    def conversation(self, *messages: Message) -> NodeConversation:
        conversation = super().conversation(*messages)
        conversation.instance = Replay(self._lines, str(self._path))
        return conversation

    def worst_cost(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> float | None:
        return Replay(self._lines, str(self._path)).worst_cost()

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        replay: Replay = conversation.instance
        last = self._secrets.redact_for_model(messages[-1].content)
        line = await on_thread(partial(replay.next, last))  # its pattern may take its time
        words = WordStream(on_words)
        if line.tokens_per_second is None:
            words.add(line.text)
        else:
            for token in split_tokens(line.text):
                await asyncio.sleep(1 / line.tokens_per_second)
                words.add(token)
        words.flush()
        used = Usage(
            model="replay",
            input_tokens=line.input_tokens,
            output_tokens=line.output_tokens,
            cost=line.cost,
        )
        return Reply(words.text, False, used)
