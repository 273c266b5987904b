"""Calling models from a loop: words as they come, stopping, and which instance answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.messages import RESTARTED
from mahtab_tui.llm.replay import ChatReplay, ScriptedChatModel
from mahtab_tui.llm.replay_file import ReplayLine
from mahtab_tui.search.conversation import CONCURRENCY, Message
from mahtab_tui.search.models import CLI_CONCURRENCY, ChatModel
from tests.recursion_scripts import ScriptedModel

ASKED = [Message("user", "?")]


def ignore(words: str | None) -> None: ...


class Threaded(BaseChatModel):
    """A model without an asynchronous interface, that cannot be stopped."""

    go_on: Any
    words: tuple[str, ...] = ("a", "b", "c")

    @property
    def _llm_type(self) -> str:
        return "threaded"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self, messages: Sequence[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for word in self.words:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
            assert self.go_on.wait(20)


class Talker(ScriptedChatModel):
    """Says its own number until it is stopped, or the number of the message."""

    talkers: Any
    endless: bool = False

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _stream(
        self, messages: Sequence[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        if self not in self.talkers:
            self.talkers.append(self)
        yield from self.stream_text(
            f"{self.talkers.index(self)} " + "word " * 10_000 * self.endless,
            100 if self.endless else None,
        )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_tokens_stream_and_the_full_text_is_returned() -> None:
    go_on = threading.Event()
    tokens: list[str | None] = []
    call = asyncio.ensure_future(
        ChatModel.create(Threaded(go_on=go_on)).conversation(*ASKED).ask(tokens.append)
    )
    await until(lambda: tokens == ["a"])
    go_on.set()
    assert (await call).text == "abc"
    assert "".join(filter(None, tokens)) == "abc"


async def test_usage_and_cost_come_from_the_model() -> None:
    reply = (
        await ChatModel.create(ScriptedModel(reply=lambda messages: "yes"))
        .conversation(*ASKED)
        .ask(ignore)
    )
    assert reply.text == "yes"
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost) == (
        100,
        10,
        0.01,
    )
    assert (
        await ChatModel.create(Threaded(go_on=_set())).conversation(*ASKED).ask(ignore)
    ).usage is None


async def test_unstoppable_model_is_abandoned() -> None:
    go_on = threading.Event()
    call = asyncio.ensure_future(
        ChatModel.create(Threaded(go_on=go_on)).conversation(*ASKED).ask(ignore)
    )
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()


async def test_stop_ends_only_its_own_answer() -> None:
    talkers: list[Talker] = []
    model = ChatModel.create(Talker(talkers=talkers, endless=True))
    streams: list[list[str | None]] = [[], []]
    calls = [
        asyncio.ensure_future(model.conversation(*ASKED).ask(words.append)) for words in streams
    ]
    await until(lambda: all(streams))
    assert len(talkers) == 2
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    await until(lambda: talkers[0]._stopped.is_set() or talkers[1]._stopped.is_set())
    so_far = len(streams[1])
    await until(lambda: len(streams[1]) > so_far)
    assert sum(talker._stopped.is_set() for talker in talkers) == 1
    calls[1].cancel()
    await asyncio.wait(calls)


async def test_stop_before_the_answer_begins_is_not_lost() -> None:
    begin = threading.Event()

    class Late(Talker):
        def _stream(
            self, messages: Sequence[BaseMessage], *args: Any, **kwargs: Any
        ) -> Iterator[ChatGenerationChunk]:
            assert begin.wait(20)
            yield from super()._stream(messages, *args, **kwargs)

    before = set(threading.enumerate())
    call = asyncio.ensure_future(
        ChatModel.create(Late(talkers=[], endless=True)).conversation(*ASKED).ask(ignore)
    )
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    begin.set()
    await until(
        lambda: (
            not any(thread.name == "rlm-model" for thread in set(threading.enumerate()) - before)
        )
    )


async def test_conversation_returns_to_the_instance_that_knows_it() -> None:
    talkers: list[Talker] = []
    model = ChatModel.create(Talker(talkers=talkers))
    model.concurrency = 1
    first, second, third = (model.conversation(*ASKED) for _ in range(3))
    one, two = await asyncio.gather(first.ask(ignore), second.ask(ignore))
    assert {one.text, two.text} == {"0 ", "1 "}
    assert (await second.ask(ignore)).text == two.text
    assert (await first.ask(ignore)).text == one.text
    assert (await third.ask(ignore)).text == two.text, "the one that was used least lately"
    first.ended = True
    assert (await model.conversation(*ASKED).ask(ignore)).text == one.text, (
        "one that nobody comes back to"
    )
    assert len(talkers) == 2


async def test_each_conversation_replays_its_file_separately() -> None:
    replay = ChatReplay(
        lines=[
            ReplayLine("first"),
            ReplayLine("second"),
        ],
        source="file",
    )
    model = ChatModel.create(replay)
    one, two = model.conversation(*ASKED), model.conversation(*ASKED)
    texts = [(await conversation.ask(ignore)).text for conversation in (one, two, one, two)]
    assert texts == ["first", "first", "second", "second"]
    with pytest.raises(ModelError, match="no matching answer left"):
        await one.ask(ignore)


async def test_tokens_of_a_restarted_answer_are_discarded() -> None:
    class Retried(ScriptedModel):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk(content="Hello fr"))
            yield ChatGenerationChunk(
                message=AIMessageChunk(content="", response_metadata=RESTARTED)
            )
            yield ChatGenerationChunk(message=AIMessageChunk(content="Hello from here."))

    tokens: list[str | None] = []
    conversation = ChatModel.create(Retried(reply=lambda messages: "")).conversation(*ASKED)
    assert (await conversation.ask(tokens.append)).text == "Hello from here."
    assert conversation.partial == "Hello from here."
    assert tokens[tokens.index(None) + 1 :] == ["Hello from here."]


async def test_failed_call_counts_the_reported_usage() -> None:
    class Failing(Talker):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage))  # type: ignore[arg-type]
            raise ModelError("It is tired.")

    conversation = ChatModel.create(Failing(talkers=[])).conversation(*ASKED)
    with pytest.raises(ModelError, match="It is tired"):
        await conversation.ask(ignore)
    assert conversation.used is not None
    assert conversation.used.input_tokens == 9


async def test_failing_model_raises_in_its_caller() -> None:
    model = ChatModel.create(ChatReplay(lines=[ReplayLine(error="It is tired.")], source="file"))
    with pytest.raises(ModelError, match="It is tired"):
        await model.conversation(*ASKED).ask(ignore)


@pytest.mark.parametrize("ending", [SystemExit(3), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_model_exiting_its_thread_is_a_failure(ending: BaseException) -> None:
    class QuitFlow(Talker):
        def _stream(
            self, messages: Sequence[BaseMessage], *args: Any, **kwargs: Any
        ) -> Iterator[ChatGenerationChunk]:
            raise ending

    async with asyncio.timeout(20):
        with pytest.raises(ModelError, match=f"could not answer: {type(ending).__name__}"):
            await ChatModel.create(QuitFlow(talkers=[])).conversation(*ASKED).ask(ignore)


async def test_unsendable_characters_are_replaced() -> None:
    reply = (
        await ChatModel.create(ScriptedModel(reply=lambda messages: "half \ud83c"))
        .conversation(*ASKED)
        .ask(ignore)
    )
    assert reply.text == "half \ufffd"


def test_cli_has_few_processes_with_one_conversation_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ChatModel.create(ChatClaudeCLI(model="opus", max_tokens=77))
    assert (model.name, model.concurrency, model.remembers) == ("opus", CLI_CONCURRENCY, True)
    instance = model.lease(model.conversation(*ASKED)).llm
    assert isinstance(instance, ChatClaudeCLI)
    assert (instance.processes, instance.model, instance.max_tokens) == (1, "opus", 77)
    assert ChatModel.create("demo").concurrency == CONCURRENCY


def test_known_prices_are_used() -> None:
    demo, claude, other = (
        ChatModel.create("demo"),
        ChatModel.create("claude:claude-sonnet-4-5"),
        ChatModel.create(Threaded(go_on=_set())),
    )
    assert (demo.priced, demo.usd_per_token) == (True, (0.0, 0.0))
    assert claude.priced
    assert claude.usd_per_token == pytest.approx((3e-6, 15e-6))
    assert not other.priced


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
