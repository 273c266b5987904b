"""Usage and cost of a model call, and how much a model may read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import urlsplit

from mahtab_tui.bus.records import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata

LOCAL = "local"
"""The provider of free models."""
_DEAR = (5e-6, 25e-6)
"""US dollars for a token read and a token written by an expensive model, for estimates if prices
are unknown."""
_MANY = 1_000
"""Tokens to look up a price for."""
_MOST = 32_000
"""Tokens of the longest answer, if unknown."""
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes, a safe value for English (four), code and Chinese (three)."""
_FRAME = 10
"""Tokens around each message."""
_PICTURE = 3_400
"""Tokens of the largest picture that is sent (see `pictures.EncodedPicture.tokens`)."""
_UNKNOWN_WINDOW = 64_000
"""Tokens that a model is assumed to read if unknown; one that reads less fails, and is asked again
with less."""
_ANSWER_ROOM = 8_192
"""Tokens kept for the answer; at most a quarter of the window."""


def tokens_in(texts: Iterable[str], pictures: int = 0) -> int:
    """Estimate the tokens of messages with these texts and so many pictures, rather too high than
    too low."""
    return pictures * _PICTURE + sum(
        _FRAME + len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN for text in texts
    )


def room_of(llm: BaseChatModel) -> int:
    """Return how many tokens may be sent to a model, without its answer."""
    window = window_of(llm) or _UNKNOWN_WINDOW
    return window - min(_ANSWER_ROOM, window // 4)


def window_of(llm: BaseChatModel) -> int | None:
    """Return how many tokens a model can read, as its package or the tables of genai-prices tell;
    None if unknown."""
    told = getattr(llm, "window", None)
    if isinstance(told, int):
        return told
    provider = priced_as(llm)
    found = (
        None
        if provider == LOCAL
        else _looked_up(provider, model_name(llm), input_tokens=1, output_tokens=1)
    )
    return None if found is None else found.model.context_window


def told_usage(
    llm: BaseChatModel, usage: UsageMetadata | None, metadata: Mapping[str, Any]
) -> Usage | None:
    """Read what a call has used from LangChain's chunks; None if the model reported nothing.

    The cost is what the transport reported, otherwise from the tables of genai-prices; None if
    unknown.
    """
    if usage is None and "cost_usd" not in metadata:
        return None
    counts: Any = usage or {}
    details = counts.get("input_token_details") or {}
    model = str(metadata.get("model_name") or metadata.get("model") or "")
    read, written = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    from_cache, to_cache = details.get("cache_read", 0), details.get("cache_creation", 0)
    told = metadata.get("cost")  # OpenRouter's field
    if "cost_usd" in metadata:
        cost = metadata["cost_usd"]
    else:
        cost = (
            float(told)
            if _is_amount(told)
            else price(priced_as(llm), model, read, written, from_cache, to_cache)
        )
    return Usage(
        model=model,
        input_tokens=read,
        output_tokens=written,
        cache_read_tokens=from_cache,
        cache_creation_tokens=to_cache,
        cost=cost,
    )


def _is_amount(told: object) -> TypeGuard[float]:
    """Tell whether it is a number that can be summed; a service may send anything."""
    return isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < math.inf


def estimated_usage(
    llm: BaseChatModel, asked: Iterable[str], said: str, pictures: int = 0
) -> Usage:
    """Estimate the usage of a call that ended before the model reported it, from what was sent and
    received."""
    model = model_name(llm)
    read, written = tokens_in(asked, pictures), tokens_in([said])
    cost = price(priced_as(llm), model, read, written)
    return Usage(model=model, input_tokens=read, output_tokens=written, cost=cost, estimated=True)


def worst_cost(llm: BaseChatModel, asked: Iterable[str], pictures: int = 0) -> float | None:
    """Return the US dollars that a call may cost at most, from what is sent and the longest answer;
    None if the price is unknown."""
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
    """Return US dollars for a token read and a token written; those of an expensive model if
    unknown."""
    read, written = (
        price(priced_as(llm), model_name(llm), *counts) for counts in ((_MANY, 0), (0, _MANY))
    )
    return _DEAR if read is None or written is None else (read / _MANY, written / _MANY)


def is_priced(llm: BaseChatModel) -> bool:
    """Tell whether the cost of a call is known, if only after it."""
    return (
        bool(getattr(llm, "tells_cost", False))
        or price(priced_as(llm), model_name(llm), _MANY, _MANY) is not None
    )


def model_name(llm: BaseChatModel) -> str:
    """Return the provider's name for a model; empty if it has none."""
    name = getattr(llm, "model_name", None) or getattr(llm, "model", None)
    return name if isinstance(name, str) else ""


def priced_as(llm: BaseChatModel) -> str:
    """Return whose prices apply to a model; see `price`."""
    named = getattr(llm, "priced_as", None)
    return (
        named
        if isinstance(named, str)
        else llm._llm_type.removesuffix("-chat").removeprefix("chat-")
    )


def is_on_this_machine(llm: BaseChatModel) -> bool:
    """Tell whether a model is served on this machine, as far as its address tells."""
    return hasattr(llm, "provider") and _is_on_this_machine(priced_as(llm))


def _is_on_this_machine(provider: str) -> bool:
    from mahtab_tui.llm.http_service import is_loopback

    return provider == LOCAL or is_loopback(urlsplit(provider).hostname or "")


def price(
    provider: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_creation_tokens: int = 0,
) -> float | None:
    """Return US dollars for a call by genai-prices; None if unknown. Models on the user's machine
    are free.

    input_tokens: including those from the cache. provider: its name in genai-prices ("openai",
    "anthropic"), a service's address, or `LOCAL`.
    """
    if provider == "ollama" or _is_on_this_machine(provider):
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


def _looked_up(provider: str, model: str, **used: int) -> PriceCalculation | None:
    from genai_prices import Usage, calc_price

    try:
        if "://" in provider:
            return calc_price(Usage(**used), model_ref=model, provider_api_url=provider)
        return calc_price(
            Usage(**used),
            model_ref=model,
            provider_id="openrouter" if "/" in model else provider or None,
        )
    except (LookupError, ValueError):  # an unknown model, or inconsistent counts
        return None
