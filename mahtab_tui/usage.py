"""What a conversation has cost so far."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class UsageStats(BaseModel):
    """Sums over the calls of models."""

    cost: float = 0.0
    """US dollars, of the calls whose price is known."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0
    """Calls whose price is not known."""

    def add(
        self,
        *,
        cost: float | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_creation_tokens: int = 0,
        **about: Any,
    ) -> None:
        """Count one call, given as the attributes of a `usage` record; `about` (model, source) is not summed."""
        self.calls += 1
        self.unpriced_calls += cost is None
        self.cost += cost or 0.0
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cache_read_tokens += cache_read_tokens
        self.cache_creation_tokens += cache_creation_tokens

    def sentence(self) -> str:
        """What was used and what it cost, for a person."""
        if not self.calls:
            return "No model has been called yet."
        cached = f" ({self.cache_read_tokens:,} of them from the cache)" if self.cache_read_tokens else ""
        price = f"${self.cost:.4f}"
        if self.unpriced_calls:
            price += f", without {self.unpriced_calls} calls of unknown price" if self.unpriced_calls < self.calls else ", the price is not known"
        return f"{self.calls} calls, {self.input_tokens:,} tokens read{cached}, {self.output_tokens:,} written, {price}."
