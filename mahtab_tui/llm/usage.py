"""What one call of a model has used and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import urlsplit

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.sizes import tokens_in

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata

LOCAL = "local"
"""Of whose models nobody asks a price."""
_DEAR = (5e-6, 25e-6)
"""US dollars of a read and a written token, for estimates before a call has told what it cost."""
_MANY = 1_000
"""Tokens whose price is asked for."""
_MOST = 32_000
"""Tokens of an answer whose most is not known."""
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")


def told_usage(llm: BaseChatModel, usage: UsageMetadata | None, metadata: Mapping[str, Any]) -> Usage | None:
    """What a call has used, from what LangChain's chunks said; None where the model told nothing.

    cost: US dollars as the transport told it, else from the tables of genai-prices; None where nobody knows the price.
    """
    if usage is None and "cost_usd" not in metadata:
        return None
    counts: Any = usage or {}
    details = counts.get("input_token_details") or {}
    model = str(metadata.get("model_name") or metadata.get("model") or "")
    read, written = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    from_cache, to_cache = details.get("cache_read", 0), details.get("cache_creation", 0)
    told = metadata.get("cost")  # so OpenRouter tells it
    if "cost_usd" in metadata:
        cost = metadata["cost_usd"]
    else:
        cost = float(told) if _is_amount(told) else price(priced_as(llm), model, read, written, from_cache, to_cache)
    return Usage(model=model, input_tokens=read, output_tokens=written, cache_read_tokens=from_cache, cache_creation_tokens=to_cache, cost=cost)


def _is_amount(told: object) -> TypeGuard[float]:
    """Whether it is a number that can be summed: a service may tell anything."""
    return isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < math.inf


def estimated_usage(llm: BaseChatModel, asked: Iterable[str], said: str, pictures: int = 0) -> Usage:
    """What a call has used that ended before the model could tell: what was sent, and what had come."""
    model = model_name(llm)
    read, written = tokens_in(asked, pictures), tokens_in([said])
    cost = price(priced_as(llm), model, read, written)
    return Usage(model=model, input_tokens=read, output_tokens=written, cost=cost, estimated=True)


def worst_cost(llm: BaseChatModel, asked: Iterable[str], pictures: int = 0) -> float | None:
    """US dollars that a call may come to, by the size of what is sent and the most that the model writes; None where nobody knows its price."""
    told = getattr(llm, "worst_cost", None)
    if callable(told):
        cost: float | None = told()
        return cost
    read, written = tokens_in(asked, pictures), getattr(llm, "max_tokens", None) or _MOST
    cost = price(priced_as(llm), model_name(llm), read, written)
    if cost is None and getattr(llm, "tells_cost", False):
        return read * _DEAR[0] + written * _DEAR[1]
    return cost


def usd_per_token(llm: BaseChatModel) -> tuple[float, float]:
    """US dollars of a read and of a written token; a dear model's where they are not known before a call."""
    read, written = (price(priced_as(llm), model_name(llm), *counts) for counts in ((_MANY, 0), (0, _MANY)))
    return _DEAR if read is None or written is None else (read / _MANY, written / _MANY)


def is_priced(llm: BaseChatModel) -> bool:
    """Whether it is known what a call has cost, if only after it."""
    return bool(getattr(llm, "tells_cost", False)) or price(priced_as(llm), model_name(llm), _MANY, _MANY) is not None


def model_name(llm: BaseChatModel) -> str:
    """The model as its provider calls it; empty where it has no name."""
    name = getattr(llm, "model_name", None) or getattr(llm, "model", None)
    return name if isinstance(name, str) else ""


def priced_as(llm: BaseChatModel) -> str:
    """Whose prices hold for a model; see `price`."""
    named = getattr(llm, "priced_as", None)
    return named if isinstance(named, str) else llm._llm_type.removesuffix("-chat").removeprefix("chat-")


def price(
    provider: str, model: str, input_tokens: int, output_tokens: int, cache_read_tokens: int = 0, cache_creation_tokens: int = 0
) -> float | None:
    """US dollars for a call, by genai-prices; None where the price is not known. What runs on the person's own machine costs nothing.

    input_tokens: all of them, those from the cache too. provider: as genai-prices names it ("openai", "anthropic"), the address of a
    service, or `LOCAL`.
    """
    if provider in (LOCAL, "ollama") or urlsplit(provider).hostname in _OWN_MACHINE:
        return 0.0
    found = _looked_up(
        provider,
        model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_creation_tokens,
    )
    return None if found is None else float(found.total_price)


def known_window(llm: BaseChatModel) -> int | None:
    """Tokens that a model reads at once, by the tables of genai-prices."""
    provider = priced_as(llm)
    found = None if provider == LOCAL else _looked_up(provider, model_name(llm), input_tokens=1, output_tokens=1)
    return None if found is None else found.model.context_window


def _looked_up(provider: str, model: str, **used: int) -> PriceCalculation | None:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:  # it comes with the extras of the models that are paid for
        return None
    try:
        if "://" in provider:
            return calc_price(Usage(**used), model_ref=model, provider_api_url=provider)
        return calc_price(Usage(**used), model_ref=model, provider_id="openrouter" if "/" in model else provider or None)
    except (LookupError, ValueError):  # a model that its tables lack, counts that do not add up
        return None
