"""Reported cost of a model's call."""

from __future__ import annotations

import math

import pytest

from mahtab_tui.llm.demo import ChatDemo
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.usage import context_window, is_priced, price, reported_usage, usd_per_token


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
