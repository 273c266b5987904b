"""The ledger of a session, which also counts by question and by search, and makes a table of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.records import Record, SearchBegin, Usage, UserChat
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.llm.ledger import Ledger

_MIN_NAME_CELLS = 16
"""The minimum width of the table's column of names, in cells."""
_MAX_NAME_CELLS = 40
"""The maximum width of this column, in cells."""
_FIGURES_CELLS = 52
"""The width of the other columns together, in cells."""


class SessionLedger(Ledger):
    """The ledger of a session, which also counts by question and by search. Any thread may call it."""

    def __init__(self, max_usd: Callable[[], float | None] = lambda: None) -> None:
        """
        Args:
            max_usd: Returns the limit of the session's cost in US dollars, which may change; None if
                there is no limit.
        """
        super().__init__(max_usd)
        self._stats: dict[int | str, UsageStats] = {}
        """The usage of each question, by its number, and of each search, by the id of its tree."""
        self._names: dict[int | str, str] = {}
        """The beginnings of questions and queries, by the same keys."""

    def resume(self, records: Iterable[Record]) -> None:
        """Count the calls of a resumed session."""
        for record in records:
            if isinstance(record, Usage):
                self.fold(record)
            elif isinstance(record, SearchBegin):
                self.name_search(record)
            elif isinstance(record, UserChat) and record.turn is not None:
                self.name_question(record.turn, record.text)

    def name_search(self, search: SearchBegin) -> None:
        """Note the query of a search for the table, unless a query of its tree is noted already."""
        with self._lock:
            self._names.setdefault(search.tree, one_line(search.text[:_MAX_NAME_CELLS]).strip())

    def name_question(self, turn: int, words: str) -> None:
        """Note the words of a question for the table.

        Args:
            turn: The number of the question.
            words: What the user has asked.
        """
        with self._lock:
            self._names[turn] = one_line(words[:_MAX_NAME_CELLS]).strip()

    def question(self, turn: int) -> UsageStats:
        """Return what a question has used so far. The result does not change any more."""
        with self._lock:
            return replace(self._stats.get(turn, UsageStats()))

    def fold(self, usage: Usage) -> None:
        with self._lock:
            super().fold(usage)
            # A call of a search counts for the search, and not for the question that has started it.
            owner = usage.turn if usage.tree is None else usage.tree
            if owner is not None:
                self._stats.setdefault(owner, UsageStats()).add(usage)

    def table(self, width: int = 80) -> str:
        """Return a table for the user.

        Args:
            width: The width of a line, in cells.
        """
        name_width = min(max(width - _FIGURES_CELLS, _MIN_NAME_CELLS), _MAX_NAME_CELLS)
        rows = [("session", self.total)]
        with self._lock:
            for turn in sorted(owner for owner in self._stats if isinstance(owner, int)):
                name = f"question {turn} {self._names.get(turn, '')}".rstrip()
                rows.append((name, self._stats[turn]))
            for tree in (owner for owner in self._stats if isinstance(owner, str)):
                rows.append((f"search {self._names.get(tree) or tree}", self._stats[tree]))
            titles = f"{'calls':>6}{'read':>12}{'of cache':>12}{'written':>10}  cost"
            lines = [f"{'':<{name_width}}{titles}"]
            lines += [_format_row(name, stats, name_width) for name, stats in rows]

        max_usd = self.max_usd
        if max_usd is not None:
            usd_left = max(0.0, max_usd - self.total.cost)
            lines.append(
                f"The session's limit is ${max_usd:,.2f} (max_usd); ${usd_left:,.4f} is left."
            )
        return "\n".join(lines)


def _format_row(name: str, stats: UsageStats, name_width: int) -> str:
    """Return a row of the table. A ``+`` after the cost means that some calls have no known price."""
    cost = f"${stats.cost:,.4f}"
    if stats.calls and stats.unpriced_calls == stats.calls:
        cost = "unknown"
    elif stats.unpriced_calls:
        cost += "+"
    tokens = f"{stats.input_tokens:>12,}{stats.cache_read_tokens:>12,}{stats.output_tokens:>10,}"
    if cell_len(name) >= name_width:
        name = set_cell_size(name, name_width - 2) + "…"
    return f"{set_cell_size(name, name_width)}{stats.calls:>6,}{tokens}  {cost}"
