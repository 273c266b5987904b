"""What one call of a model has used and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata


def usage_attrs(usage: UsageMetadata | None, metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The attributes of a `usage` record, from what LangChain's chunks said; None where the model told nothing.

    cost: US dollars as the transport told it, else from the tables of genai-prices; None where nobody knows the price.
    """
    if usage is None and "cost_usd" not in metadata:
        return None
    counts: Any = usage or {}
    details = counts.get("input_token_details") or {}
    attrs = {
        "model": str(metadata.get("model_name") or metadata.get("model") or ""),
        "input_tokens": counts.get("input_tokens", 0),
        "output_tokens": counts.get("output_tokens", 0),
        "cache_read_tokens": details.get("cache_read", 0),
        "cache_creation_tokens": details.get("cache_creation", 0),
    }
    cost = metadata["cost_usd"] if "cost_usd" in metadata else price(str(metadata.get("model_provider") or ""), **attrs)
    return {**attrs, "cost": cost}


def price(
    provider: str, model: str, input_tokens: int, output_tokens: int, cache_read_tokens: int = 0, cache_creation_tokens: int = 0
) -> float | None:
    """US dollars for a call, by genai-prices; None where the price is not known. What runs on the person's own machine costs nothing.

    input_tokens: all of them, those from the cache too. provider: as LangChain names it ("openai", "anthropic", "ollama").
    """
    if provider == "ollama":
        return 0.0
    try:
        from genai_prices import Usage, calc_price
    except ImportError:  # it comes with the extras of the models that are paid for
        return None
    used = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_creation_tokens,
    )
    try:
        return float(calc_price(used, model_ref=model, provider_id="openrouter" if "/" in model else provider or None).total_price)
    except (LookupError, ValueError):  # a model that its tables lack, counts that do not add up
        return None
