"""Limits of a search, consent to its fan-outs, and its answer when a limit is reached."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.ledger import Amount, BudgetLeft, OverBudget
from mahtab_tui.llm.search_prompt_words import LAST_CALL
from mahtab_tui.search.api import SearchOptions, rlm
from mahtab_tui.search.estimates import Estimates
from mahtab_tui.search.limits import SearchDeadline, SearchLimits, merge_limits
from mahtab_tui.settings.model import load_settings
from mahtab_tui.worker.rlm.search import rlm as rlm_of_kernels
from tests import tags
from tests.recursion_scripts import (
    TEXT,
    Messages,
    ScriptedModel,
    ScriptedSearches,
    TurnAccess,
    code,
    is_plain,
    query_of,
    replies,
)
from tests.waiting import wait_for

# Limits, what is left of them, and estimates of costs.

LEAST = {"max_turns": 1, "max_depth": 0, "max_calls": 1, "max_tokens": 1, "concurrency": 1}

TREE = {"what?": [code("look"), code("thirds")], "third": [code("look"), code("halves")]}
REPLY = replies({**TREE, "half": "read"})

WHOLE = 14

ASK_ABOVE = 50
WORK = replies({"what?": code("work"), "part": "read"})


@pytest.mark.parametrize(
    ("name", "least"), [*LEAST.items(), ("small", 0), ("plain", 1), ("ask_above", 0)], ids=str
)
def test_minimum_of_each_limit_is_accepted_and_nothing_below_it(name: str, least: int) -> None:
    assert getattr(merge_limits({name: 9}, **{name: least}), name) == least
    with pytest.raises(ValueError, match=f"{name} must be at least {least}, not {least - 1}."):
        merge_limits(**{name: least - 1})


@pytest.mark.parametrize(
    ("name", "value", "requirement"),
    [
        *(("max_calls", value, "a whole number") for value in (True, 1.5, "2", [3])),
        *(("max_usd", value, "more than 0") for value in (0, -1, float("nan"))),
        ("max_seconds", True, "a number"),
        ("plain", 1.5, "a whole number"),
    ],
)
def test_limits_of_a_wrong_type_or_size_are_refused(
    name: str, value: object, requirement: str
) -> None:
    with pytest.raises(
        ValueError, match=rf"^{name} must be {requirement}, not {re.escape(repr(value))}\.$"
    ):
        merge_limits(**{name: value})
    with pytest.raises(ValueError, match=r"^There is no limit 'max_turn'\.$"):
        merge_limits(max_turn=3)
    assert merge_limits(max_usd=0.001, max_seconds=1) == SearchLimits(max_usd=0.001, max_seconds=1)


@pytest.mark.parametrize(
    ("depth", "chars", "plain"),
    [(0, 100, True), (0, 101, False), (2, 101, False), (3, 101, True), (4, 101, True)],
)
def test_a_short_text_and_the_deepest_call_run_no_code(depth: int, chars: int, plain: bool) -> None:
    assert SearchLimits(max_depth=3, small=100).is_plain(depth, chars) is plain


def test_limit_may_be_reached_but_not_exceeded() -> None:
    ledger = SearchLimits(max_calls=1, max_tokens=10, max_usd=0.5).open_ledger()
    ledger.check(Amount(1, 10, 0.5))
    for amount, limit in (
        (Amount(2), "1 model call for"),
        (Amount(tokens=11), "10 tokens"),
        (Amount(usd=0.51), r"\$0\.50"),
    ):
        with pytest.raises(OverBudget, match=limit):
            ledger.reserve(amount)
    assert ledger.remaining() == BudgetLeft(calls=1, tokens=10, usd=0.5)


def test_exceeded_limit_leaves_nothing() -> None:
    ledger = SearchLimits(max_calls=2, max_tokens=10, max_usd=0.5).open_ledger()
    for _ in range(3):
        ledger.count(Usage(input_tokens=3, output_tokens=1, cost=0.25))
    assert ledger.remaining() == BudgetLeft(calls=0, tokens=0, usd=0.0)
    assert ledger.usd_left == -0.25
    assert SearchLimits(max_calls=None).open_ledger().remaining() == BudgetLeft(
        calls=None, tokens=None, usd=None
    )


def test_remaining_dollars_may_be_used_up() -> None:
    ledger = SearchLimits(max_usd=0.5).open_ledger()
    ledger.count(Usage(cost=0.25))
    ledger.check_usd(0.25)
    with pytest.raises(OverBudget, match=r"\$0\.50"):
        ledger.check_usd(0.26)
    SearchLimits().open_ledger().check_usd(1e9)


def test_an_unknown_price_ends_a_limit_in_dollars_only() -> None:
    call_ledger = SearchLimits(max_calls=9).open_ledger()
    dollar_ledger = SearchLimits(max_usd=1.0).open_ledger()
    for ledger in (call_ledger, dollar_ledger):
        ledger.count(Usage())
    call_ledger.reserve(Amount(1))
    with pytest.raises(OverBudget, match="did not report its price"):
        dollar_ledger.reserve(Amount(1))


def test_prices_weight_output_and_remember_the_highest_rate() -> None:
    estimates = Estimates((1e-6, 5e-6))
    assert estimates.estimate(4_000).usd == pytest.approx(1_000 * 1e-6 + 600 * 5e-6)
    estimates.add_call(1_000, 100, 0.3)
    estimates.add_call(1_000, 300, None)
    estimates.add_call(1_000, 100, 0.1)
    dearest = (1_000 + 5 * 300) * 0.3 / (1_000 + 5 * 100)
    assert estimates.max_usd(4_000, remaining_usd=1.0) == pytest.approx(2 * dearest)
    assert estimates.max_usd(4_000, remaining_usd=60.0) == 10.0, (
        "three calls allow for six at a time"
    )
    usd_per_weighted_token = 0.4 / (2 * (1_000 + 5 * 100))
    estimate = estimates.estimate(4_000, calls=3)
    assert estimate[:2] == (3, 1_000 + 3 * 166)
    assert estimate.usd == pytest.approx((1_000 + 5 * 3 * 166) * usd_per_weighted_token)
    assert Estimates((0.0, 0.0)).estimate(4_000).usd == 0.0
    assert Estimates((0.0, 1e-5)).estimate(4_000).usd == pytest.approx(600 * 1e-5)
    assert Estimates((1e-6, 5e-6)).max_usd(4_000, remaining_usd=1.0) == math.inf


async def look(access: TurnAccess) -> None:
    access.print(len(access.text))


async def thirds(access: TurnAccess) -> None:
    access.final("|".join(await access.rlm("third", *access.partition(3))))


async def halves(access: TurnAccess) -> None:
    access.final("+".join(await access.rlm("half", *access.partition(2))))


TURNS = (look, thirds, halves)


def test_a_budget_is_reserved_before_it_is_spent() -> None:
    ledger = SearchLimits(max_calls=3, max_tokens=100).open_ledger()
    reserved = Amount(2, 80)
    ledger.reserve(reserved)
    with pytest.raises(OverBudget, match="100 tokens"):
        ledger.reserve(Amount(1, 30))
    ledger.reserve(Amount(1, 20))
    with pytest.raises(OverBudget, match="3 model calls"):
        ledger.reserve(Amount(1, 0))
    ledger.release(reserved)
    ledger.count(Usage(input_tokens=7, output_tokens=3, cost=0.0))
    ledger.count_failure()
    assert ledger.remaining() == BudgetLeft(calls=0, tokens=70)


def test_some_time_is_reserved_for_the_last_call() -> None:
    assert SearchDeadline.after(None, 5.0) == (None, None)
    assert SearchDeadline.after(10.0, 5.0) == (13.0, 15.0)
    assert SearchDeadline.after(1_000.0, 0.0) == (970.0, 1_000.0)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("max_calls", range(WHOLE + 6))
def test_a_budget_of_calls_ends_the_tree_at_any_point(
    searches: ScriptedSearches, max_calls: int, concurrency: int
) -> None:
    result = searches.run(REPLY, *TURNS, max_depth=2, max_calls=max_calls, concurrency=concurrency)
    assert result.usage.calls <= max_calls
    assert len(searches.events.finals()) == len(searches.events.begun())
    if max_calls < 2:
        assert result.state == "error"
        assert f"{max_calls} model call" in result.text
    elif max_calls == 2:
        assert (result.text, result.state) == ("the best there is", "partial")
    else:
        assert result.state in ("done", "partial")
    if max_calls >= WHOLE + 4:  # each of four keeps one back
        assert (result.text, result.usage.calls) == ("|".join(["read+read"] * 3), WHOLE)


@pytest.mark.parametrize("max_tokens", range(0, 60_000, 3_000))
def test_a_budget_of_tokens_ends_the_tree_at_any_point(
    searches: ScriptedSearches, max_tokens: int
) -> None:
    result = searches.run(REPLY, *TURNS, max_depth=2, max_tokens=max_tokens)
    assert result.usage.input_tokens + result.usage.output_tokens <= max_tokens
    assert len(searches.events.finals()) == len(searches.events.begun())


@pytest.mark.parametrize("cents", range(0, 30, 2))
def test_a_budget_of_dollars_ends_the_tree_at_any_point(
    searches: ScriptedSearches, cents: int
) -> None:
    """A call costs a cent, which is known after the first; estimates may be wrong by one call."""
    result = searches.run(REPLY, *TURNS, max_depth=2, max_usd=cents / 100)
    assert result.usage.cost <= cents / 100 + 0.011 * (cents > 0)
    assert len(searches.events.finals()) == len(searches.events.begun())


def test_model_sees_the_remaining_budget(searches: ScriptedSearches) -> None:
    prompts: list[str] = []

    def reply(messages: Messages) -> str:
        prompts.append(str(messages[-1].content))
        return code("look")

    searches.run(reply, look, max_calls=5, max_seconds=1_000, max_turns=2)
    assert "Left: 2 turns, 4 model calls, 970 s" in prompts[0]
    assert "Left: 1 turn, 3 model calls" in prompts[1]
    assert LAST_CALL in prompts[2]


def test_model_sees_what_its_sub_calls_have_left(searches: ScriptedSearches) -> None:
    async def ask_twice(access: TurnAccess) -> None:
        access.print(await access.llm("half", "one"), await access.llm("half", "two"))

    prompts: list[str] = []

    def reply(messages: Messages) -> str:
        if query_of(messages) == "half":
            return "read"
        prompts.append(str(messages[-1].content))
        return code("ask_twice")

    searches.run(reply, ask_twice, max_depth=1, max_calls=9, max_turns=3)
    assert "8 model calls" in prompts[0]
    assert "5 model calls" in prompts[1]


def test_no_answer_remains_after_all_time_is_used(searches: ScriptedSearches) -> None:
    async def reply(messages: Messages) -> str:
        await asyncio.Event().wait()
        return ""

    result = searches.run(reply, *TURNS, max_seconds=0.2)
    assert result.text == "The time for the search is up, and there is no answer."
    assert result.state == "error"


def test_dollar_limit_ends_at_the_first_call_of_unknown_price(searches: ScriptedSearches) -> None:
    result = searches.run(ScriptedModel(reply=REPLY, cost=None), *TURNS, max_usd=1)
    assert (result.state, result.usage.calls) == ("partial", 2)


def test_input_of_a_stopped_call_is_counted(searches: ScriptedSearches) -> None:
    async def stop_one(access: TurnAccess) -> None:
        asking = asyncio.ensure_future(access.llm("third"))
        while not searches.events.calls("turn", "1.1"):
            await asyncio.sleep(0.001)
        searches.stop("1.1")
        access.print(await asking)

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "third":
            await asyncio.Event().wait()
        return code("look" if len(messages) > 2 else "stop_one")

    result = searches.run(reply, stop_one, look, max_calls=4)
    assert (result.state, result.usage.calls) == ("partial", 4)
    (guessed,) = (record.attrs for record in searches.events.of(tags.USAGE, "1.1"))
    assert guessed["estimated"], "the session counts it, too"
    assert min(guessed["input_tokens"], guessed["output_tokens"]) > 0


def test_failed_calls_are_counted(searches: ScriptedSearches) -> None:
    call_count = 0

    async def insist(access: TurnAccess) -> None:
        for number in range(100):
            latest_answer = await access.llm(f"try {number}")
        access.final(latest_answer)

    def reply(messages: Messages) -> str:
        nonlocal call_count
        call_count += 1
        if query_of(messages) == "what?":
            return code("insist")
        raise ValueError("no such model")

    result = searches.run(reply, insist, max_calls=10)
    assert "10 model calls" in result.text
    assert call_count == 9, "one is kept for the last call"


def test_a_fan_out_above_the_limit_needs_consent(searches: ScriptedSearches) -> None:
    async def many(access: TurnAccess) -> None:
        access.print(await access.rlm("half", *access.partition(20)))
        access.final("enough")

    reply = replies({"what?": [code("many"), code("many")], "half": "read"})
    ask = partial(searches.run, reply, many, max_depth=1)
    assert ask(ask_above=19).text == "enough"
    consent_requests = searches.events.calls("fan-out")
    assert [record.attrs["state"] for record in consent_requests] == ["waiting", "run"]
    estimate = consent_requests[0].attrs
    assert estimate["calls"] == 20
    assert estimate["tokens"] > len(TEXT) // 4
    assert estimate["usd"] > 0
    assert estimate["batch"] == searches.events.calls("begin", "1.1")[0].attrs["batch"]

    searches.events.clear()
    assert ask(asking="refuse", ask_above=10, max_turns=1).state == "partial"
    refusal = searches.events.of(tags.RLM_REPL_OUT)[0].text
    assert "20 parts at once were not allowed. 0 sub-calls have been made" in refusal
    assert searches.events.begun() == ["1"]

    assert ask(asking="refuse", ask_above=20).text == "enough"


def test_a_refusal_counts_a_single_sub_call_in_the_singular(searches: ScriptedSearches) -> None:
    async def twice(access: TurnAccess) -> None:
        await access.rlm("half", *access.partition(1))
        await access.rlm("half", *access.partition(2))

    reply = replies({"what?": code("twice"), "half": "read"})
    searches.run(reply, twice, max_depth=1, asking="refuse", ask_above=1, max_turns=1)
    assert "1 sub-call has been made, and" in searches.events.of(tags.RLM_REPL_OUT)[0].text


def test_missing_limits_default_to_the_settings() -> None:
    merged = merge_limits({"max_turns": 3, "small": 7}, small=0, max_calls=None)
    assert merged == SearchLimits(max_turns=3, small=0)
    assert merge_limits(max_turns=None) == SearchLimits()


# Consent and limits count for the whole search, however its code makes its sub-calls.


async def threads(access: TurnAccess) -> int:
    answers = await asyncio.gather(
        *(access.llm("part", str(number)) for number in range(1_000)), return_exceptions=True
    )
    return sum(isinstance(answer, str) and not answer.startswith("[failed") for answer in answers)


async def one_by_one(access: TurnAccess) -> int:
    answered = 0
    for number in range(200):
        with contextlib.suppress(Exception):
            answered += not (await access.llm("part", str(number))).startswith("[failed")
    return answered


async def fan_outs(access: TurnAccess) -> int:
    answered = 0
    for number in range(60):
        with contextlib.suppress(Exception):
            sub_answers = await access.rlm(
                "part", *(f"{number} {part}" for part in range(ASK_ABOVE))
            )
            answered += sum(not answer.startswith("[failed") for answer in sub_answers)
    return answered


@pytest.mark.parametrize("spread", [threads, one_by_one, fan_outs])
def test_search_without_consent_stops_at_the_sub_call_limit(
    searches: ScriptedSearches, spread: Callable[[TurnAccess], Awaitable[int]]
) -> None:
    async def work(access: TurnAccess) -> None:
        access.final(str(await spread(access)))

    result = searches.run(WORK, work, text="text", asking="refuse", max_depth=1, max_calls=None)
    assert result.text == str(ASK_ABOVE)
    assert len(searches.events.begun()) == ASK_ABOVE + 1
    consent_requests = searches.events.calls("fan-out", state="waiting")
    assert len(consent_requests) == 1, "one turn's code is refused once"


def test_calls_of_all_depths_share_one_count(searches: ScriptedSearches) -> None:
    async def split(access: TurnAccess) -> None:
        access.final(",".join(await access.rlm("deeper", *access.partition(3))))

    def reply(messages: Messages) -> str:
        return "read" if is_plain(messages) else code("split")

    searches.run(reply, split, text="text " * 100, asking="refuse", ask_above=10)
    assert len(searches.events.begun()) <= 11
    assert searches.events.calls("fan-out", state="refused")


def test_consent_allows_the_same_number_again_one_question_at_a_time(
    searches: ScriptedSearches,
) -> None:
    async def work(access: TurnAccess) -> None:
        access.final(str(await threads(access)))

    running = searches.start(WORK, work, max_depth=1, ask_above=100, max_calls=None)
    waiting = partial(searches.events.calls, "fan-out", state="waiting")
    call_counts: list[int] = []
    while not running.done():
        wait_for(lambda: running.done() or len(waiting()) > len(call_counts))
        if len(waiting()) > len(call_counts):
            assert len(waiting()) == len(call_counts) + 1
            call_counts.append(waiting()[-1].attrs["made"])
            searches.running.answer(waiting()[-1].attrs["request"], True)
    assert running.result().text == "1000"
    assert call_counts == [100, 202, 406, 814]


def test_default_search_makes_200_model_calls(searches: ScriptedSearches) -> None:
    async def work(access: TurnAccess) -> None:
        access.final(str(await fan_outs(access)))

    result = searches.run(WORK, work, text="text", max_depth=1)
    assert result.usage.calls <= 200
    for limits in (SearchLimits(), merge_limits(), merge_limits(load_settings().rlm_limits())):
        assert (limits.max_calls, limits.max_depth) == (200, 1)
    assert len(searches.events.begun()) <= 202, "what would come to nothing makes no node"


def test_rlm_shows_the_options_of_kernels_and_its_own() -> None:
    own_options = {"log", "on_event", "searcher"}
    parameters, in_kernels = (
        inspect.signature(function).parameters for function in (rlm, rlm_of_kernels)
    )
    assert parameters.keys() == in_kernels.keys() | own_options
    assert [*parameters][:2] == ["query", "context"]
    assert "ModelSpec" in str(parameters["model"])
    help_text = inspect.getdoc(rlm) or ""
    assert "max_calls (200)" in help_text
    assert "on_event: called with every event" in help_text
    for name, parameter in in_kernels.items():
        assert parameters[name].default == parameter.default, name
        if name not in ("model", "sub_model"):  # in kernels, these are names only
            assert parameters[name].annotation == parameter.annotation, name


def test_searcher_takes_the_options_of_rlm() -> None:
    assert rlm.__kwdefaults__ is not None
    names = {*SearchOptions.__annotations__, "model", "sub_model"}
    assert names == rlm.__kwdefaults__.keys() - {"searcher"}
    parameters = inspect.signature(rlm).parameters
    assert parameters.keys() >= rlm.__kwdefaults__.keys()
    for name, option in SearchOptions.__annotations__.items():
        assert option.__forward_arg__ == parameters[name].annotation, name
