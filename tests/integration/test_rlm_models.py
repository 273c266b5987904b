"""Searches by functions, the `claude` CLI and a provider's model."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.search.api import arlm, rlm
from mahtab_tui.search.conversation import PromptMessage
from mahtab_tui.search.function_models import FunctionModel
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.models import CLI_CONCURRENCY
from mahtab_tui.search.search import Search
from mahtab_tui.worker.rlm.search import SearchFailed
from tests import tags
from tests.fake_claude import FakeClaude, InstallClaude
from tests.integration.scripted_searches import LOG, python, run_program
from tests.recursion_scripts import TEXT, SearchEvents
from tests.services import LocalServer, answering
from tests.waiting import wait_for

# A function as the model of a search.

Messages = list[dict[str, str]]

ANSWER = python("FINAL(1)")

USED = {"prompt_tokens": 7, "completion_tokens": 3}
ALSO_USED = {"input_tokens": 7, "output_tokens": 3}

LIMITS = SearchLimits(small=0, max_depth=1)


def test_function_receives_the_messages_and_returns_the_answer() -> None:
    sent: list[Messages] = []

    def model(messages: Messages) -> str:
        sent.append(messages)
        if "Answer from the text alone" in messages[0]["content"]:
            return "six"
        return look if len(messages) == 2 else python("FINAL(llm('read', context[:9]))")

    look = python("print(len(context))")
    answer = rlm("what?", LOG, model=model)
    assert (answer, answer.usage.calls) == ("six", 3)
    assert answer.usage.tokens > 0, "estimated"
    first_roles = ["system", "user"]
    roles = [[message["role"] for message in messages] for messages in sent]
    assert roles == [first_roles, [*first_roles, "assistant", "user"], first_roles]
    assert sent[1][2]["content"] == look
    assert answer.tree is not None
    assert answer.tree.calls[0].model == "model"


def test_async_function_is_awaited_and_calls_run_concurrently() -> None:
    both = asyncio.Barrier(2)

    async def model(messages: Messages) -> str:
        if "what?" in messages[1]["content"]:
            return python("FINAL(llm_map('read', partition(2)))")
        await both.wait()
        return "read"

    assert rlm("what?", LOG, model=model) == '["read", "read"]'


def test_async_client_is_used_from_one_loop_by_every_call() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def model(messages: Messages) -> str:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return python("FINAL(len(context))")

    assert [rlm("what?", LOG, model=model).value for _ in range(2)] == [str(len(LOG))] * 2
    assert len(loops) == 1
    loops.clear()

    async def search() -> bool:
        await asyncio.gather(arlm("what?", LOG, model=model), arlm("what?", LOG, model=model))
        return loops == {asyncio.get_running_loop()}

    assert asyncio.run(search())


class Named(SimpleNamespace):
    """An answer as clients of services return it."""


def pieces(messages: Messages) -> Iterator[str]:
    yield ANSWER[:9]
    yield ANSWER[9:]


async def async_pieces(messages: Messages) -> AsyncIterator[str]:
    yield ANSWER[:9]
    await asyncio.sleep(0)
    yield ANSWER[9:]


async def awaited(messages: Messages) -> str:
    return ANSWER


class AsyncCaller:
    async def __call__(self, messages: Messages) -> str:
        return ANSWER


OF_OPENAI = Named(choices=[Named(message=Named(content=ANSWER))], usage=Named(**USED))
OF_ANTHROPIC = Named(content=[Named(text=ANSWER)], usage=Named(**ALSO_USED))


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (pieces, None),
        (async_pieces, None),
        (AsyncCaller(), None),
        (lambda messages: awaited(messages), None),
        (lambda messages: async_pieces(messages), None),
        (lambda messages: (ANSWER, ALSO_USED), 10),
        (lambda messages: (ANSWER, Named(**USED)), 10),
        (lambda messages: OF_OPENAI, 10),
        (lambda messages: OF_ANTHROPIC, 10),
    ],
)
def test_function_may_answer_in_many_forms(model: Any, tokens: int | None) -> None:
    answer = rlm("what?", LOG, model=model)
    assert answer == "1"
    assert tokens is None or answer.usage.tokens == tokens


def test_functions_run_concurrently_on_threads() -> None:
    both = threading.Barrier(2, timeout=60)

    class Caller:
        def __call__(self, messages: Messages) -> str:
            if "what?" in messages[1]["content"]:
                return python("FINAL(llm_map('read', partition(2)))")
            both.wait()
            return "read"

    assert rlm("what?", LOG, model=Caller()) == '["read", "read"]'


def leaving(messages: Messages) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda messages: 5, "must return the answer as a str, not int"),
        (lambda messages: messages[99], "IndexError: list index out of range"),
        (leaving, "SystemExit 3"),
    ],
)
def test_function_error_gives_one_sentence(model: Any, message: str) -> None:
    with pytest.raises(SearchFailed, match=message):
        rlm("what?", LOG, model=model)


async def leaving_later(messages: Messages) -> str:
    raise SystemExit(3)


async def leaving_in_pieces(messages: Messages) -> AsyncIterator[str]:
    yield "x"
    raise KeyboardInterrupt


async def cancelled(messages: Messages) -> str:
    raise asyncio.CancelledError


async def leaving_a_task(messages: Messages) -> str:
    await asyncio.gather(asyncio.create_task(leaving_later(messages)))
    return "never"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (leaving, "SystemExit 3"),
        (leaving_later, "SystemExit 3"),
        (lambda messages: leaving_later(messages), "SystemExit 3"),
        (leaving_a_task, "SystemExit 3"),
        (leaving_in_pieces, "KeyboardInterrupt"),
        (lambda messages: leaving_in_pieces(messages), "KeyboardInterrupt"),
        (cancelled, "CancelledError"),
        (lambda messages: cancelled(messages), "CancelledError"),
        (lambda messages: next(iter(())), "StopIteration"),
        (lambda messages: SimpleNamespace(choices=[]), "without choices"),
        (lambda messages: SimpleNamespace(choices=None, error="busy"), "without choices: busy"),
    ],
)
def test_function_that_exits_fails_only_its_own_call(model: Any, message: str) -> None:
    async def works(messages: Messages) -> str:
        return "fine"

    def ask(function: Any) -> str:
        conversation = FunctionModel(function, Secrets()).conversation(PromptMessage("user", "?"))
        return asyncio.run(asyncio.wait_for(conversation.ask(lambda words: None), 20)).text

    with pytest.raises(ModelError, match=message):
        ask(model)
    assert ask(works) == ask(lambda messages: works(messages)) == "fine"


def test_options_unsupported_by_functions_are_refused() -> None:
    with pytest.raises(ModelError, match="is a function, which takes no temperature"):
        rlm("what?", LOG, model=leaving, temperature=0.5)
    with pytest.raises(ModelError, match="The price of leaving is unknown"):
        rlm("what?", LOG, model=leaving, max_usd=1)


def test_function_receives_no_secrets() -> None:
    secrets = Secrets()
    secrets.add("hunter2hunter2")
    sent: list[Messages] = []

    def model(messages: Messages) -> str:
        sent.append(messages)
        return "yes \ud83c"

    message = PromptMessage("user", "It is hunter2hunter2.")
    conversation = FunctionModel(model, secrets).conversation(message)
    tokens: list[str | None] = []
    reply = asyncio.run(conversation.ask(tokens.append))
    assert "hunter2" not in sent[0][0]["content"]
    assert reply.text == conversation.partial == "yes \ufffd"
    assert tokens == [None, "yes \ufffd"]


def test_no_model_library_is_loaded_for_a_function() -> None:
    program = """
import sys
import mahtab_tui
def model(messages):
    return "```python\\nFINAL(len(context))\\n```"
print(mahtab_tui.rlm("how long?", "x" * 100_000, model=model))
print([name for name in ("langchain_core", "pydantic", "httpx", "requests", "textual") if name in sys.modules])
"""
    assert run_program(program) == "100000\n[]\n"


# Searches by the `claude` CLI: a fake one that speaks its protocol, real sandboxes.


@pytest.fixture
def search_events() -> SearchEvents:
    return SearchEvents()


@pytest.fixture
def search(search_events: SearchEvents) -> Iterator[Search]:
    search = Search(search_events.append)
    yield search
    search.close()


def alive(fake: FakeClaude) -> int:
    return sum(Path(f"/proc/{start['pid']}").exists() for start in fake.starts)


def test_node_keeps_its_process_and_sends_the_text_only_once(
    install_claude: InstallClaude, search: Search, search_events: SearchEvents
) -> None:
    answers = [
        python("print('first')") + "\nI imagine that it says 5.",
        python("print('second')"),
        python("FINAL(len(context))"),
    ]
    fake = install_claude("answers", answers=answers)
    answer = search.run("what?", TEXT, model="claude", limits=LIMITS)
    assert answer.text == str(len(TEXT))
    assert len(fake.starts) == 1
    assert ["<search-query>" in prompt for prompt in fake.prompts] == [True, False, False]
    assert "first" in fake.prompts[1]
    assert "dropped" in fake.prompts[1], "it remembers its own words"
    assert answer.usage.cost == pytest.approx(0.75)
    assert search._trees[answer.tree].calls.ledger.spent.tokens == 3 * (10 + 1 + 2 + 5), (
        "what is read from the cache is read too"
    )
    assert [record.attrs["cost"] for record in search_events.of(tags.USAGE)] == [0.25] * 3


def test_fan_out_uses_few_processes_and_leaves_none(
    install_claude: InstallClaude, search: Search
) -> None:
    answers = [python("FINAL(len(rlm_map('read', partition(7))))"), "never said"]
    fake = install_claude("answers", answers=answers)
    max_alive = 0
    search_ended = threading.Event()

    def watch() -> None:
        nonlocal max_alive
        while not search_ended.wait(0.01):
            max_alive = max(max_alive, alive(fake))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert search.run("what?", TEXT, model="claude", limits=LIMITS).text == "7"
    search_ended.set()
    watcher.join()
    assert len(fake.starts) == 8
    assert max_alive <= CLI_CONCURRENCY + 1, "those in use, and the root's"
    search.close()
    assert alive(fake) == 0


@pytest.mark.parametrize("behaviour", ["streams", "silent", "deaf"])
def test_a_stopped_search_does_not_wait_for_the_cli(
    install_claude: InstallClaude, search: Search, search_events: SearchEvents, behaviour: str
) -> None:
    fake = install_claude(behaviour)

    def stop() -> None:
        wait_for(lambda: fake.prompts)
        search.stop(search_events[0].attrs["tree"], "1")

    threading.Thread(target=stop).start()
    answer = search.run("what?", TEXT, model="claude", limits=LIMITS)
    assert answer.state == "stopped"
    assert alive(fake) == 1 or behaviour != "deaf", "it goes on for a moment, and nobody waits"
    search.close()
    wait_for(lambda: alive(fake) == 0)


# Searches by a provider's model, over a server on this machine.


class Completions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    silent: ClassVar[bool] = False
    over: ClassVar[threading.Event] = threading.Event()
    most: ClassVar[set[int | None]] = set()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Completions.most.add(body.get("max_completion_tokens"))
        root = "writing Python" in str(body["messages"][0])
        if not root and Completions.silent:
            Completions.over.wait(30)
        words = "```python\nFINAL(' '.join(rlm_map('read', partition(6))))\n```" if root else "fine"
        delta = {"role": "assistant", "content": words}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage},
        ]
        about = {"id": "1", "object": "chat.completion.chunk", "created": 1}
        about["model"] = body["model"]
        text = "".join(f"data: {json.dumps(about | chunk)}\n\n" for chunk in chunks)
        data = f"{text}data: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Completions, "silent", False)
    monkeypatch.setattr(Completions, "over", over := threading.Event())
    monkeypatch.setattr(Completions, "most", set())
    with LocalServer(Completions) as server, answering(server):
        monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield
        over.set()


@pytest.mark.usefixtures("_server")
def test_consecutive_searches_use_their_own_loops() -> None:
    search_events = SearchEvents()
    options: dict[str, Any] = {
        "model": "openai:gpt-4o",
        "max_usd": 1,
        "on_event": search_events.append,
    }
    for _ in range(3):
        assert rlm("what?", TEXT * 10, **options) == "fine " * 5 + "fine"
    usage = search_events.of(tags.USAGE)
    assert len(usage) == 21
    assert {record.attrs["model"] for record in usage} == {"gpt-4o"}
    assert all(record.attrs["cost"] > 0 for record in usage)
    assert Completions.most == {4_096}


@pytest.mark.usefixtures("_server")
def test_model_used_by_another_loop_works() -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4o")

    async def program() -> str:
        chunks = [str(chunk.text) async for chunk in model.astream("read")]
        chunks.append(rlm("what?", TEXT * 10, model=model, max_depth=1, max_usd=1))
        chunks += [str(chunk.text) async for chunk in model.astream("read")]
        return "".join(chunks)

    assert asyncio.run(program()) == "fine" * 2 + " fine" * 5 + "fine"
    assert Completions.most == {None, 4_096}


@pytest.mark.usefixtures("_server")
def test_silent_service_is_abandoned_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Completions, "silent", True)
    began = time.monotonic()
    answer = rlm("what?", TEXT * 10, model="openai:gpt-4o", max_seconds=4)
    # The server answers the root's last call with the same code as its first.
    assert answer.startswith("[failed: The time for the search is up.]")
    assert answer.state == "partial"
    assert time.monotonic() - began < 25, "it answers after 30 s"
