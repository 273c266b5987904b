"""What is known about a model's service before it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mahtab_tui.llm.base import MAX_ANSWER_CHARS

if TYPE_CHECKING:
    from mahtab_tui.llm.chat_answers import Dialect  # loads `http.client`

OnNotice = Callable[[str, str], None]
"""Takes a level ("info", "warning", "error") and a sentence."""


@dataclass(frozen=True)
class Service:
    """A model of a service, and how it is asked."""

    dialect: Dialect
    address: str
    """The address without the protocol's own paths."""
    model: str
    provider: str
    priced_as: str
    """Name whose prices apply: a provider of genai-prices, a service's address, "local" if free."""
    timeout: float
    """Seconds without a byte before an answer is abandoned."""
    key: str
    """Name of the variable that holds the key."""
    secret: str = field(repr=False)
    """The key."""
    max_tokens: int | None
    num_ctx: int | None = None
    """Context window to request, for Ollama."""
    max_answer_chars: int = MAX_ANSWER_CHARS
