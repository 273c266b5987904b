"""Estimates of what the calls of a search take, before they are made.

A model has two prices, one for the tokens that it reads and one for those that it writes. To compare
calls that read and write different amounts, their tokens are counted by weight: a token that is read
weighs 1, and a written token weighs as many times as much as it costs; if reading is free, only written
tokens count. What a call costs is then its weighted tokens times a single rate, which is the known price
at first, and later that of the calls so far.
"""

from __future__ import annotations

import math

from mahtab_tui.llm.ledger import Amount

_CHARS_PER_TOKEN = 4
_ASSUMED_ANSWER_TOKENS = 600
"""The length of an answer that is assumed before there has been one."""
_COST_MARGIN = 2.0
"""A call may cost this many times what it would at the highest rate so far."""


def estimate_tokens(chars: int) -> int:
    """Estimate how many tokens a text has, before a model has counted them."""
    return math.ceil(chars / _CHARS_PER_TOKEN)


class Estimates:
    """Estimates what calls of one model take, from its prices and from its calls so far."""

    def __init__(self, usd_per_token: tuple[float, float]) -> None:
        """
        Args:
            usd_per_token: US dollars for a token that is read, and for one that is written.
        """
        usd_per_read_token, usd_per_written_token = usd_per_token
        self._read_weight = 1.0
        self._written_weight = 1.0
        self._usd_per_weighted_token = usd_per_read_token
        if usd_per_read_token:
            self._written_weight = usd_per_written_token / usd_per_read_token
        elif usd_per_written_token:
            # Reading is free, so only the tokens that are written count.
            self._read_weight = 0.0
            self._usd_per_weighted_token = usd_per_written_token

        self._call_count = 0
        self._written_tokens = 0
        """Tokens of all answers so far."""
        self._max_written_tokens = 0
        """Tokens of the longest answer so far."""
        self._priced_usd = 0.0
        """US dollars for all calls so far that had a price."""
        self._priced_weighted_tokens = 0.0
        """Weighted tokens of these calls."""
        self._max_usd_per_weighted_token = 0.0
        """The highest rate of these calls."""

    def add_call(self, read_tokens: int, written_tokens: int, usd: float | None) -> None:
        """Take the usage of a call into account.

        Args:
            read_tokens: Tokens that the model has read.
            written_tokens: Tokens that it has written.
            usd: US dollars for the call; None if its price is not known.
        """
        self._call_count += 1
        self._written_tokens += written_tokens
        self._max_written_tokens = max(self._max_written_tokens, written_tokens)
        if usd is None:
            return
        weighted_tokens = self._weigh(read_tokens, written_tokens)
        self._priced_usd += usd
        self._priced_weighted_tokens += weighted_tokens
        rate = usd / max(1.0, weighted_tokens)
        self._max_usd_per_weighted_token = max(self._max_usd_per_weighted_token, rate)

    def estimate(self, chars: int, calls: int = 1) -> Amount:
        """Estimate what some calls take together.

        Args:
            chars: Characters that they read together.
            calls: The number of calls.
        """
        answer_tokens = _ASSUMED_ANSWER_TOKENS
        if self._call_count:
            answer_tokens = self._written_tokens // self._call_count
        read_tokens = estimate_tokens(chars)
        written_tokens = calls * answer_tokens

        usd_per_weighted_token = self._usd_per_weighted_token
        if self._priced_weighted_tokens:
            usd_per_weighted_token = self._priced_usd / self._priced_weighted_tokens
        usd = self._weigh(read_tokens, written_tokens) * usd_per_weighted_token
        return Amount(calls, read_tokens + written_tokens, usd)

    def max_usd(self, chars: int, remaining_usd: float) -> float:
        """Return how many US dollars a call may cost at most.

        Args:
            chars: Characters that it reads.
            remaining_usd: What remains of the budget, in US dollars. Few calls prove little about the
                next one, so it may always cost a share of this, which shrinks with each call.
        """
        if not self._call_count:
            return math.inf
        weighted_tokens = self._weigh(estimate_tokens(chars), self._max_written_tokens)
        expected_usd = weighted_tokens * self._max_usd_per_weighted_token
        cautious_usd = remaining_usd / (2 * self._call_count)
        return max(_COST_MARGIN * expected_usd, cautious_usd)

    def _weigh(self, read_tokens: int, written_tokens: int) -> float:
        """Return the weighted tokens of a call."""
        return self._read_weight * read_tokens + self._written_weight * written_tokens
