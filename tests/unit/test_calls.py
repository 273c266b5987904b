"""What holds for every call of a model, whoever asks: masking, money, retries and usage."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage

from mahtab_tui.bus.masking import MASK, Secrets
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.llm import calls, usage
from mahtab_tui.llm.base import ModelBusy, ModelError
from mahtab_tui.llm.calls import ModelCall
from mahtab_tui.llm.ledger import Ledger, OverBudget
from mahtab_tui.search.conversation import PromptMessage
from mahtab_tui.search.models import ChatModel
from tests.agents import FakeModel
from tests.recursion_scripts import ScriptedModel

SECRET = "sk-1f0a77b3c4d2"
QUESTION = f"What does {SECRET} open?"
Ask = Callable[[Secrets], Awaitable[str]]
"""Asks the question, and returns what the model got."""


class PricedFakeModel(FakeModel):
    """Its calls cost something, which is known before them."""

    model: str = "gpt-4o"
    priced_as: str = "openai"


def make_call(llm: BaseChatModel, secrets: Secrets | None = None) -> ModelCall:
    return ModelCall(
        llm,
        [HumanMessage(QUESTION)],
        secrets=secrets or Secrets(),
        stopped=threading.Event(),
    )


async def ask_on_own_thread(secrets: Secrets) -> str:
    llm = FakeModel(script=["A door."])
    make_call(llm, secrets).read()
    return str(llm.asked[0][0].content)


async def ask_on_another_thread(secrets: Secrets) -> str:
    llm = FakeModel(script=["A door."])
    conversation = ChatModel.create(llm, secrets=secrets).conversation(
        PromptMessage("user", QUESTION)
    )
    await conversation.ask(lambda words: None)
    return str(llm.asked[0][0].content)


async def ask_in_the_loop(secrets: Secrets) -> str:
    received: list[str] = []

    def reply(messages: Sequence[BaseMessage]) -> str:
        received.append(str(messages[0].content))
        return "A door."

    conversation = ChatModel.create(ScriptedModel(reply=reply), secrets=secrets).conversation(
        PromptMessage("user", QUESTION)
    )
    await conversation.ask(lambda words: None)
    return received[0]


@pytest.mark.parametrize("ask", [ask_on_own_thread, ask_on_another_thread, ask_in_the_loop])
async def test_secrets_are_masked_before_anything_is_sent(ask: Ask) -> None:
    assert await ask(Secrets()) == QUESTION, "the model gets what is no secret"
    secrets = Secrets()
    secrets.add(SECRET)
    assert await ask(secrets) == f"What does {MASK} open?"


def test_a_call_that_cannot_be_afforded_is_not_made() -> None:
    llm = PricedFakeModel(script=["A door."])
    ledger = Ledger(lambda: 0.001)
    call = make_call(llm)
    assert call.run(ledger, "agent", 1) is None
    assert "The model was not asked: the call could cost up to" in str(call.failure)
    assert not call.has_ended
    assert not llm.asked
    assert ledger.total == UsageStats()


def test_the_worst_cost_is_held_while_a_call_runs_and_no_longer() -> None:
    ledger = Ledger(lambda: 1.0)
    refusals: list[bool] = []

    def ask_for_all() -> None:
        """Try to make a call that could cost all that is left."""
        try:
            with ledger.within_limit("m", lambda: 0.999):
                refusals.append(False)
        except OverBudget as refusal:
            refusals.append(refusal.later)

    call = make_call(PricedFakeModel(script=[ask_for_all, "A door."]))
    assert call.run(ledger, "agent", 1) is not None
    ask_for_all()
    assert refusals == [True, False]


def test_an_answer_is_counted_once_for_its_question() -> None:
    tokens = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    llm = FakeModel(script=["A door.", {"content": "", "usage_metadata": tokens}])
    ledger = Ledger()
    counted = make_call(llm).run(ledger, "summary", 7)
    assert counted is not None
    assert (counted.source, counted.turn, counted.input_tokens) == ("summary", 7, 9)
    assert (ledger.total.calls, ledger.total.tokens) == (1, 14)


def test_a_model_that_failed_before_it_accepted_the_question_costs_nothing() -> None:
    ledger = Ledger()
    call = make_call(PricedFakeModel(script=[ModelError("It is away.")]))
    assert call.run(ledger, "agent", 1) is None
    assert ledger.total.calls == 0


@pytest.mark.parametrize(
    ("words_before", "tries", "text"), [([], 2, "A door."), (["A win"], 1, "A win")]
)
def test_a_busy_service_is_asked_again_only_if_nothing_has_come(
    monkeypatch: pytest.MonkeyPatch, words_before: list[str], tries: int, text: str
) -> None:
    monkeypatch.setattr(calls, "_BUSY_PAUSES_S", (0.0, 0.0))
    attempts: list[Any] = [[*words_before, ModelBusy("It is busy.", 0.0)], ["A door."]]
    llm = PricedFakeModel(script=lambda messages: attempts.pop(0))
    ledger = Ledger()
    call = make_call(llm)
    call.run(ledger, "agent", 1)
    assert (len(llm.asked), call.reader.text) == (tries, text)
    assert ledger.total.calls == 1, "what came is counted, and what did not is not"


def test_an_answer_that_starts_again_keeps_nothing_of_its_beginning() -> None:
    thoughts = {"reasoning_content": "A window?"}
    llm = FakeModel(
        script=[
            {"content": "", "additional_kwargs": thoughts},
            "A win",
            {"content": "", "response_metadata": {"anew": True}},
            "A door.",
        ]
    )
    call = make_call(llm)
    call.read()
    assert (call.reader.text, call.reader.thoughts) == ("A door.", [])


def test_usage_statistics_pickled_by_earlier_versions_load() -> None:
    assert usage.UsageStats is UsageStats
