"""Estimates of what the calls of a search take, before they are made."""

from __future__ import annotations

import math

from mahtab_tui.llm.ledger import Amount

_CHARS_PER_TOKEN = 4
_ASSUMED_ANSWER_TOKENS = 600
"""Assumed length of an answer before there has been one."""
_COST_MARGIN = 2.0
"""How many times as expensive as those before it a call may be."""


def estimate_tokens(chars: int) -> int:
    """Estimate how many tokens a text has, before a model has counted."""
    return math.ceil(chars / _CHARS_PER_TOKEN)


class Estimates:
    """What calls of one model take, estimated from its prices and from its calls so far."""

    def __init__(self, usd_per_token: tuple[float, float]) -> None:
        """usd_per_token: US dollars for a token read and a token written."""
        usd_per_read, usd_per_written = usd_per_token
        self._usd_per_weighted_token = usd_per_read or usd_per_written
        """US dollars for a token read; for one written, if reading is free."""
        self._input_weight = 1.0 if usd_per_read or not usd_per_written else 0.0
        """How many weighted tokens a token read is."""
        self._output_weight = usd_per_written / usd_per_read if usd_per_read else 1.0
        """How many weighted tokens a token written is."""
        self._call_count = 0
        self._written_tokens = 0
        self._max_written_tokens = 0
        self._usd = 0.0
        """US dollars that these calls took."""
        self._weighted_tokens = 0.0
        """Tokens of the calls that had a price, as if all had the same price."""
        self._max_rate = 0.0
        """The highest price of a weighted token in US dollars."""

    def add_call(self, read_tokens: int, written_tokens: int, usd: float | None) -> None:
        """Take the usage of a call into account. usd: None if its price is unknown."""
        self._call_count += 1
        self._written_tokens += written_tokens
        self._max_written_tokens = max(self._max_written_tokens, written_tokens)
        if usd is not None:
            weighted_tokens = self._weigh(read_tokens, written_tokens)
            self._usd += usd
            self._weighted_tokens += weighted_tokens
            self._max_rate = max(self._max_rate, usd / max(1.0, weighted_tokens))

    def estimate(self, chars: int, calls: int = 1) -> Amount:
        """Estimate what calls take that read `chars` characters together."""
        read_tokens = estimate_tokens(chars)
        answer_tokens = _ASSUMED_ANSWER_TOKENS
        if self._call_count:
            answer_tokens = self._written_tokens // self._call_count
        written_tokens = calls * answer_tokens

        rate = self._usd_per_weighted_token
        if self._weighted_tokens:
            rate = self._usd / self._weighted_tokens
        usd = self._weigh(read_tokens, written_tokens) * rate
        return Amount(calls, read_tokens + written_tokens, usd)

    def max_usd(self, chars: int, usd_left: float) -> float:
        """Return the US dollars that a call may cost at most. Few calls prove little, so each
        allows for two more at a time."""
        if not self._call_count:
            return math.inf
        weighted_tokens = self._weigh(estimate_tokens(chars), self._max_written_tokens)
        max_known_usd = weighted_tokens * self._max_rate
        return max(_COST_MARGIN * max_known_usd, usd_left / (2 * self._call_count))

    def _weigh(self, read_tokens: int, written_tokens: int) -> float:
        """Return how many weighted tokens these are."""
        return self._input_weight * read_tokens + self._output_weight * written_tokens
