"""How much a model reads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahtab_tui.llm.usage import known_window

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_UNKNOWN = 64_000
"""Tokens that a model is thought to read where nobody tells; one that reads less says so, and is asked again with less."""
_ANSWER = 8_192
"""Tokens that are kept for the answer; of a small window a quarter."""


def room_of(llm: BaseChatModel) -> int:
    """Tokens that may be sent to a model, the answer's left out: as its package tells, or the tables of genai-prices."""
    told = getattr(llm, "window", None)
    window = told if isinstance(told, int) else known_window(llm) or _UNKNOWN
    return window - min(_ANSWER, window // 4)
