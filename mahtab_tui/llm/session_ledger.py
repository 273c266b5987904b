"""The ledger of a session, with the usage of each question and each search, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.records import Record, SearchBegin, Usage, UserChat
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.llm.ledger import Ledger

_MIN_NAME_CELLS = 16
"""Minimum width of the table's column of names, in cells."""
_MAX_NAME_CELLS = 40
_FIGURES_CELLS = 52
"""Width of a row of the table without its name."""


class SessionLedger(Ledger):
    """The ledger of a session, which also has the usage of each question and each search."""

    def __init__(self, max_usd: Callable[[], float | None] = lambda: None) -> None:
        """max_usd: returns the limit in US dollars, which may change; None: no limit."""
        super().__init__(max_usd)
        self._stats: dict[int | str, UsageStats] = {}
        """Usage by owner: a question (its number) or a search (the id of its tree)."""
        self._names: dict[int | str, str] = {}
        """Short texts of the questions and searches, by owner."""

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
        """Note the text of a search, for the table. The first text of a tree counts."""
        with self._lock:
            self._names.setdefault(search.tree, one_line(search.text[:_MAX_NAME_CELLS]).strip())

    def name_question(self, turn: int, words: str) -> None:
        """Note the words of a question, for the table. turn: its number."""
        with self._lock:
            self._names[turn] = one_line(words[:_MAX_NAME_CELLS]).strip()

    def question(self, turn: int) -> UsageStats:
        """Return a copy of the usage of a question so far."""
        with self._lock:
            return replace(self._stats.get(turn, UsageStats()))

    def fold(self, usage: Usage) -> None:
        with self._lock:
            super().fold(usage)
            # A call of a search counts for the search only, even if a question started it.
            owner = usage.turn if usage.tree is None else usage.tree
            if owner is not None:
                self._stats.setdefault(owner, UsageStats()).add(usage)

    def table(self, width: int = 80) -> str:
        """Return a table for the user. width: the width of a line, in cells."""
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
    """Format a row of the table. A ``+`` after the cost says that some calls had no price."""
    cost = f"${stats.cost:,.4f}"
    if stats.calls and stats.unpriced_calls == stats.calls:
        cost = "unknown"
    elif stats.unpriced_calls:
        cost += "+"
    tokens = f"{stats.input_tokens:>12,}{stats.cache_read_tokens:>12,}{stats.output_tokens:>10,}"
    if cell_len(name) >= name_width:
        name = set_cell_size(name, name_width - 2) + "…"
    return f"{set_cell_size(name, name_width)}{stats.calls:>6,}{tokens}  {cost}"
