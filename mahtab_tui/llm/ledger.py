"""The ledger of a session or a search: the usage of its model calls, and what its limits leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from mahtab_tui.bus.records import Usage
from mahtab_tui.bus.usage import UsageStats

_BUDGET_SPENT = "The budget of {} for the whole search is used up or promised."


class OverBudget(Exception):
    """A limit does not allow a call; the message is a sentence for the user."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        """
        Args:
            later: Whether the limit will allow the call when the running ones have ended.
        """
        super().__init__(message)
        self.later = later


class Amount(NamedTuple):
    """What model calls take, or are expected to take."""

    calls: int = 0
    """Number of calls."""
    tokens: int = 0
    """Tokens read and written."""
    usd: float = 0.0
    """US dollars."""

    def plus(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def minus(self, other: Amount) -> Amount:
        return Amount(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """The rest of a search's budget. A field is None if there is no limit."""

    turns: int | None = None
    """Turns of the node that asks; the other fields are about the whole search."""
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class Ledger:
    """Counts what model calls use, and keeps them within limits, for any threads.

    There are two kinds of reservations. `within_limit` encloses a running call and holds its worst
    cost, so that calls that run together never pass a limit in dollars. `reserve` holds an estimate
    for calls that are still to come, such as the last one of a search.
    """

    def __init__(
        self,
        max_usd: Callable[[], float | None] = lambda: None,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """Start with nothing used.

        Args:
            max_usd: Returns the limit in US dollars, which may change; None: no limit.
            max_calls: Limit of model calls; None: no limit.
            max_tokens: Limit of tokens read and written; None: no limit.
        """
        self.total = UsageStats()
        """Usage of the calls that have been counted."""
        self._failed_calls = 0
        """Calls that failed without usage."""
        self._max_usd = max_usd
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self._reserved = Amount()
        """Sum of the estimates of calls to come."""
        self._running_worst_usds: list[float] = []
        """Worst cost of each running call, in US dollars."""
        self._unpriced_model = ""
        """The model of a call that did not report its price while there was a limit; empty if there
        was none."""
        self._lock = threading.RLock()

    @property
    def max_usd(self) -> float | None:
        """The limit in US dollars; None if there is none."""
        return self._max_usd()

    @property
    def usd_left(self) -> float | None:
        """US dollars that have not been spent, negative beyond the limit; None without a limit."""
        max_usd = self.max_usd
        return None if max_usd is None else max_usd - self.total.cost

    @property
    def spent(self) -> Amount:
        """What the calls that have ended took."""
        calls = self.total.calls + self._failed_calls
        return Amount(calls, self.total.tokens, self.total.cost)

    def fold(self, usage: Usage) -> None:
        """Add a call, perhaps of an earlier session."""
        with self._lock:
            self.total.add(usage)

    def count(self, usage: Usage) -> None:
        """Count a call that has just ended."""
        self.fold(usage)
        if usage.cost is None and self.max_usd is not None:
            self._unpriced_model = usage.model or "the model"

    def count_failure(self) -> None:
        """Count a call that failed and used no tokens."""
        with self._lock:
            self._failed_calls += 1

    @contextmanager
    def within_limit(
        self, model: str, worst: Callable[[], float | None], reserved_usd: float | None = None
    ) -> Iterator[None]:
        """Enclose a call, which must be counted inside (see `count`).

        Args:
            model: Name of the model.
            worst: Returns the most US dollars that the call may cost; None if unknown. Not called
                without a limit.
            reserved_usd: US dollars that have been reserved for the call, which may then cost more
                as long as no other call runs; None: it must never pass the limit.

        Raises:
            OverBudget: The call could cost more than is left.
        """
        if self.max_usd is None:
            yield
            return
        worst_usd = worst()
        with self._lock:
            self._check_call(model, worst_usd, reserved_usd)
            self._running_worst_usds.append(worst_usd or 0.0)
        try:
            yield
        finally:
            with self._lock:
                # Which of several equal amounts is removed makes no difference.
                self._running_worst_usds.remove(worst_usd or 0.0)

    def check(self, amount: Amount) -> None:
        """Raise `OverBudget` if an amount exceeds what is neither spent nor reserved."""
        max_usd = self.max_usd
        if max_usd is not None:
            self._check_prices(max_usd)

        total = self.spent.plus(self._reserved).plus(amount)
        if self._max_calls is not None and total.calls > self._max_calls:
            plural = "" if self._max_calls == 1 else "s"
            raise OverBudget(_BUDGET_SPENT.format(f"{self._max_calls:,} model call{plural}"))
        if self._max_tokens is not None and total.tokens > self._max_tokens:
            raise OverBudget(_BUDGET_SPENT.format(f"{self._max_tokens:,} tokens"))
        if max_usd is not None and total.usd > max_usd:
            raise OverBudget(_BUDGET_SPENT.format(f"${max_usd:,.2f}"))

    def check_usd(self, usd: float) -> None:
        """Raise `OverBudget` if US dollars exceed what has not been spent, even if reserved."""
        max_usd = self.max_usd
        if max_usd is not None and usd > max_usd - self.total.cost:
            raise OverBudget(_BUDGET_SPENT.format(f"${max_usd:,.2f}"))

    def reserve(self, amount: Amount) -> None:
        """Reserve an amount. Raises `OverBudget` and reserves nothing if it exceeds a limit."""
        with self._lock:
            self.check(amount)
            self._reserved = self._reserved.plus(amount)

    def release(self, amount: Amount) -> None:
        """Give back an amount that `reserve` has reserved."""
        with self._lock:
            self._reserved = self._reserved.minus(amount)

    def remaining(self) -> BudgetLeft:
        """Return what the limits leave for calls that have not reserved anything."""
        used = self.spent.plus(self._reserved)
        max_usd = self.max_usd
        return BudgetLeft(
            calls=None if self._max_calls is None else max(0, self._max_calls - used.calls),
            tokens=None if self._max_tokens is None else max(0, self._max_tokens - used.tokens),
            usd=None if max_usd is None else max(0.0, max_usd - used.usd),
        )

    def _check_prices(self, max_usd: float) -> None:
        """Raise `OverBudget` if the cost of an earlier call is unknown."""
        if self._unpriced_model:
            raise OverBudget(
                f"A call of {self._unpriced_model} did not report its price, so the limit of ${max_usd:,.2f} (max_usd) can no longer be enforced."
            )

    def _check_call(self, model: str, worst_usd: float | None, reserved_usd: float | None) -> None:
        """Raise `OverBudget` if a call could exceed the limit.

        The arguments are those of `within_limit`.
        """
        max_usd = self.max_usd
        if max_usd is None:
            return
        if reserved_usd is None:
            self._check_prices(max_usd)
        if worst_usd is None:
            raise OverBudget(
                f"The price of {model} is unknown, so the limit of ${max_usd:,.2f} (max_usd) cannot be enforced. Choose another model."
            )

        # A call that runs alone needs only what was reserved for it: if it costs more, it may exceed
        # the limit by the difference.
        usd_alone = worst_usd if reserved_usd is None else reserved_usd
        running_usd = sum(self._running_worst_usds)
        if self._running_worst_usds:
            required_usd = running_usd + worst_usd
        else:
            required_usd = usd_alone
        if self.total.cost + required_usd > max_usd:
            usd_left = max(0.0, max_usd - self.total.cost - running_usd)
            raise OverBudget(
                f"The model was not asked: the call could cost up to ${worst_usd:,.4f}, and ${usd_left:,.4f} of the session's limit of ${max_usd:,.2f} (max_usd) is left.",
                later=self.total.cost + usd_alone <= max_usd,
            )
