"""Models of services in searches: over our own client, or over the caller's client of OpenAI or
Anthropic. Neither loads LangChain."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.anthropic_messages import answer_tokens
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.chat_stream import AnswerEnd, ChatChunk
from mahtab_tui.llm.messages import REFUSED, is_cut, is_refused
from mahtab_tui.llm.providers import Sampling, Service, check_sampling
from mahtab_tui.llm.usage import (
    DEAR,
    Tariff,
    answer_usage,
    is_priced,
    load_prices,
    usd_per_token,
    with_cost,
    worst_cost,
)
from mahtab_tui.search.conversation import (
    CONCURRENCY,
    FunctionModel,
    Message,
    NodeConversation,
    OnWords,
    Reply,
    WordStream,
    client_package,
)
from mahtab_tui.system.imports import IMPORTS

_ANSWER_TOKENS = 8_192
"""Most tokens of an answer of Anthropic's client, which wants to stream longer ones."""
_SAMPLING = ("temperature", "top_p", "seed")


class Prices:
    """Prices of one model. Their table takes a moment to load: that begins at once, and goes on
    while the first answer is awaited."""

    def __init__(self, tariff: Tariff) -> None:
        self.tariff = tariff
        self._loading = threading.Thread(target=_load_prices, name="prices", daemon=True)
        if tariff.needs_table:
            self._loading.start()

    @property
    def known(self) -> bool:
        """Whether the price of a call is known."""
        return is_priced(self.tariff)

    @property
    def usd_per_token(self) -> tuple[float, float]:
        """US dollars for a token read and a token written; while the table loads, those of an
        expensive model."""
        return DEAR if self._loading.is_alive() else usd_per_token(self.tariff)

    def worst_cost(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> float | None:
        """Return the US dollars that an answer to messages may cost at most; None if unknown."""
        texts = (message.content for message in messages)
        return worst_cost(self.tariff, texts, max_tokens=max_tokens)

    def with_cost(self, used: Usage) -> Usage:
        """Add the cost of a call."""
        return with_cost(used, self.tariff.priced_as)


def _load_prices() -> None:
    with IMPORTS.turn():
        load_prices()


class ServiceModel:
    """A `conversation.Model` of a service. Lives in one loop."""

    remembers = False
    takes_max_tokens = True

    def __init__(self, service: Service, name: str, secrets: Secrets, sampling: Sampling) -> None:
        """name: for people. secrets: masked in its messages. Raises `ModelError` if it does not
        take a sampling option."""
        check_sampling(name, sampling, _SAMPLING, service.dialect)
        self.name = name
        self.concurrency = CONCURRENCY
        self._secrets = secrets
        self._options = {"max_tokens": service.max_tokens, **sampling}
        if service.num_ctx is not None:
            self._options["num_ctx"] = service.num_ctx
        self._prices = Prices(Tariff(service.model, service.priced_as, service.max_tokens))
        self._client = ChatClient(
            service.dialect,
            service.address,
            service.model,
            key=service.secret,
            key_name=service.key,
            timeout=service.timeout,
        )

    @property
    def priced(self) -> bool:
        return self._prices.known

    @property
    def usd_per_token(self) -> tuple[float, float]:
        return self._prices.usd_per_token

    def conversation(self, *messages: Message) -> NodeConversation:
        return NodeConversation(self, messages)

    def worst_cost(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> float | None:
        return self._prices.worst_cost(messages, max_tokens)

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        sent = [
            {"role": message.role, "content": self._secrets.redact_for_model(message.content)}
            for message in messages
        ]
        reader = _Reader(self._prices.tariff, on_words)
        options = dict(self._options)
        if conversation.max_tokens is not None:
            options["max_tokens"] = conversation.max_tokens
        exchange = self._client.start(sent, reader.take, **options)
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
        self._reason = ""
        self.used: Usage | None = None
        """Usage of the call; None if the service did not report it."""

    def take(self, news: ChatChunk | ModelError | None) -> None:
        """Take a chunk, None at the end, or an error in its place."""
        if isinstance(news, ChatChunk):
            self._words.add(news.text)
            if news.end is not None:
                self._end(news.end)
        elif news is not None:
            self._fail(news)
        elif is_refused({"finish_reason": self._reason}):
            self._fail(ModelError(REFUSED))
        else:
            self._words.flush()
            cut = is_cut({"finish_reason": self._reason})
            reply = Reply(self._words.text, cut, self.used)
            self._settle(partial(self.ended.set_result, reply))

    def _end(self, end: AnswerEnd) -> None:
        self._reason = end.reason
        self.used = answer_usage(self._tariff, end)

    def _fail(self, error: ModelError) -> None:
        self._settle(partial(self.ended.set_exception, error))

    def _settle(self, settle: Callable[[], None]) -> None:
        self._report(lambda: None if self.ended.done() else settle())

    def _report(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(call)


def client_model(given: tuple[Any, ...], secrets: Secrets, sampling: Sampling) -> FunctionModel:
    """Make a model of a client of OpenAI or Anthropic and a model's name. secrets: masked in its
    messages. Raises `ModelError` if it is no such client, or does not take a sampling option."""
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
        prices=Prices(Tariff(model, str(client.base_url), limit)),
    )
