"""What calls of models cost, by genai-prices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from mahtab_tui.llm.names import is_loopback
from mahtab_tui.llm.token_estimates import estimate_message_tokens

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.language_models import BaseChatModel

LOCAL = "local"
"""The name of models on this machine, which cost nothing, in place of a provider."""
EXPENSIVE_USD_PER_TOKEN = (5e-6, 25e-6)
"""US dollars for a token read and a token written by an expensive model, for estimates if prices
are unknown."""
_SAMPLE_TOKENS = 1_000
"""Tokens whose price is looked up, to find that of one token."""
_MAX_ANSWER_TOKENS = 32_000
"""Tokens that a model may write if its limit is unknown."""


class Tariff(NamedTuple):
    """A model of a service, as far as its prices are concerned."""

    model: str
    priced_as: str
    """See `price`."""
    max_tokens: int | None
    """The most that an answer may have, if that is limited."""

    @property
    def needs_table(self) -> bool:
        return not _is_on_this_machine(self.priced_as)


def worst_cost(
    llm: BaseChatModel | Tariff,
    prompts: Iterable[str],
    pictures: int = 0,
    max_tokens: int | None = None,
) -> float | None:
    """Return the most US dollars that a call may cost; None if the price is unknown.

    Args:
        llm: The model.
        prompts: The texts of the messages that it reads.
        pictures: How many pictures they have.
        max_tokens: The most that it may write; None: the model's limit.
    """
    own_worst_cost = getattr(llm, "worst_cost", None)
    if callable(own_worst_cost):
        own_cost: float | None = own_worst_cost()
        return own_cost

    read_tokens = estimate_message_tokens(prompts, pictures)
    written_tokens = getattr(llm, "max_tokens", None) or _MAX_ANSWER_TOKENS
    if max_tokens is not None:
        written_tokens = min(written_tokens, max_tokens)
    cost = price(priced_as(llm), model_name(llm), read_tokens, written_tokens)
    if cost is None and getattr(llm, "reports_cost", False):
        usd_per_read, usd_per_written = EXPENSIVE_USD_PER_TOKEN
        return read_tokens * usd_per_read + written_tokens * usd_per_written
    return cost


def usd_per_token(llm: BaseChatModel | Tariff) -> tuple[float, float]:
    """Return US dollars for a token read and a token written.

    If they are unknown, return those of an expensive model.
    """
    # The table has prices of calls, so the price of one token comes from a call with many.
    read_usd = price(priced_as(llm), model_name(llm), _SAMPLE_TOKENS, 0)
    written_usd = price(priced_as(llm), model_name(llm), 0, _SAMPLE_TOKENS)
    if read_usd is None or written_usd is None:
        return EXPENSIVE_USD_PER_TOKEN
    return read_usd / _SAMPLE_TOKENS, written_usd / _SAMPLE_TOKENS


def is_priced(llm: BaseChatModel | Tariff) -> bool:
    """Return whether the cost of a call is known, at least after it."""
    if getattr(llm, "reports_cost", False):
        return True
    cost = price(priced_as(llm), model_name(llm), _SAMPLE_TOKENS, _SAMPLE_TOKENS)
    return cost is not None


def model_name(llm: BaseChatModel | Tariff) -> str:
    name = getattr(llm, "model_name", None) or getattr(llm, "model", None)
    return name if isinstance(name, str) else ""


def priced_as(llm: BaseChatModel | Tariff) -> str:
    """Return the name whose prices apply to a model; see `price`."""
    name = getattr(llm, "priced_as", None)
    if isinstance(name, str):
        return name
    return str(getattr(llm, "_llm_type", "")).removesuffix("-chat").removeprefix("chat-")


def is_on_this_machine(llm: BaseChatModel) -> bool:
    return hasattr(llm, "provider") and _is_on_this_machine(priced_as(llm))


def _is_on_this_machine(provider: str) -> bool:
    return provider == LOCAL or is_loopback(urlsplit(provider).hostname or "")


def price(
    provider: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_creation_tokens: int = 0,
) -> float | None:
    """Return US dollars for a call by genai-prices; None if unknown.

    Args:
        provider: Its name there, a service's address, or `LOCAL`.
        model: The service's name for the model.
        input_tokens: All tokens read, including those from the cache and those written to it.
        output_tokens: Tokens written.
        cache_read_tokens: Tokens read from the cache.
        cache_creation_tokens: Tokens written to the cache.
    """
    if provider == "ollama" or _is_on_this_machine(provider):
        return 0.0
    calculation = look_up_price(
        provider,
        model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_creation_tokens,
    )
    return None if calculation is None else float(calculation.total_price)


def look_up_price(provider: str, model: str, **token_counts: int) -> PriceCalculation | None:
    """Return what genai-prices knows about a call and its model; None if it knows neither."""
    from genai_prices import Usage, calc_price

    provider_id = "openrouter" if "/" in model else provider or None
    reference: dict[str, Any] = {"provider_id": provider_id}
    if "://" in provider:
        reference = {"provider_api_url": provider}
    try:
        return calc_price(Usage(**token_counts), model_ref=model, **reference)
    except (LookupError, ValueError):  # an unknown model, or inconsistent counts
        return None
