"""Spending of a session on models, and its limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.records import Record, SearchBegin, Usage, UserChat
from mahtab_tui.bus.sanitize import one_line


@dataclass
class UsageStats:
    """Sums over model calls."""

    cost: float = 0.0
    """US dollars for the calls whose price is known."""
    input_tokens: int = 0
    """All tokens read, including those from the cache and those written to it."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0
    """Calls whose price is unknown."""

    def add(self, used: Usage) -> None:
        self.calls += 1
        self.unpriced_calls += used.cost is None
        self.cost += used.cost or 0.0
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cache_read_tokens += used.cache_read_tokens
        self.cache_creation_tokens += used.cache_creation_tokens


_NAMES = range(16, 41)
"""Cells that the names in the table may have."""
_FIGURES = 52
"""Cells of the rest of a line."""


class OverBudget(Exception):
    """A call could cost more than is left; the message is a sentence."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        """later: whether there may be enough when the running calls have ended."""
        super().__init__(message)
        self.later = later


class Spending:
    """Counts what the models of a session use, and enforces a limit. Any thread may use it."""

    def __init__(self, max_usd: Callable[[], float | None] = lambda: None) -> None:
        """max_usd: returns the current limit in US dollars; None if there is none."""
        self.total = UsageStats()
        self.turns: dict[int, UsageStats] = {}
        """By number of the question."""
        self.trees: dict[str, UsageStats] = {}
        """By id of the search."""
        self._queries: dict[str, str] = {}
        """Question of each search."""
        self._questions: dict[int, str] = {}
        """The words of each question, by its number."""
        self._max_usd = max_usd
        self._held = 0.0
        self._unpriced_model = ""
        """The model of a call that did not report its price while there was a limit."""
        self._lock = threading.Lock()

    @property
    def max_usd(self) -> float | None:
        """The limit, in US dollars."""
        return self._max_usd()

    def resume(self, past: Iterable[Record]) -> None:
        """Count what a session used that is resumed."""
        for record in past:
            if isinstance(record, Usage):
                self.fold(record)
            elif isinstance(record, SearchBegin):
                self.name(record)
            elif isinstance(record, UserChat) and record.turn is not None:
                self.name_question(record.turn, record.text)

    def name(self, search: SearchBegin) -> None:
        """Name a search by its first question. search: the beginning of any of its calls."""
        with self._lock:
            self._queries.setdefault(search.tree, one_line(search.text[: _NAMES[-1]]).strip())

    def name_question(self, turn: int, words: str) -> None:
        """Name a question by its words."""
        with self._lock:
            self._questions[turn] = one_line(words[: _NAMES[-1]]).strip()

    def fold(self, used: Usage) -> None:
        """Count a call, possibly of the past."""
        with self._lock:
            self.total.add(used)
            if used.tree is not None:
                self.trees.setdefault(used.tree, UsageStats()).add(used)
            elif used.turn is not None:
                self.turns.setdefault(used.turn, UsageStats()).add(used)

    def count(self, used: Usage) -> None:
        """Count a call that was just made."""
        self.fold(used)
        if used.cost is None and self.max_usd is not None:
            self._unpriced_model = used.model or "the model"

    @contextmanager
    def afford(self, model: str, worst: Callable[[], float | None]) -> Iterator[None]:
        """Enclose a call, whose cost is counted inside. Raises `OverBudget` if it could exceed the
        limit.

        worst: returns the most that it may cost in US dollars, None if unknown; called only if
        there is a limit.
        """
        if self.max_usd is None:
            yield
            return
        usd = worst()
        with self._lock:
            self._check(model, usd)
            self._held += usd or 0.0
        try:
            yield
        finally:
            with self._lock:
                self._held -= usd or 0.0

    def _check(self, model: str, usd: float | None) -> None:
        limit = self.max_usd
        if limit is None:
            return
        if self._unpriced_model:
            raise OverBudget(
                f"A call of {self._unpriced_model} did not report its price, so the limit of ${limit:.2f} (max_usd) can no longer be enforced."
            )
        if usd is None:
            raise OverBudget(
                f"The price of {model} is unknown, so the limit of ${limit:.2f} (max_usd) cannot be enforced. Choose another model."
            )
        if self.total.cost + self._held + usd > limit:
            left = max(0.0, limit - self.total.cost - self._held)
            raise OverBudget(
                f"The model was not asked: the call could cost up to ${usd:.4f}, and ${left:.4f} of the session's limit of ${limit:.2f} (max_usd) is left.",
                later=self.total.cost + usd <= limit,
            )

    def table(self, width: int = 80) -> str:
        """Format a table for the user: a line for the session, each question and each search.
        width: of a line, in cells."""
        room = min(max(width - _FIGURES, _NAMES[0]), _NAMES[-1])
        with self._lock:
            rows = [
                ("session", self.total),
                *(
                    (f"question {turn} {self._questions.get(turn, '')}".rstrip(), stats)
                    for turn, stats in sorted(self.turns.items())
                ),
                *(
                    (f"search {self._queries.get(tree) or tree}", stats)
                    for tree, stats in self.trees.items()
                ),
            ]
            lines = [
                f"{'':<{room}}{'calls':>6}{'read':>12}{'of cache':>12}{'written':>10}  cost",
                *(_row(*row, room) for row in rows),
            ]
        if (limit := self.max_usd) is not None:
            lines.append(
                f"The session's limit is ${limit:.2f} (max_usd); ${max(0.0, limit - self.total.cost):.4f} is left."
            )
        return "\n".join(lines)


def _row(name: str, stats: UsageStats, room: int) -> str:
    cost = (
        "unknown"
        if stats.calls and stats.unpriced_calls == stats.calls
        else f"${stats.cost:.4f}{'+' if stats.unpriced_calls else ''}"
    )
    tokens = f"{stats.input_tokens:>12,}{stats.cache_read_tokens:>12,}{stats.output_tokens:>10,}"
    if cell_len(name) >= room:
        name = set_cell_size(name, room - 2) + "…"
    return f"{set_cell_size(name, room)}{stats.calls:>6,}{tokens}  {cost}"
