"""Usage of a session, which never costs more than it may."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from mahtab_tui.bus.records import SearchBegin, Usage
from mahtab_tui.llm.demo import ChatDemo
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.usage import OverBudget, Spending, estimate_message_tokens, price, worst_cost


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
    spending.fold(call(None, source="suggestion"))
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
