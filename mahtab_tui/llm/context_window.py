"""How many tokens a model can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahtab_tui.llm.prices import LOCAL, look_up_price, model_name, priced_as

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_ASSUMED_WINDOW_TOKENS = 64_000
"""Tokens that a model is assumed to read; one that reads less fails, and is asked again with
less."""
_RESERVED_ANSWER_TOKENS = 8_192
"""Tokens kept for the answer; at most a quarter of the window."""


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
    calculation = look_up_price(priced_as(llm), model_name(llm), input_tokens=1, output_tokens=1)
    return None if calculation is None else calculation.model.context_window
