"""Calling models from a loop: one instance for each, how many at a time, and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from mahtab_tui.llm.answer_metadata import RESTARTED
from mahtab_tui.llm.answer_readers import OnText
from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError
from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.failures import is_busy, retry_after
from mahtab_tui.llm.replay_file import ReplayLine
from mahtab_tui.llm.scripted import ChatReplay, ScriptedChatModel
from mahtab_tui.search import gates
from mahtab_tui.search.conversation import CONCURRENCY, ModelReply, PromptMessage
from mahtab_tui.search.findings import MAX_FINDINGS_CHARS, Findings
from mahtab_tui.search.gates import Gate, run_scheduled
from mahtab_tui.search.models import CLI_CONCURRENCY, ChatModel
from tests import tags
from tests.recursion_scripts import (
    Messages,
    ScriptedModel,
    ScriptedSearches,
    TurnAccess,
    code,
    count_answers,
    is_last_call,
    query_of,
)

# Calling models from a loop: words as they come, stopping, and which instance answers.

ASKED = [PromptMessage("user", "?")]

FAILURES = [
    ContextTooLong("It is too long."),
    ModelError("The account cannot pay."),
    ValueError("bad luck"),
    ModelBusy("It is busy."),
]


def ignore(words: str | None) -> None: ...


def ask(llm: BaseChatModel, on_text: OnText = ignore) -> asyncio.Future[ModelReply]:
    return asyncio.ensure_future(ChatModel.create(llm).conversation(*ASKED).ask(on_text))


def chunk(words: str, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=words, **fields))


class Threaded(BaseChatModel):
    may_continue: Any

    @property
    def _llm_type(self) -> str:
        return "threaded"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self, messages: Messages, *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for word in "abc":
            yield chunk(word)
            assert self.may_continue.wait(20)


class Talker(ScriptedChatModel):
    """Says its own number until it is stopped, or the number of the message."""

    talkers: Any
    endless: bool = False

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _stream(
        self, messages: Messages, *args: Any, **kwargs: Any
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
    may_continue = threading.Event()
    tokens: list[str | None] = []
    call = ask(Threaded(may_continue=may_continue), tokens.append)
    await until(lambda: tokens == ["a"])
    may_continue.set()
    assert (await call).text == "abc"
    assert "".join(filter(None, tokens)) == "abc"


async def test_unstoppable_model_is_abandoned() -> None:
    may_continue = threading.Event()
    call = ask(Threaded(may_continue=may_continue))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    may_continue.set()


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
            self, messages: Messages, *args: Any, **kwargs: Any
        ) -> Iterator[ChatGenerationChunk]:
            assert begin.wait(20)
            yield from super()._stream(messages, *args, **kwargs)

    threads_before = set(threading.enumerate())
    call = ask(Late(talkers=[], endless=True))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    begin.set()
    await until(
        lambda: (
            "rlm-model"
            not in {thread.name for thread in set(threading.enumerate()) - threads_before}
        )
    )


async def test_conversation_returns_to_the_instance_that_knows_it() -> None:
    talkers: list[Talker] = []
    model = ChatModel.create(Talker(talkers=talkers))
    model.concurrency = 1
    first, second, third = (model.conversation(*ASKED) for _ in range(3))
    first_answer, second_answer = await asyncio.gather(first.ask(ignore), second.ask(ignore))
    assert {first_answer.text, second_answer.text} == {"0 ", "1 "}
    assert (await second.ask(ignore)).text == second_answer.text
    assert (await first.ask(ignore)).text == first_answer.text
    assert (await third.ask(ignore)).text == second_answer.text, "the longest unused"
    first.ended = True
    fourth = await model.conversation(*ASKED).ask(ignore)
    assert fourth.text == first_answer.text, "one whose conversation has ended"
    assert len(talkers) == 2


async def test_each_conversation_replays_its_file_separately() -> None:
    lines = [ReplayLine("first"), ReplayLine("second")]
    model = ChatModel.create(ChatReplay(lines=lines, source="file"))
    first_conversation = model.conversation(*ASKED)
    second_conversation = model.conversation(*ASKED)
    texts = [
        (await conversation.ask(ignore)).text
        for conversation in (
            first_conversation,
            second_conversation,
            first_conversation,
            second_conversation,
        )
    ]
    assert texts == ["first", "first", "second", "second"]
    with pytest.raises(ModelError, match="no matching answer left"):
        await first_conversation.ask(ignore)


async def test_tokens_of_a_restarted_answer_are_discarded() -> None:
    class Retried(ScriptedModel):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            yield chunk("Hello fr")
            yield chunk("", response_metadata=RESTARTED)
            yield chunk("Hello from here.")

    tokens: list[str | None] = []
    conversation = ChatModel.create(Retried(reply=lambda messages: "")).conversation(*ASKED)
    assert (await conversation.ask(tokens.append)).text == "Hello from here."
    assert conversation.partial == "Hello from here."
    assert tokens[tokens.index(None) + 1 :] == ["Hello from here."]


async def test_failed_call_counts_the_reported_usage() -> None:
    class Failing(Talker):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
            yield chunk("", usage_metadata=usage)
            raise ModelError("It is tired.")

    conversation = ChatModel.create(Failing(talkers=[])).conversation(*ASKED)
    with pytest.raises(ModelError, match="It is tired"):
        await conversation.ask(ignore)
    assert conversation.used is not None
    assert conversation.used.input_tokens == 9


@pytest.mark.parametrize("ending", [SystemExit(3), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_model_exiting_its_thread_is_a_failure(ending: BaseException) -> None:
    class Exiting(Talker):
        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            raise ending

    async with asyncio.timeout(20):
        with pytest.raises(ModelError, match=f"could not answer: {type(ending).__name__}"):
            await ask(Exiting(talkers=[]))


def test_cli_has_few_processes_with_one_conversation_each() -> None:
    model = ChatModel.create(ChatClaudeCLI(model="opus", max_tokens=77))
    assert (model.name, model.concurrency, model.remembers) == ("opus", CLI_CONCURRENCY, True)
    instance = model.lease(model.conversation(*ASKED)).llm
    assert isinstance(instance, ChatClaudeCLI)
    assert (instance.processes, instance.model, instance.max_tokens) == (1, "opus", 77)
    assert ChatModel.create("demo").concurrency == CONCURRENCY


def test_known_prices_are_used() -> None:
    demo = ChatModel.create("demo")
    claude = ChatModel.create("claude:claude-sonnet-4-5")
    unpriced_model = ChatModel.create(Threaded(may_continue=None))
    assert (demo.priced, demo.usd_per_token) == (True, (0.0, 0.0))
    assert claude.priced
    assert claude.usd_per_token == pytest.approx((3e-6, 15e-6))
    assert not unpriced_model.priced


# How many calls run at a time, and pauses while a service is busy.


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_FIRST_PAUSE_S", 0.02)


class Counter:
    def __init__(self) -> None:
        self.running = self.most = self.done = 0

    async def __call__(self) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        self.done += 1
        return self.done


def ignore_wait(seconds: float) -> None: ...


async def test_concurrency_is_limited_and_first_come_first_served() -> None:
    counter = Counter()
    everyone = Gate(5)
    gate = Gate(3)
    calls = [run_scheduled(everyone, gate, counter, ignore_wait) for _ in range(30)]
    assert await asyncio.gather(*calls) == list(range(1, 31))
    assert counter.most == 3


async def test_global_limit_covers_all_models() -> None:
    counter = Counter()
    everyone = Gate(5)
    gates = [Gate(4), Gate(4)] * 20
    await asyncio.gather(*(run_scheduled(everyone, gate, counter, ignore_wait) for gate in gates))
    assert counter.most == 5


async def test_cancelled_waiters_leave_no_gap() -> None:
    gate = Gate(1)
    await gate.enter()
    waiting = [asyncio.ensure_future(gate.enter()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave()  # lets the second in, or the first, which is cancelled
    waiting[1].cancel()
    await asyncio.wait(waiting[:3])
    assert not waiting[2].cancelled()
    assert not waiting[3].done()
    gate.leave()
    await waiting[3]
    gate.leave()
    await gate.enter()


async def test_all_calls_pause_when_a_service_is_busy_and_recover() -> None:
    counter = Counter()
    everyone = Gate(16)
    gate = Gate(16)
    pauses: list[float] = []
    failures = 16
    running: list[int] = []

    async def call() -> int:
        nonlocal failures
        if failures:
            failures -= 1
            await asyncio.sleep(0)
            raise ModelBusy("It is busy.")
        running.append(counter.running + 1)
        return await counter()

    await asyncio.gather(*(run_scheduled(everyone, gate, call, pauses.append) for _ in range(40)))
    assert (counter.done, len(pauses)) == (40, 16)
    assert max(running[:16]) < 16, "fewer run at a time after an overload"
    counter.most = 0
    await asyncio.gather(*(run_scheduled(everyone, gate, call, pauses.append) for _ in range(80)))
    assert counter.most == 16, "as many as before once calls succeed"


async def test_pauses_grow_and_respect_the_services_retry_time() -> None:
    gate = Gate(4)
    assert gate.report_overload() == 0.02
    assert gate.report_overload() == 0.02, "one overload, reported by two calls"
    await asyncio.sleep(0.03)
    assert gate.report_overload() == 0.04
    await asyncio.sleep(0.05)
    gate.report_success()
    assert gate.report_overload() == 0.02
    await asyncio.sleep(0.03)
    assert gate.report_overload(min_pause_s=7.0) == 7.0


def test_busy_service_is_recognised_by_its_exception() -> None:
    class HttpError(Exception):
        def __init__(self, status: int, wait: str = "") -> None:
            self.status_code = status
            self.response = SimpleNamespace(status_code=status, headers={"retry-after": wait})

    statuses = (429, 503, 529, 400, 401)
    assert [status for status in statuses if is_busy(HttpError(status))] == [429, 503, 529]
    assert is_busy(ModelBusy("…"))
    assert not is_busy(ModelError("…"))
    errors = (HttpError(429, "12"), HttpError(429, "soon"), ValueError())
    assert [retry_after(error) for error in errors] == [12.0, 0.0, 0.0]


# When a model fails late, the search returns its findings, marked as partial.


async def look(access: TurnAccess) -> None:
    access.print("the culprit is line 17")


async def ask_parts(access: TurnAccess) -> None:
    await access.rlm("part", *access.partition(3))


TURNS = (look, ask_parts)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_permanent_model_failure_keeps_the_findings(
    searches: ScriptedSearches, failure: Exception
) -> None:
    def reply(messages: Messages) -> str:
        if query_of(messages) == "part":
            return "it was the disk"
        answers = count_answers(messages)
        if answers < 2 and not is_last_call(messages):
            return code("ask_parts" if answers else "look")
        raise failure

    result = searches.run(reply, *TURNS, max_depth=1)
    assert result.state == "partial"
    assert result.text.startswith("The search ended before it had an answer. ")
    assert "culprit is line 17" in result.text
    assert "part (part 3 of 3): it was the disk" in result.text, "received, but never printed"


def test_too_long_conversation_is_restarted_from_its_findings(searches: ScriptedSearches) -> None:
    requests: list[Messages] = []

    def reply(messages: Messages) -> str:
        requests.append(list(messages))
        if len(messages) > 4:
            raise ContextTooLong("It is too long.")
        return "it was line 17" if is_last_call(messages) else code("look")

    result = searches.run(reply, *TURNS)
    assert (result.text, result.state) == ("it was line 17", "partial")
    assert [message.type for message in requests[-1]] == ["system", "human", "human"]
    assert "culprit is line 17" in str(requests[-1][-1].content)


def test_too_long_last_call_is_retried_shorter(searches: ScriptedSearches) -> None:
    def reply(messages: Messages) -> str:
        if not is_last_call(messages):
            return code("look")
        if len(messages) > 3:
            raise ContextTooLong("It is too long.")
        return "it was line 17"

    result = searches.run(reply, *TURNS, max_turns=2)
    assert (result.text, result.state) == ("it was line 17", "partial")


@pytest.mark.parametrize("busy", [False, True])
def test_last_call_running_out_of_time_leaves_the_findings(
    searches: ScriptedSearches, busy: bool
) -> None:
    async def reply(messages: Messages) -> str:
        if not is_last_call(messages) and len(messages) < 3:
            return code("look")
        if busy:
            raise ModelBusy("It is busy.", 1_000)
        await asyncio.Event().wait()
        return ""

    result = searches.run(reply, *TURNS, max_seconds=2)
    assert result.state == "partial"
    assert "The time for the search is up." in result.text
    assert "culprit is line 17" in result.text


def test_last_call_gets_the_finished_sub_calls_when_others_take_too_long(
    searches: ScriptedSearches,
) -> None:
    last_prompts: list[str] = []

    async def reply(messages: Messages) -> str:
        if is_last_call(messages):
            last_prompts.append(str(messages[-1].content))
            return "most of it"
        if query_of(messages) == "what?":
            return code("ask_parts")
        if "line 999" in str(messages[-1].content):
            await asyncio.Event().wait()
        return "it was the disk"

    result = searches.run(reply, *TURNS, max_seconds=2, max_depth=1)
    assert (result.text, result.state) == ("most of it", "partial")
    assert "part (part 1 of 3): it was the disk" in last_prompts[0]
    assert "part 3 of 3" not in last_prompts[0]


def test_interrupted_answer_is_returned_partially(searches: ScriptedSearches) -> None:
    class Breaking(ScriptedModel):
        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            yield chunk("It began at noon ")
            raise ValueError("the line went dead")

    result = searches.run(Breaking(reply=None), max_depth=0)
    (guessed,) = (record.attrs for record in searches.events.of(tags.USAGE))
    assert guessed["estimated"]
    assert guessed["cost"] > 0
    assert result.state == "partial"
    assert (
        result.text
        == "It began at noon \n\n[The answer broke off here. The model could not answer: ValueError: the line went dead.]"
    )


def test_findings_are_bounded_and_note_what_is_missing() -> None:
    findings = Findings()
    assert not findings
    for number in range(1_000):
        findings.printed.add(f"output {number} " + "x" * 1_000)
        findings.add_answer("q" * 90_000, "a" * 90_000, part_index=number, part_count=1_000)
    assert findings
    assert len(findings.as_answer("")) < 2 * MAX_FINDINGS_CHARS + 1_000
    assert "output 999" in findings.text
    assert "earlier left out" in findings.text
    assert "part 1000 of 1000" in findings.text


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("apart", [False, True])
def test_model_raising_system_exit_ends_its_call_and_not_the_search(
    searches: ScriptedSearches, error: BaseException, apart: bool
) -> None:
    async def leave() -> str:
        await asyncio.sleep(0)
        raise error

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "what?":
            return code("answer")
        return await (asyncio.ensure_future(leave()) if apart else leave())

    async def answer(access: TurnAccess) -> None:
        access.final((await access.rlm("part", "a text"))[0])

    result = searches.start(reply, answer, max_depth=1).result(60)
    reason = f"The model could not answer: {type(error).__name__} {error}".rstrip()
    assert result.text == f"[failed: {reason}.]"
    again = searches.running.run("again?", "a", model=ScriptedModel(reply=lambda messages: "here"))
    assert again.text == "here"
    assert searches.events.of(tags.RLM_FINAL, "1.1")[0].attrs["state"] == "error"


@pytest.mark.parametrize(
    ("error", "tries"), [(ModelBusy("It is busy."), 6), (ModelError("You are not logged in."), 1)]
)
async def test_only_busy_services_are_asked_again_until_they_are_given_up(
    monkeypatch: pytest.MonkeyPatch, error: ModelError, tries: int
) -> None:
    monkeypatch.setattr(gates, "_MAX_PAUSE_S", 0.01)
    tried = 0

    async def call() -> None:
        nonlocal tried
        tried += 1
        raise error

    with pytest.raises(type(error), match=str(error)):
        await run_scheduled(Gate(2), Gate(2), call, ignore_wait)
    assert tried == tries
