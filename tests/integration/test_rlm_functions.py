"""A function as the model of a search."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.search.api import arlm, rlm
from mahtab_tui.search.conversation import FunctionModel, Message
from mahtab_tui.worker.search import SearchFailed
from tests.integration.scripted_searches import LOG, python

Messages = list[dict[str, str]]


def test_function_receives_the_messages_and_returns_the_answer() -> None:
    sent: list[Messages] = []

    def model(messages: Messages) -> str:
        sent.append(messages)
        if "Answer from the text alone" in messages[0]["content"]:
            return "six"
        return (
            python("print(len(context))")
            if len(messages) == 2
            else python("FINAL(llm('read', context[:9]))")
        )

    answer = rlm("what?", LOG, model=model)
    assert (answer, answer.usage.calls) == ("six", 3)
    assert answer.usage.tokens > 0, "estimated"
    assert [[message["role"] for message in messages] for messages in sent] == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
        ["system", "user"],
    ]
    assert sent[1][2]["content"] == python("print(len(context))")
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


ANSWER = python("FINAL(1)")
USED = {"prompt_tokens": 7, "completion_tokens": 3}


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


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        (pieces, None),
        (async_pieces, None),
        (AsyncCaller(), None),
        (lambda messages: awaited(messages), None),
        (lambda messages: async_pieces(messages), None),
        (lambda messages: (ANSWER, {"input_tokens": 7, "output_tokens": 3}), 10),
        (lambda messages: (ANSWER, Named(**USED)), 10),
        (
            lambda messages: Named(
                choices=[Named(message=Named(content=ANSWER))], usage=Named(**USED)
            ),
            10,
        ),
        (
            lambda messages: Named(
                content=[Named(text=ANSWER)], usage=Named(input_tokens=7, output_tokens=3)
            ),
            10,
        ),
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

    conversation = FunctionModel(model, secrets).conversation(
        Message("user", "It is hunter2hunter2.")
    )
    tokens: list[str | None] = []
    reply = asyncio.run(conversation.ask(tokens.append))
    assert "hunter2" not in sent[0][0]["content"]
    assert (reply.text, tokens, conversation.partial) == (
        "yes \ufffd",
        [None, "yes \ufffd"],
        "yes \ufffd",
    )


def test_no_model_library_is_loaded_for_a_function() -> None:
    program = """
import sys
import mahtab_tui
def model(messages):
    return "```python\\nFINAL(len(context))\\n```"
print(mahtab_tui.rlm("how long?", "x" * 100_000, model=model))
print([name for name in ("langchain_core", "pydantic", "httpx", "requests", "textual") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert (done.stdout, done.returncode) == ("100000\n[]\n", 0), done.stderr
