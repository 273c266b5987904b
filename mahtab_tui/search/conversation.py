"""The messages of one node, and the models that it asks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, cast

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import REFUSED, ModelError, is_cut, is_refused, make_encodable
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.chat_protocols import ChatChunk
from mahtab_tui.llm.providers import (
    OnNotice,
    Sampling,
    Service,
    check_sampling,
    find_service,
    full_name,
    get_llm,
    split_spec,
)
from mahtab_tui.llm.replay_file import Replay, read_replay, split_tokens
from mahtab_tui.llm.usage import (
    DEAR,
    LOCAL,
    Tariff,
    answer_usage,
    is_priced,
    usd_per_token,
    with_cost,
    worst_cost,
)
from mahtab_tui.search.limits import Gate, Limits
from mahtab_tui.system import IMPORTS, langsmith_variable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")

CONCURRENCY = 16
"""Calls of a model at a time, by default."""

OnWords = Callable[[str | None], None]
"""Gets a model's words piece by piece, and None when the answer starts again."""


_MERGED = 0.03
"""Minimum seconds between two portions of words."""


class WordStream:
    """Collects the words of an answer, and passes them on in portions."""

    def __init__(self, on_words: OnWords) -> None:
        self._on_words = on_words
        self._words: list[str] = []
        self._sent = 0
        self._sent_at = 0.0

    @property
    def text(self) -> str:
        return make_encodable("".join(self._words))

    def add(self, words: str) -> None:
        if words:
            self._words.append(words)
            now = time.monotonic()
            if now - self._sent_at >= _MERGED:
                self._sent_at = now
                self.flush()

    def restart(self) -> None:
        """Drop the words so far: the answer starts again."""
        self._words.clear()
        self._sent = 0
        self._on_words(None)

    def flush(self) -> None:
        if self._sent < len(self._words):
            self._on_words(make_encodable("".join(self._words[self._sent :])))
            self._sent = len(self._words)


class Message(NamedTuple):
    role: Literal["system", "user", "assistant"]
    content: str


class Reply(NamedTuple):
    """One answer; usage: None if the model did not report it."""

    text: str
    cut: bool
    """Whether it reached the model's token limit."""
    usage: Usage | None


class Model:
    """One model. Lives in one loop."""

    remembers = False
    """Whether it keeps conversations itself, if its answers come back word for word."""
    takes_max_tokens = False
    """Whether a call can limit its answer's tokens, so that its worst cost is known."""
    concurrency = CONCURRENCY
    gate: Gate
    """Limits its calls that run at a time."""

    def __init__(self, name: str, secrets: Secrets, paid: BaseChatModel | Tariff | None) -> None:
        """secrets: masked in its messages. paid: determines the price of its calls, if known. The
        table of prices loads while the first answer is awaited."""
        self.name = name
        self._secrets = secrets
        self._paid = paid
        self._loading = threading.Thread(target=_load_prices, name="prices", daemon=True)
        if isinstance(paid, Tariff) and paid.needs_table:
            self._loading.start()

    @property
    def priced(self) -> bool:
        """Whether the price of a call is known, if only after it."""
        return self._paid is not None and is_priced(self._paid)

    @property
    def usd_per_token(self) -> tuple[float, float]:
        """US dollars for a token read and a token written, if known before a call; those of an
        expensive model while the table loads."""
        if self._paid is None:
            return 0.0, 0.0
        return DEAR if self._loading.is_alive() else usd_per_token(self._paid)

    def worst_cost(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> float | None:
        """Return the US dollars that an answer of so many tokens may cost at most; None if unknown."""
        if self._paid is None:
            return None
        texts = (message.content for message in messages)
        return worst_cost(self._paid, texts, max_tokens=max_tokens)

    def conversation(self, *messages: Message) -> NodeConversation:
        return NodeConversation(self, messages)

    def masked(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        return [
            {"role": message.role, "content": self._secrets.redact_for_model(message.content)}
            for message in messages
        ]

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        """Return the answer. Cancelling stops the model at once. Raises `ModelError`, or what the
        provider's code raises."""
        raise NotImplementedError

    def close(self) -> None:
        """End its processes, if it has any. May block."""


def _load_prices() -> None:
    with IMPORTS.turn():
        import genai_prices  # noqa: F401


class NodeConversation:
    """The messages of one node."""

    def __init__(self, model: Model, messages: Sequence[Message]) -> None:
        self.model = model
        self.messages = list(messages)
        self.instance: Any = None  # the model's, if that knows it
        self.ended = False  # no more calls will be made
        self.max_tokens: int | None = None  # of the next answer
        self.partial = ""  # the last answer so far
        self.used: Usage | None = None  # by the last call if it failed, as the model reported it

    @property
    def chars(self) -> int:
        return sum(len(message.content) for message in self.messages)

    def add(self, message: Message) -> None:
        self.messages.append(message)

    def replace(self, old: Message, new: Message) -> None:
        index = next(index for index, message in enumerate(self.messages) if message is old)
        self.messages[index] = new

    def worst_cost(self) -> float | None:
        return self.model.worst_cost(self.messages, self.max_tokens)

    async def ask(self, on_words: OnWords) -> Reply:
        """Return the answer, which is not added to the messages; see `Model.answer`."""
        self.partial, self.used = "", None

        def collect(words: str | None) -> None:
            self.partial = "" if words is None else self.partial + words
            on_words(words)

        return await self.model.answer(self, self.messages, collect)


def as_model_error(error: BaseException) -> ModelError:
    """Turn an exception that would end a program (`SystemExit`) into a `ModelError`."""
    return ModelError(f"The model could not answer: {type(error).__name__} {error}".rstrip() + ".")


def on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a model's code on a daemon thread, which cannot delay the program's exit."""
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


Function = Callable[[list[dict[str, str]]], Any]

CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("caller_loop", default=None)
"""The loop that awaits `arlm`: asynchronous functions run there, since clients keep connections
that belong to a loop."""


class FunctionModel(Model):
    """A function that gets the messages as dicts with `role` and `content`.

    It returns the answer, the answer and its usage, or an answer of OpenAI's or Anthropic's client,
    or yields the answer in pieces. An asynchronous function is awaited in the caller's loop, or in a
    lasting one; others run on a thread for each call."""

    def __init__(
        self, function: Function, secrets: Secrets, *, name: str = "", tariff: Tariff | None = None
    ) -> None:
        """name: by default the function's. tariff: of what it asks, if known."""
        name = name or str(getattr(function, "__name__", type(function).__name__))
        super().__init__(name, secrets, tariff)
        self._function = function
        self._tariff = tariff

    async def answer(
        self, conversation: NodeConversation, messages: Sequence[Message], on_words: OnWords
    ) -> Reply:
        sent = self.masked(messages)
        loop, callers_loop = asyncio.get_running_loop(), CALLER_LOOP.get() or _background_loop()

        def pass_on(piece: Any) -> str:
            loop.call_soon_threadsafe(on_words, make_encodable(str(piece)))
            return str(piece)

        async def get_result(value: Any) -> Any:
            """Return a coroutine's result, or the joined pieces of an asynchronous generator."""
            if not hasattr(value, "__aiter__"):
                return await value
            return "".join([pass_on(piece) async for piece in value])

        async def call_async() -> Any:
            try:
                return await get_result(self._function(sent))
            except (SystemExit, KeyboardInterrupt) as error:  # would end the caller's loop
                raise as_model_error(error) from None

        def call() -> Any:
            value = self._function(sent)
            if inspect.isgenerator(value):
                return "".join(map(pass_on, value))
            if inspect.isawaitable(value) or inspect.isasyncgen(value):  # of a lambda
                return asyncio.run_coroutine_threadsafe(get_result(value), callers_loop).result()
            return value

        if any(
            inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
            for each in (self._function, type(self._function).__call__)
        ):
            called = asyncio.run_coroutine_threadsafe(call_async(), callers_loop)
            value = await asyncio.wrap_future(called)
        else:
            value = await on_thread(call)
        reply = self._to_reply(value)
        if reply.usage is not None and self._tariff is not None:
            priced = partial(with_cost, reply.usage, self._tariff.priced_as)
            reply = reply._replace(usage=await on_thread(priced))
        on_words(None)
        on_words(reply.text)
        return reply

    def _to_reply(self, value: Any) -> Reply:
        usage, reason = getattr(value, "usage", None), getattr(value, "stop_reason", None)
        if isinstance(value, tuple) and len(value) == 2:
            value, usage = value
        elif hasattr(value, "choices"):  # of OpenAI's client
            choice = value.choices[0]
            value, reason = choice.message.content or "", getattr(choice, "finish_reason", None)
        elif isinstance(getattr(value, "content", None), list):  # of Anthropic's
            value = "".join(getattr(block, "text", "") for block in value.content)
        if not isinstance(value, str):
            raise ModelError(
                f"{self.name} must return the answer as a str, not {type(value).__name__}."
            )
        read = _get_count(usage, "input_tokens", "prompt_tokens")
        written = _get_count(usage, "output_tokens", "completion_tokens")
        used = None
        if read is not None and written is not None:
            used = Usage(input_tokens=read, output_tokens=written, model=self.name)
        return Reply(make_encodable(value), is_cut({"stop_reason": str(reason or "")}), used)


def _get_count(usage: Any, *names: str) -> int | None:
    for name in names:
        found = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        if isinstance(found, int):
            return found
    return None


_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""Loops by process: a fork needs its own."""
_starting = threading.Lock()


def _background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop for callers without one."""
    with _starting:
        if (loop := _loops.get(os.getpid())) is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="rlm-functions", daemon=True).start()
        return loop


def client_package(given: object) -> str:
    """Return "openai" or "anthropic" for a client of one of these packages, without loading them;
    empty for anything else."""
    classes = [(each.__module__.partition(".")[0], each.__name__) for each in type(given).__mro__]
    for package, name in (("openai", "OpenAI"), ("anthropic", "Anthropic")):
        if (package, name) in classes or (package, f"Async{name}") in classes:
            return package
    return ""


_ANSWER_TOKENS = 8_192
"""Most tokens of an answer that Anthropic's client returns without streaming."""
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
            max_answer_chars=service.max_answer_chars,
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
    """Make a model of a client of OpenAI or Anthropic and a model's name. Raises `ModelError`."""
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
            max_tokens=_ANSWER_TOKENS,
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
        words, speed = WordStream(on_words), line.tokens_per_second
        for token in [line.text] if speed is None else split_tokens(line.text):
            if speed is not None:
                await asyncio.sleep(1 / speed)
            words.add(token)
        words.flush()
        read, written = line.input_tokens, line.output_tokens
        used = Usage(model="replay", input_tokens=read, output_tokens=written, cost=line.cost)
        return Reply(words.text, False, used)


GivenModel = Union[str, "BaseChatModel", Function, tuple[Any, str]]
"""A model's name, a LangChain model, a function that gets messages, or a client of OpenAI or
Anthropic with a model's name."""


_NO_ACCESS: Mapping[str, str] = {}
_ACCESS_IS_FOR = "no base_url and api_key: these are for models of services, as openai:gpt-4o-mini."

ModelOptions = Callable[[], Mapping[str, Any]]
"""Returns the arguments for `get_llm`."""


@dataclass(eq=False)
class ChosenModels:
    """The models that callers have chosen for searches. Lives in one loop."""

    _options: ModelOptions
    _secrets: Secrets
    _on_notice: OnNotice
    _models: dict[object, tuple[Model, object]] = field(default_factory=dict)
    """Models with their sources, so that no other object gets the same id."""

    def get(
        self,
        given: GivenModel,
        limits: Limits,
        sampling: Sampling,
        access: Mapping[str, str] = _NO_ACCESS,
    ) -> Model:
        """Return a model. access: `address` and `api_key` for `find_service`. Raises `ModelError`
        if it is not available, does not take an option, or cannot keep to a limit."""
        parts = given if isinstance(given, tuple) else (given,)
        identity = (each if isinstance(each, str) else id(each) for each in parts)
        key = (*identity, *sorted(sampling.items()), *sorted(access.items()))
        if key not in self._models:
            model = self._create(given, sampling, access)
            self._models[key] = model, given
            model.gate = Gate(model.concurrency)
        model, _ = self._models[key]
        if limits.concurrency is not None and limits.concurrency > model.concurrency:
            model.concurrency = limits.concurrency
            model.gate.widen(limits.concurrency)
        if limits.max_usd is not None and not model.priced:
            raise ModelError(
                f"The price of {model.name} is unknown, so a limit in dollars cannot be enforced. Limit calls or tokens instead."
            )
        return model

    def get_both(
        self,
        model: GivenModel,
        sub_model: GivenModel,
        limits: Limits,
        sampling: Sampling,
        access: Mapping[str, str] = _NO_ACCESS,
    ) -> tuple[Model, Model]:
        """Return the models for a search's root and for its other calls; see `get`. access: for both
        if they are of one provider; no other provider gets the key."""

        found, given = self.get(model, limits, sampling, access), (model, sub_model)
        providers = {self._split(each)[0] if isinstance(each, str) else "" for each in given}
        shared = access if len(providers) == 1 else _NO_ACCESS
        return found, self.get(sub_model, limits, sampling, shared)

    def forget(self, models: Collection[Model]) -> None:
        """Forget models that no search uses; the caller closes them."""
        for key in [key for key, (model, _) in self._models.items() if model in models]:
            del self._models[key]

    def close(self) -> None:
        """End the models' processes. Blocks until stopped answers have ended."""
        for model, _ in self._models.values():
            model.close()

    def _create(self, given: GivenModel, sampling: Sampling, access: Mapping[str, str]) -> Model:
        if isinstance(given, str):
            return self._create_named(given, sampling, access)
        if access:
            raise ModelError(f"A model of the type {type(given).__name__} takes {_ACCESS_IS_FOR}")
        if isinstance(given, tuple):
            return client_model(given, self._secrets, sampling)
        if hasattr(given, "_llm_type"):  # LangChain need not be loaded to know its models
            return self._of_langchain(cast("BaseChatModel", given), sampling)
        if client_package(given):
            raise ModelError('Name the model as well, as in model=(client, "gpt-4o-mini").')
        function = FunctionModel(given, self._secrets)
        if sampling:
            raise ModelError(f"{function.name} is a function, which takes no {min(sampling)}.")
        return function

    def _create_named(self, name: str, sampling: Sampling, access: Mapping[str, str]) -> Model:
        service = find_service(name, **{**self._options(), **access})
        if service is not None and langsmith_variable():  # LangChain is to send traces there
            with IMPORTS.turn():
                from mahtab_tui.llm.chat_service import ChatService

            return self._of_langchain(ChatService.from_service(service), sampling)
        if service is not None:
            return ServiceModel(service, name, self._secrets, sampling)
        if access:
            raise ModelError(f"{name} takes {_ACCESS_IS_FOR}")
        provider, path = self._split(name)
        if provider != "replay":
            return self._of_langchain(name, sampling)
        check_sampling(name, sampling, (), "")
        return ReplayModel(name, Path(path), self._secrets)

    def _split(self, name: str) -> tuple[str, str]:
        return split_spec(full_name(name, self._options().get("provider")))

    def _of_langchain(self, given: str | BaseChatModel, sampling: Sampling) -> Model:
        with IMPORTS.turn():
            from mahtab_tui.search.models import ChatModel  # loads LangChain

            return ChatModel.create(
                given,
                secrets=self._secrets,
                make_llm=partial(get_llm, **self._options()),
                on_notice=self._on_notice,
                sampling=sampling,
            )
