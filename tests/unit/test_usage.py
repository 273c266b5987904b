"""Usage and cost: of a call, of a session with a limit, and the estimate of tokens."""

from __future__ import annotations

import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.records import SearchBegin, Usage
from mahtab_tui.llm.context_window import context_window
from mahtab_tui.llm.demo import ChatDemo
from mahtab_tui.llm.ledger import OverBudget
from mahtab_tui.llm.loop_choice import choose_loop
from mahtab_tui.llm.prices import (
    EXPENSIVE_USD_PER_TOKEN,
    is_priced,
    price,
    usd_per_token,
    worst_cost,
)
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.session_ledger import SessionLedger
from mahtab_tui.llm.token_estimates import estimate_message_tokens, estimated_tokens
from mahtab_tui.llm.usage import reported_usage
from mahtab_tui.settings.model import LoopMode

# Reported cost of a call.


def reported_cost(**cost: Any) -> float | None:
    counts: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage = reported_usage(ChatDemo(), counts, {"model_name": "gpt-4o", **cost})
    assert usage is not None
    return usage.cost


def test_cost_reported_by_the_transport_overrides_the_tables() -> None:
    assert reported_cost(cost_usd=0.25) == 0.25
    assert reported_usage(ChatDemo(), None, {"model_name": "x"}) is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-20250514"),
        ("openai", "anthropic/claude-sonnet-4"),
        ("https://api.deepseek.com/v1", "deepseek-chat"),
    ],
)
def test_known_prices(provider: str, model: str) -> None:
    single_price = price(provider, model, 1_000, 100)
    double_price = price(provider, model, 2_000, 200)
    assert single_price is not None
    assert single_price > 0
    assert double_price == pytest.approx(2 * single_price)


def test_tokens_from_the_cache_cost_less() -> None:
    model = ("anthropic", "claude-sonnet-4-20250514")
    cached = price(*model, 10_000, 0, cache_read_tokens=9_000)
    assert (cached or 0) < (price(*model, 10_000, 0) or 0)


def test_unknown_prices_are_none_and_local_ones_zero() -> None:
    assert price("openai", "our-own-model", 1, 1) is None
    assert price("", "", 1, 1) is None
    assert price("anthropic", "claude-sonnet-4-20250514", 1, 1, cache_read_tokens=5) is None
    addresses = ("http://localhost:8090/v1", "http://127.0.0.2:1/v1", "http://[::1]/v1")
    for provider in ("local", "ollama", *addresses):
        assert price(provider, "gpt-4o", 1_000, 1_000) == 0.0
    assert price("http://127.example/v1", "gpt-4o", 1_000, 1_000) is None


@pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0, "0.5", True, [1]])
def test_cost_that_cannot_be_summed_is_looked_up(cost: object) -> None:
    assert reported_cost(cost=cost) == 0, "it runs here"


def test_model_facts_come_from_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    known_model = get_llm("openai:gpt-4o")
    unknown_model = get_llm("openai:our-own")
    assert context_window(known_model) == 128_000
    read, written = usd_per_token(known_model)
    assert read == pytest.approx((price("openai", "gpt-4o", 1_000, 0) or 0) / 1_000)
    assert 0 < read < written
    assert (context_window(unknown_model), context_window(ChatDemo())) == (None, None)
    assert usd_per_token(unknown_model) == EXPENSIVE_USD_PER_TOKEN, "for estimates"
    priced = [
        is_priced(llm)
        for llm in (known_model, unknown_model, ChatDemo(), get_llm("claude:our-own"))
    ]
    assert priced == [True, False, True, True]


# Usage of a session, which never costs more than its limit.


def call(cost: float | None, **fields: Any) -> Usage:
    return Usage(model="m", input_tokens=1_000, output_tokens=10, cost=cost, **fields)


def ask(spending: SessionLedger, worst: float | None) -> None:
    with spending.within_limit("m", lambda: worst):
        pass


def refuse(spending: SessionLedger, worst: float | None, sentence: str) -> OverBudget:
    with pytest.raises(OverBudget, match=sentence) as refused:
        ask(spending, worst)
    return refused.value


def test_usage_is_shown_for_the_session_each_question_and_each_search() -> None:
    spending = SessionLedger(lambda: 2.0)
    cached = {"cache_read_tokens": 400, "cache_creation_tokens": 7}
    spending.fold(call(0.25, turn=1, source="agent", **cached))
    spending.fold(call(0.25, turn=1, source="reflection"))
    spending.name_question(1, "Why \x1b[2Jis\nit so very slow?")
    spending.fold(call(0.125, tree="a1", turn=4, source="rlm", node="1"))
    query = "Which \x1b[2Jlines are\nslow, and why is that?"
    spending.name_search(SearchBegin(query, tree="a1", node="1"))
    spending.name_search(SearchBegin("a part of it", tree="a1", node="1.1"))
    spending.fold(call(None, source="summary"))
    rows = [" ".join(line.split()) for line in spending.table(78).split("\n")]
    assert rows[1:4] == [
        "session 4 4,000 400 40 $0.6250+",
        "question 1 Why is it so … 2 2,000 400 20 $0.5000",
        "search Which lines are s… 1 1,000 0 10 $0.1250",
    ]
    assert spending.total.cache_creation_tokens == 7
    assert spending.table().endswith("The session's limit is $2.00 (max_usd); $1.3750 is left.")


def test_prices_are_not_needed_without_a_limit() -> None:
    with SessionLedger().within_limit("m", lambda: pytest.fail("asked")):
        pass


def test_reserved_cost_counts_until_it_is_spent() -> None:
    spending = SessionLedger(lambda: 1.0)
    sentence = r"could cost up to \$0\.6000, and \$0\.4000 of the session's limit of \$1\.00"
    with spending.within_limit("m", lambda: 0.6):
        assert refuse(spending, 0.6, sentence).later, "the first may cost less"
        spending.count(call(0.1))
    ask(spending, 0.6)
    spending.count(call(0.5))
    assert not refuse(spending, 0.6, "is left").later


def test_unknown_price_of_a_model_or_an_earlier_call_blocks_a_call() -> None:
    spending = SessionLedger(lambda: 1.0)
    unknown = refuse(spending, None, r"The price of m is unknown, so the limit of \$1\.00")
    spending.count(call(None))
    unreported = refuse(spending, 0.1, "A call of m did not report its price")
    assert not unknown.later, "waiting does not help"
    assert not unreported.later, "waiting does not help"


def test_changed_limit_applies_from_the_next_call_on() -> None:
    limits: list[float | None] = [None]
    spending = SessionLedger(lambda: limits[0])
    spending.count(call(None))
    limits[0] = 1.0
    ask(spending, 0.1)
    limits[0] = 0.1
    refuse(spending, 0.2, "is left")
    limits[0] = None
    ask(spending, 0.2)


def test_many_threads_together_never_pass_the_limit() -> None:
    spending = SessionLedger(lambda: 1.0)
    costs: list[float] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(200):
            worst = chance.random() / 5
            try:
                with spending.within_limit("m", lambda worst=worst: worst):  # type: ignore[misc]
                    cost = worst * chance.random()
                    spending.count(call(cost))
                    costs.append(cost)
            except OverBudget:
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 0.5 < sum(costs) <= 1.0
    assert spending.total.cost == pytest.approx(sum(costs))


def test_worst_cost_assumes_the_longest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    messages = ["x" * 3_000, "größer " * 100]
    read = estimate_message_tokens(messages)
    for max_tokens, written in ((1_000, 1_000), (None, 32_000)):
        worst = worst_cost(get_llm("openai:gpt-4o", max_tokens=max_tokens), messages)
        assert worst == price("openai", "gpt-4o", read, written)
    assert worst_cost(get_llm("openai:our-own"), messages) is None
    assert worst_cost(get_llm("openai:our-own", base_url="http://localhost:1/v1"), messages) == 0.0
    assert worst_cost(ChatDemo(), messages) == 0.0


# The estimate of tokens, compared with what tokenizers have counted for recorded requests.

REQUESTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "token_counts.json").read_text("utf-8")
)


@pytest.mark.parametrize("tokenizer", ["o200k", "cl100k"])
@pytest.mark.parametrize("name", REQUESTS)
def test_estimate_is_within_a_tenth_of_the_known_count(name: str, tokenizer: str) -> None:
    counted = REQUESTS[name]["tokens"][tokenizer]
    assert abs(estimated_tokens(REQUESTS[name]["messages"]) / counted - 1) <= 0.1


def test_any_text_has_an_estimate() -> None:
    assert estimated_tokens([]) == 0
    assert estimated_tokens([""]) < 10
    for text in ("\x00\ud800" * 100, "٣" * 100, "-" * 100_000, " \n" * 50_000, "x" * 100_000):
        assert estimated_tokens([text]) > 0


class SizedModel(ChatDemo):
    """A model with a name, whose server may say how many parameters it has."""

    model: str = ""
    parameters: int | None = None


@pytest.mark.parametrize(
    ("name", "parameters", "small"),
    [
        ("qwen2.5-coder:1.5b", None, True),
        ("Mistral-7B-Instruct", None, True),
        ("llama-3.1-70b", None, False),
        ("qwen3-30b-a3b", None, False),
        ("gpt-4o", None, False),
        ("claude-sonnet-4", None, False),
        ("coder", 1_543_714_304, True),
        ("coder-1b", 70_000_000_000, False),
    ],
)
def test_small_models_are_known_by_their_server_or_their_name(
    name: str, parameters: int | None, small: bool
) -> None:
    choice = choose_loop(SizedModel(model=name, parameters=parameters), "auto")
    assert choice.loop == ("single" if small else "steps")


@pytest.mark.parametrize(
    ("name", "parameters", "setting", "reason"),
    [
        ("coder:1.5b", None, "auto", "it has 1.5 billion parameters, as its name says"),
        ("coder", 1_543_714_304, "auto", "it has 1.54 billion parameters, as its server says"),
        ("gpt-4o", None, "auto", "its size is not known"),
        ("coder:1.5b", None, "steps", "the setting loop is steps"),
    ],
)
def test_the_choice_of_a_loop_says_why(
    name: str, parameters: int | None, setting: LoopMode, reason: str
) -> None:
    model = SizedModel(model=name, parameters=parameters)
    assert choose_loop(model, setting).reason == reason
