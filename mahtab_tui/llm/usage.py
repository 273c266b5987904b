"""The tokens and the cost of a call of a model, as its service reports them, or estimated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Usage
from mahtab_tui.bus.usage import (
    UsageStats as UsageStats,  # where pickles of earlier versions find it
)
from mahtab_tui.llm.prices import Tariff, model_name, price, priced_as
from mahtab_tui.llm.token_estimates import estimate_message_tokens

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata

    from mahtab_tui.llm.chat_answers import AnswerEnd


def reported_usage(
    llm: BaseChatModel, usage: UsageMetadata | None, metadata: Mapping[str, Any]
) -> Usage | None:
    """Read the usage of a call from LangChain's chunks; None if nothing was reported."""
    if usage is None and "cost_usd" not in metadata:
        return None
    counts: Any = usage or {}
    details = counts.get("input_token_details") or {}
    call_usage = Usage(
        model=str(metadata.get("model_name") or metadata.get("model") or ""),
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=details.get("cache_read", 0),
        cache_creation_tokens=details.get("cache_creation", 0),
    )
    if "cost_usd" in metadata:
        return call_usage.changed(cost=metadata["cost_usd"])
    return with_cost(call_usage, priced_as(llm), metadata.get("cost"))


def answer_usage(tariff: Tariff, end: AnswerEnd) -> Usage | None:
    """Read the usage of a call from the end of our client's answer."""
    if end.usage is None:
        return None
    usage = Usage(
        model=end.model or tariff.model,
        input_tokens=end.usage.read_tokens,
        output_tokens=end.usage.written_tokens,
        cache_read_tokens=end.usage.from_cache,
        cache_creation_tokens=end.usage.to_cache,
    )
    return with_cost(usage, tariff.priced_as, end.cost)


def with_cost(usage: Usage, provider: str, reported: object = None) -> Usage:
    """Add the cost of a call.

    Args:
        usage: Tokens of the call.
        provider: See `price`.
        reported: The cost as OpenRouter reports it, which may send anything.
    """
    is_number = isinstance(reported, int | float) and not isinstance(reported, bool)
    if is_number and 0 <= reported < math.inf:  # type: ignore[operator]
        return usage.changed(cost=float(reported))  # type: ignore[arg-type]
    cost = price(
        provider,
        usage.model,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_creation_tokens,
    )
    return usage.changed(cost=cost)


def estimated_usage(
    llm: BaseChatModel, prompts: Iterable[str], answer: str, pictures: int = 0
) -> Usage:
    """Estimate the usage of a call that ended before the model reported it."""
    model = model_name(llm)
    read_tokens = estimate_message_tokens(prompts, pictures)
    written_tokens = estimate_message_tokens([answer])
    return Usage(
        model=model,
        input_tokens=read_tokens,
        output_tokens=written_tokens,
        cost=price(priced_as(llm), model, read_tokens, written_tokens),
        estimated=True,
    )
