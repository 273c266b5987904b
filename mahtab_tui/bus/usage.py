"""The total usage of several model calls."""

from __future__ import annotations

from dataclasses import dataclass

from mahtab_tui.bus.records import Usage


@dataclass
class UsageStats:
    """The total usage of several model calls."""

    cost: float = 0.0
    """US dollars, without calls whose price is unknown."""
    input_tokens: int = 0
    """All tokens read, including those from the cache and those written to it."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Tokens read from the service's cache of prompts."""
    cache_creation_tokens: int = 0
    """Tokens written to that cache."""
    calls: int = 0
    """Calls of models, whoever made them: the conversation, a search or a check."""
    unpriced_calls: int = 0
    """Calls whose price is unknown, which `cost` leaves out."""

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def add(self, usage: Usage) -> None:
        """Add the usage of one call."""
        self.calls += 1
        self.unpriced_calls += usage.cost is None
        self.cost += usage.cost or 0.0
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cache_read_tokens += usage.cache_read_tokens
        self.cache_creation_tokens += usage.cache_creation_tokens
