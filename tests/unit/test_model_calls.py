"""Hearing one answer of a model to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from mahtab_tui.agent.model_calls import ModelAnswer, read_answer
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.messages import make_encodable

QUESTION = [HumanMessage("what is it?")]
PATIENCE = 30.0
"""Seconds after which something that must come counts as lost."""


class Scripted(BaseChatModel):
    """A provider that gives these chunks, and does what it finds among them."""

    script: list[Any]
    _asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise AssertionError

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        self._asked += 1
        for item in self.script:
            if callable(item):
                item()
            else:
                yield ChatGenerationChunk(
                    message=AIMessageChunk(**({"content": item} if isinstance(item, str) else item))
                )


class Stopped(Scripted):
    """One that can be stopped, and says that it was."""

    _stops: int = 0

    def stop(self) -> None:
        self._stops += 1

    def close(self) -> None:
        """Nothing is held."""


def fail(error: Exception) -> Callable[[], None]:
    """Something that raises."""

    def raising() -> None:
        raise error

    return raising


@pytest.fixture(params=[Scripted, Stopped])
def kind(request: pytest.FixtureRequest) -> type[Scripted]:
    """Both that can be stopped and that cannot."""
    cls: type[Scripted] = request.param
    return cls


def test_tokens_are_delivered_as_they_arrive(kind: type[Scripted]) -> None:
    tokens: list[str | None] = []
    answer = read_answer(
        kind(script=["It ", "", "is."]), QUESTION, threading.Event(), tokens.append
    )
    assert answer == ModelAnswer("It is.", stopped=False, cut=False, failure="", usage=None)
    assert answer.ended
    assert tokens == ["It ", "is."]


def test_final_text_of_the_transport_is_used(kind: type[Scripted]) -> None:
    last = {"content": "", "response_metadata": {"final_text": "It is a list."}}
    assert (
        read_answer(kind(script=["It is a", last]), QUESTION, threading.Event()).text
        == "It is a list."
    )


def test_usage_in_two_parts_adds_up(kind: type[Scripted]) -> None:
    first = {
        "content": "",
        "usage_metadata": {
            "input_tokens": 9,
            "output_tokens": 0,
            "total_tokens": 9,
            "input_token_details": {"cache_read": 4},
        },
    }
    last = {
        "content": "",
        "usage_metadata": {"input_tokens": 0, "output_tokens": 5, "total_tokens": 5},
    }
    answer = read_answer(kind(script=[first, "Yes.", last]), QUESTION, threading.Event())
    assert answer.usage is not None
    assert (
        answer.usage.input_tokens,
        answer.usage.output_tokens,
        answer.usage.cache_read_tokens,
    ) == (9, 5, 4)
    assert answer.usage.cost is None


@pytest.mark.parametrize(
    "metadata",
    [{"stop_reason": "max_tokens"}, {"finish_reason": "length"}, {"done_reason": "length"}],
)
def test_answer_at_the_token_limit_is_cut(kind: type[Scripted], metadata: dict[str, str]) -> None:
    answer = read_answer(
        kind(script=["It is", {"content": "", "response_metadata": metadata}]),
        QUESTION,
        threading.Event(),
    )
    assert answer.cut
    assert not answer.ended


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModelError("Not logged in."), "Not logged in."),
        (RuntimeError("no\nway"), "The model could not answer: RuntimeError: no way."),
        (ConnectionError("reset"), "The service cannot be reached: reset."),
    ],
)
def test_partial_answer_survives_a_failure(
    kind: type[Scripted], error: Exception, sentence: str
) -> None:
    answer = read_answer(kind(script=["Half", fail(error)]), QUESTION, threading.Event())
    assert (answer.text, answer.failure, answer.ended) == ("Half", sentence, False)


def test_failure_caused_by_a_stop_is_not_a_failure(kind: type[Scripted]) -> None:
    cancelled = threading.Event()
    model = kind(script=["Half", lambda: cancelled.wait(PATIENCE), fail(ConnectionError("closed"))])
    answer = read_answer(model, QUESTION, cancelled, on_token=lambda token: cancelled.set())
    assert (answer.text, answer.stopped, answer.failure) == ("Half", True, "")


def test_model_is_not_asked_once_the_turn_is_cancelled(kind: type[Scripted]) -> None:
    cancelled = threading.Event()
    cancelled.set()
    model = kind(script=["Yes."])
    assert read_answer(model, QUESTION, cancelled).stopped
    assert model._asked == 0


def test_stop_before_the_answer_still_applies() -> None:
    cancelled = threading.Event()
    model = Stopped(
        script=[
            cancelled.set,
            "one",
            "two",
            {"content": "", "response_metadata": {"cost_usd": 0.5}},
        ]
    )
    answer = read_answer(model, QUESTION, cancelled)
    assert model._stops == 1
    assert answer.text == ""
    assert answer.usage is not None
    assert answer.usage.cost == 0.5, "what was stopped has cost something"


def test_unstoppable_silent_model_is_abandoned() -> None:
    cancelled, release, ended = threading.Event(), threading.Event(), threading.Event()
    model = Scripted(script=["Well", lambda: release.wait(PATIENCE), ended.set, "too late"])
    answer = read_answer(model, QUESTION, cancelled, on_token=lambda token: cancelled.set())
    assert (answer.text, answer.stopped) == ("Well", True)
    assert not ended.is_set()
    release.set()


def test_text_can_always_be_sent() -> None:
    assert (
        make_encodable("half \ud83c and \udf19, whole \ud83c\udf19 and 🌙")
        == "half \ufffd and \ufffd, whole 🌙 and 🌙"
    )
    answer = read_answer(
        Scripted(script=["\ud83c", "\udf19", "\ud800"]), QUESTION, threading.Event()
    )
    assert answer.text == "🌙\ufffd"


class Priced(Scripted):
    """One whose prices are known."""

    model: str = "gpt-4o"
    priced_as: str = "openai"


def test_missing_usage_of_a_priced_model_is_estimated() -> None:
    usage = read_answer(Priced(script=["It is."]), QUESTION, threading.Event()).usage
    assert usage is not None
    assert usage.estimated
    assert usage.cost is not None
    assert usage.cost > 0


def test_stop_before_the_first_token_costs_the_input() -> None:
    cancelled = threading.Event()
    usage = read_answer(Priced(script=["", cancelled.set, ""]), QUESTION, cancelled).usage
    assert usage is not None
    assert usage.input_tokens > 0
    cancelled = threading.Event()
    cancelled.set()
    assert read_answer(Priced(script=["It"]), QUESTION, cancelled).usage is None, "it was not asked"
    assert (
        read_answer(Priced(script=[fail(ModelError("No."))]), QUESTION, threading.Event()).usage
        is None
    ), "it did not answer"
