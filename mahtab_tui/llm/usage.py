"""Tokens and prices of model calls, estimated before a call and read after it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from mahtab_tui.bus.records import Usage
from mahtab_tui.bus.usage import (
    UsageStats as UsageStats,  # where pickles of earlier versions find it
)
from mahtab_tui.llm.names import is_loopback

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata

    from mahtab_tui.llm.chat_answers import AnswerEnd
    from mahtab_tui.settings.model import LoopMode

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,8}|\d|[^\w\s]{1,3}|_+")
"""About one token of text, code, output or JSON; `tests/data/token_counts.json` has counts of
OpenAI's tokenizers to compare with."""
_TOKENS_PER_TEXT = 4
"""Tokens of a message besides its text."""

LOCAL = "local"
DEAR = (5e-6, 25e-6)
"""US dollars for a token read and a token written by an expensive model, for estimates if prices
are unknown."""
_SAMPLE_TOKENS = 1_000
"""Tokens whose price is looked up, to find that of one token."""
_MAX_ANSWER_TOKENS = 32_000
"""Tokens that a model may write if its limit is unknown."""
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes: safe for English (four), code and Chinese (three)."""
_MAX_TOKENS_PER_TEXT = 10
"""Tokens of a message besides its text, rather too many than too few."""
_MAX_PICTURE_TOKENS = 3_400
"""Tokens of the largest picture that is sent (see `pictures.EncodedPicture.tokens`)."""
_ASSUMED_WINDOW_TOKENS = 64_000
"""Tokens that a model is assumed to read; one that reads less fails, and is asked again with
less."""
_RESERVED_ANSWER_TOKENS = 8_192
"""Tokens kept for the answer; at most a quarter of the window."""
MAX_SMALL_PARAMETERS = 9_000_000_000
"""Parameters up to which a model is small."""
_SIZE_IN_NAME = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])", re.IGNORECASE)
"""A number of parameters in billions, as in "qwen2.5-coder:1.5b"."""


def estimated_tokens(texts: Iterable[str]) -> int:
    return sum(_TOKENS_PER_TEXT + len(_TOKEN.findall(text)) for text in texts)


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


def estimate_message_tokens(texts: Iterable[str], pictures: int = 0) -> int:
    """Estimate the tokens of messages, rather too high than too low.

    Args:
        texts: one for each message.
        pictures: how many pictures the messages have.
    """
    text_tokens = 0
    for text in texts:
        text_bytes = len(text.encode("utf-8", "replace"))
        text_tokens += _MAX_TOKENS_PER_TEXT + text_bytes // _BYTES_PER_TOKEN
    return pictures * _MAX_PICTURE_TOKENS + text_tokens


def input_limit(llm: BaseChatModel) -> int:
    """Return how many tokens a conversation may have, so that there is room for the answer."""
    window = context_window(llm) or _ASSUMED_WINDOW_TOKENS
    return window - min(_RESERVED_ANSWER_TOKENS, window // 4)


def context_window(llm: BaseChatModel) -> int | None:
    """Return how many tokens a model can read; None if unknown."""
    window = getattr(llm, "window", None)
    if isinstance(window, int):
        return window
    if priced_as(llm) == LOCAL:
        return None
    calculation = _look_up_price(priced_as(llm), model_name(llm), input_tokens=1, output_tokens=1)
    return None if calculation is None else calculation.model.context_window


class LoopChoice(NamedTuple):
    """How a model is led."""

    loop: Literal["steps", "single"]
    reason: str
    """Why, as words that may follow "because"."""


def choose_loop(llm: BaseChatModel, setting: LoopMode) -> LoopChoice:
    """Choose how to lead a model: by the setting, otherwise by its parameters. A model of unknown
    size counts as capable. May ask the model's server."""
    if setting != "auto":
        return LoopChoice(setting, f"the setting loop is {setting}")

    parameters = getattr(llm, "parameters", None)
    if isinstance(parameters, int):
        source = "its server"
    elif size := _SIZE_IN_NAME.search(model_name(llm)):
        source = "its name"
        parameters = round(float(size[1]) * 1e9)
    else:
        return LoopChoice("steps", "its size is not known")

    loop: Literal["steps", "single"] = "steps"
    if parameters <= MAX_SMALL_PARAMETERS:
        loop = "single"
    return LoopChoice(loop, f"it has {parameters / 1e9:.3g} billion parameters, as {source} says")


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
        input_tokens=end.usage.read,
        output_tokens=end.usage.written,
        cache_read_tokens=end.usage.from_cache,
        cache_creation_tokens=end.usage.to_cache,
    )
    return with_cost(usage, tariff.priced_as, end.cost)


def with_cost(usage: Usage, provider: str, reported: object = None) -> Usage:
    """Add the cost of a call.

    Args:
        usage: tokens of the call.
        provider: see `price`.
        reported: the cost as OpenRouter reports it, which may send anything.
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


def worst_cost(
    llm: BaseChatModel | Tariff,
    prompts: Iterable[str],
    pictures: int = 0,
    max_tokens: int | None = None,
) -> float | None:
    """Return the most US dollars that a call may cost; None if the price is unknown.

    Args:
        llm: the model.
        prompts: the texts of the messages that it reads.
        pictures: how many pictures they have.
        max_tokens: the most that it may write; None: the model's limit.
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
        usd_per_read, usd_per_written = DEAR
        return read_tokens * usd_per_read + written_tokens * usd_per_written
    return cost


def usd_per_token(llm: BaseChatModel | Tariff) -> tuple[float, float]:
    """Return US dollars for a token read and a token written; those of an expensive model if
    unknown."""
    # The table has prices of calls, so the price of one token comes from a call with many.
    read_usd = price(priced_as(llm), model_name(llm), _SAMPLE_TOKENS, 0)
    written_usd = price(priced_as(llm), model_name(llm), 0, _SAMPLE_TOKENS)
    if read_usd is None or written_usd is None:
        return DEAR
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
        provider: its name there, a service's address, or `LOCAL`.
        model: the service's name for the model.
        input_tokens: all tokens read, including those from the cache and those written to it.
        output_tokens: tokens written.
        cache_read_tokens: tokens read from the cache.
        cache_creation_tokens: tokens written to the cache.
    """
    if provider == "ollama" or _is_on_this_machine(provider):
        return 0.0
    calculation = _look_up_price(
        provider,
        model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_creation_tokens,
    )
    return None if calculation is None else float(calculation.total_price)


def _look_up_price(provider: str, model: str, **token_counts: int) -> PriceCalculation | None:
    from genai_prices import Usage, calc_price

    provider_id = "openrouter" if "/" in model else provider or None
    reference: dict[str, Any] = {"provider_id": provider_id}
    if "://" in provider:
        reference = {"provider_api_url": provider}
    try:
        return calc_price(Usage(**token_counts), model_ref=model, **reference)
    except (LookupError, ValueError):  # an unknown model, or inconsistent counts
        return None
