"""Limits of a search, what is left of them, and what calls are expected to cost."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from mahtab_tui.search.calls import Amount, Budget, BudgetSpent, Prices
from mahtab_tui.search.limits import Limits, merge_limits
from mahtab_tui.search.node import BudgetLeft

LEAST = {
    "max_turns": 1,
    "max_depth": 0,
    "max_calls": 1,
    "max_tokens": 1,
    "concurrency": 1,
    "small": 0,
    "ask_above": 0,
}


def test_limits_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().max_turns = 2  # type: ignore[misc]


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_minimum_of_each_limit_is_accepted_and_nothing_below_it(name: str, least: int) -> None:
    assert getattr(merge_limits({name: 9}, **{name: least}), name) == least
    with pytest.raises(ValueError, match=f"{name} must be at least {least}, not {least - 1}."):
        merge_limits(**{name: least - 1})


@pytest.mark.parametrize("value", [True, 1.5, "2", [3]])
def test_limits_on_counts_are_whole_numbers(value: object) -> None:
    with pytest.raises(
        ValueError, match=f"^max_calls must be a whole number, not {re.escape(repr(value))}.$"
    ):
        merge_limits(max_calls=value)


def test_limits_in_dollars_and_seconds_are_above_zero() -> None:
    assert merge_limits(max_usd=0.001, max_seconds=1) == Limits(max_usd=0.001, max_seconds=1)
    for value in (0, -1, float("nan")):
        with pytest.raises(ValueError, match=f"max_usd must be more than 0, not {value}."):
            merge_limits(max_usd=value)
    with pytest.raises(ValueError, match=r"max_seconds must be a number, not True\."):
        merge_limits(max_seconds=True)


@pytest.mark.parametrize(
    ("depth", "chars", "plain"),
    [(0, 100, True), (0, 101, False), (2, 101, False), (3, 101, True), (4, 101, True)],
)
def test_a_short_text_and_the_deepest_call_run_no_code(depth: int, chars: int, plain: bool) -> None:
    assert Limits(max_depth=3, small=100).is_plain(depth, chars) is plain


def test_limit_may_be_reached_but_not_exceeded() -> None:
    budget = Budget(Limits(max_calls=1, max_tokens=10, max_usd=0.5))
    budget.free(budget.hold(Amount(1, 10, 0.5)))
    for amount, limit in (
        (Amount(2), "1 model call for"),
        (Amount(tokens=11), "10 tokens"),
        (Amount(usd=0.51), r"\$0\.50"),
    ):
        with pytest.raises(BudgetSpent, match=limit):
            budget.hold(amount)
    assert budget.left() == BudgetLeft(calls=1, tokens=10, usd=0.5)


def test_exceeded_limit_leaves_nothing() -> None:
    budget = Budget(Limits(max_calls=2, max_tokens=10, max_usd=0.5))
    budget.spend(Amount(3, 12, 0.75))
    assert budget.left() == BudgetLeft(calls=0, tokens=0, usd=0.0)
    assert budget.usd_left == -0.25
    assert Budget(Limits(max_calls=None)).left() == BudgetLeft(calls=None, tokens=None, usd=None)


def test_remaining_dollars_may_be_used_up() -> None:
    budget = Budget(Limits(max_usd=0.5))
    budget.spend(Amount(usd=0.25))
    budget.check_usd(0.25)
    with pytest.raises(BudgetSpent, match=r"\$0\.50"):
        budget.check_usd(0.26)
    Budget(Limits()).check_usd(1e9)


def test_an_unknown_price_ends_a_limit_in_dollars_only() -> None:
    free, limited = Budget(Limits(max_calls=9)), Budget(Limits(max_usd=1.0))
    for budget in (free, limited):
        budget.unpriced()
    free.hold(Amount(1))
    with pytest.raises(BudgetSpent, match="did not report its price"):
        limited.hold(Amount(1))


def test_prices_weight_output_and_remember_the_highest_rate() -> None:
    prices = Prices((1e-6, 5e-6))
    assert prices.estimate(4_000).usd == pytest.approx(1_000 * 1e-6 + 600 * 5e-6)
    prices.learn(1_000, 100, 0.3)
    prices.learn(1_000, 300, None)
    prices.learn(1_000, 100, 0.1)
    dearest = (1_000 + 5 * 300) * 0.3 / (1_000 + 5 * 100)
    assert prices.most(4_000, left=1.0) == pytest.approx(2 * dearest)
    assert prices.most(4_000, left=60.0) == 10.0, "three calls allow for six at a time"
    each = 0.4 / (2 * (1_000 + 5 * 100))
    estimate = prices.estimate(4_000, calls=3)
    assert estimate[:2] == (3, 1_000 + 3 * 166)
    assert estimate.usd == pytest.approx((1_000 + 5 * 3 * 166) * each)
    assert Prices((0.0, 0.0)).estimate(4_000).usd == 0.0
    assert Prices((1e-6, 5e-6)).most(4_000, left=1.0) == math.inf
