"""Usage and cost: of a call, of a session with a limit, and the estimate of tokens."""

from __future__ import annotations

import json
import math
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.records import SearchBegin, Usage
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.scripted import ChatDemo
from mahtab_tui.llm.usage import (
    OverBudget,
    Spending,
    context_window,
    estimate_message_tokens,
    estimated_tokens,
    is_priced,
    price,
    reported_usage,
    usd_per_token,
    worst_cost,
)

# Reported cost of a model's call.


def test_no_reported_usage_is_none() -> None:
    assert reported_usage(ChatDemo(), None, {"model_name": "x"}) is None


def test_cost_reported_by_the_transport_overrides_the_tables() -> None:
    used = reported_usage(
        ChatDemo(),
        {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        {"model_name": "gpt-4o", "cost_usd": 0.25},
    )
    assert used is not None
    assert used.cost == 0.25


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
    one, two = price(provider, model, 1_000, 100), price(provider, model, 2_000, 200)
    assert one is not None
    assert one > 0
    assert two == pytest.approx(2 * one)


def test_tokens_from_the_cache_cost_less() -> None:
    model = ("anthropic", "claude-sonnet-4-20250514")
    assert (price(*model, 10_000, 0, cache_read_tokens=9_000) or 0) < (
        price(*model, 10_000, 0) or 0
    )


def test_unknown_prices_are_none_and_local_ones_zero() -> None:
    assert price("openai", "our-own-model", 1, 1) is None
    assert price("", "", 1, 1) is None
    assert price("anthropic", "claude-sonnet-4-20250514", 1, 1, cache_read_tokens=5) is None
    for provider in (
        "local",
        "ollama",
        "http://localhost:8090/v1",
        "http://127.0.0.2:1/v1",
        "http://[::1]/v1",
    ):
        assert price(provider, "gpt-4o", 1_000, 1_000) == 0.0
    assert price("http://127.example/v1", "gpt-4o", 1_000, 1_000) is None


@pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0, "0.5", True, [1]])
def test_cost_that_cannot_be_summed_is_looked_up(cost: object) -> None:
    model = ChatDemo()
    used = reported_usage(
        model,
        {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        {"model_name": "gpt-4o", "cost": cost},
    )
    assert used is not None
    assert used.cost == 0, "it runs here"


def test_model_facts_come_from_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    known, unknown = get_llm("openai:gpt-4o"), get_llm("openai:our-own")
    assert context_window(known) == 128_000
    read, written = usd_per_token(known)
    assert read == pytest.approx((price("openai", "gpt-4o", 1_000, 0) or 0) / 1_000)
    assert 0 < read < written
    assert (context_window(unknown), context_window(ChatDemo())) == (None, None)
    assert 0 < usd_per_token(unknown)[0] < usd_per_token(unknown)[1], (
        "a dear model's, for estimates"
    )
    priced = get_llm("claude:our-own")
    assert [is_priced(llm) for llm in (known, unknown, ChatDemo(), priced)] == [
        True,
        False,
        True,
        True,
    ]


# Usage of a session, which never costs more than it may.


def call(cost: float | None, **more: Any) -> Usage:
    return Usage(model="m", input_tokens=1_000, output_tokens=10, cost=cost, **more)


def test_usage_is_shown_for_the_session_each_question_and_each_search() -> None:
    spending = Spending(lambda: 2.0)
    spending.fold(
        call(0.25, turn=1, source="agent", cache_read_tokens=400, cache_creation_tokens=7)
    )
    spending.fold(call(0.25, turn=1, source="reflection"))
    spending.name_question(1, "Why \x1b[2Jis\nit so very slow?")
    spending.fold(call(0.125, tree="a1", turn=4, source="rlm", node="1"))
    spending.name(
        SearchBegin("Which \x1b[2Jlines are\nslow, and why is that?", tree="a1", node="1")
    )
    spending.name(SearchBegin("a part of it", tree="a1", node="1.1"))
    spending.fold(call(None, source="summary"))
    rows = [line.split() for line in spending.table(78).split("\n")]
    assert rows[1:4] == [
        ["session", "4", "4,000", "400", "40", "$0.6250+"],
        ["question", "1", "Why", "is", "it", "so", "…", "2", "2,000", "400", "20", "$0.5000"],
        ["search", "Which", "lines", "are", "s…", "1", "1,000", "0", "10", "$0.1250"],
    ]
    assert spending.total.cache_creation_tokens == 7
    assert spending.table().endswith("The session's limit is $2.00 (max_usd); $1.3750 is left.")


def test_prices_are_not_needed_without_a_limit() -> None:
    with Spending().within_limit("m", lambda: pytest.fail("asked")):
        pass


def test_reserved_cost_counts_until_it_is_spent() -> None:
    spending = Spending(lambda: 1.0)
    with spending.within_limit("m", lambda: 0.6):
        with (
            pytest.raises(
                OverBudget,
                match=r"could cost up to \$0\.6000, and \$0\.4000 of the session's limit of \$1\.00",
            ) as refused,
            spending.within_limit("m", lambda: 0.6),
        ):
            pass
        assert refused.value.later, "the first may come to less"
        spending.count(call(0.1))
    with spending.within_limit("m", lambda: 0.6):
        pass
    spending.count(call(0.5))
    with pytest.raises(OverBudget) as refused, spending.within_limit("m", lambda: 0.6):
        pass
    assert not refused.value.later


def test_a_model_of_unknown_price_is_refused() -> None:
    with (
        pytest.raises(
            OverBudget, match=r"The price of our-own is unknown, so the limit of \$1\.00"
        ) as refused,
        Spending(lambda: 1.0).within_limit("our-own", lambda: None),
    ):
        pass
    assert not refused.value.later, "waiting does not help"


def test_call_without_a_reported_price_blocks_all_later_ones() -> None:
    spending = Spending(lambda: 1.0)
    spending.count(call(None))
    with (
        pytest.raises(OverBudget, match="A call of m did not report its price") as refused,
        spending.within_limit("m", lambda: 0.1),
    ):
        pass
    assert not refused.value.later, "waiting does not help"


def test_call_without_a_price_before_the_limit_blocks_none() -> None:
    limits: list[float | None] = [None]
    spending = Spending(lambda: limits[0])
    spending.count(call(None))
    limits[0] = 1.0
    with spending.within_limit("m", lambda: 0.1):
        pass


def test_removed_limit_blocks_nothing() -> None:
    limits: list[float | None] = [0.1]
    spending = Spending(lambda: limits[0])
    with pytest.raises(OverBudget), spending.within_limit("m", lambda: 0.2):
        pass
    limits[0] = None
    with spending.within_limit("m", lambda: 0.2):
        pass


def test_many_threads_together_never_pass_the_limit() -> None:
    spending = Spending(lambda: 1.0)
    made: list[float] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(200):
            worst = chance.random() / 5
            try:
                with spending.within_limit("m", lambda worst=worst: worst):  # type: ignore[misc]
                    cost = worst * chance.random()
                    spending.count(call(cost))
                    made.append(cost)
            except OverBudget:
                pass

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.5 < sum(made) <= 1.0
    assert spending.total.cost == pytest.approx(sum(made))


def test_worst_cost_assumes_the_longest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    asked = ["x" * 3_000, "größer " * 100]
    bounded, unbounded = (
        worst_cost(get_llm("openai:gpt-4o", max_tokens=most), asked) for most in (1_000, None)
    )
    assert bounded == price("openai", "gpt-4o", estimate_message_tokens(asked), 1_000)
    assert unbounded == price("openai", "gpt-4o", estimate_message_tokens(asked), 32_000), (
        "how many the model gives is not known"
    )
    assert worst_cost(get_llm("openai:our-own"), asked) is None
    assert worst_cost(get_llm("openai:our-own", base_url="http://localhost:1/v1"), asked) == 0.0
    assert worst_cost(ChatDemo(), asked) == 0.0


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
