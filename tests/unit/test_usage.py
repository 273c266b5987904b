"""What a call of a model is said to have cost."""

from __future__ import annotations

import math

import pytest

from mahtab_tui.llm.demo import ChatDemo
from mahtab_tui.llm.usage import price, usage_attrs


def test_nothing_told_is_nothing() -> None:
    assert usage_attrs(ChatDemo(), None, {"model_name": "x"}) is None


def test_what_the_transport_says_goes_before_the_tables() -> None:
    attrs = usage_attrs(ChatDemo(), {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, {"model_name": "gpt-4o", "cost_usd": 0.25})
    assert attrs is not None
    assert attrs["cost"] == 0.25


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-20250514"), ("openai", "anthropic/claude-sonnet-4")]
)
def test_known_prices(provider: str, model: str) -> None:
    one, two = price(provider, model, 1_000, 100), price(provider, model, 2_000, 200)
    assert one is not None
    assert one > 0
    assert two == pytest.approx(2 * one)


def test_tokens_from_the_cache_cost_less() -> None:
    model = ("anthropic", "claude-sonnet-4-20250514")
    assert (price(*model, 10_000, 0, cache_read_tokens=9_000) or 0) < (price(*model, 10_000, 0) or 0)


def test_unknown_prices_are_none_and_local_ones_nothing() -> None:
    assert price("openai", "our-own-model", 1, 1) is None
    assert price("", "", 1, 1) is None
    assert price("anthropic", "claude-sonnet-4-20250514", 1, 1, cache_read_tokens=5) is None
    assert price("ollama", "llama3.2", 1_000, 1_000) == 0.0


@pytest.mark.parametrize("told", [math.nan, math.inf, -1.0, "0.5", True, [1]])
def test_a_cost_that_cannot_be_summed_is_looked_up(told: object) -> None:
    model = ChatDemo()
    attrs = usage_attrs(model, {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}, {"model_name": "gpt-4o", "cost": told})
    assert attrs is not None
    assert attrs["cost"] == 0, "it runs here"
