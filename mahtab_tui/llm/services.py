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
    key_name: str
    """Where the key comes from, such as ``OPENAI_API_KEY``, for messages to the user."""
    secret: str = field(repr=False)
    """The key itself; empty if the service needs none."""
    max_tokens: int | None
    """The most tokens that an answer may have; None for the service's own limit."""
    num_ctx: int | None = None
    """The context window to request from Ollama, in tokens; None for other services."""
    max_answer_chars: int = MAX_ANSWER_CHARS
