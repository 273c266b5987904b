"""The events of a tree as records: `bus.records.search` says what each carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord, SearchTouch, Usage
from mahtab_tui.sandbox.text import Span
from mahtab_tui.search.coverage import Intervals

Emit = Callable[[Record], None]

LONGEST_QUERY = 4_000
"""Characters of a query that its event has."""


class Events:
    """Numbers and gives out the events of one tree. Lives in one loop."""

    def __init__(self, tree: str, emit: Emit) -> None:
        self.tree = tree
        self._emit = emit
        self._seq = 0
        self._query = ("", "")
        """The last long query, and what was told of it: the parts of a fan-out have the same."""

    def send(self, event: SearchRecord | Usage) -> None:
        """Give out an event, with the next number."""
        self._emit(event.changed(tree=self.tree, seq=self._seq, time=time.time()))
        self._seq += 1

    def stream(self, node: str, turn: int, text: str | None) -> None:
        """A piece of what the model says, None where it begins anew; it has no number, since the whole follows."""
        self._emit(SearchChatStream(text or "", tree=self.tree, node=node, turn=turn, fresh=text is None, time=time.time()))

    def query(self, query: str, root: str) -> str:
        """A query as it is told: of a long one the two ends, and where the rest stands in the root's text, if it does."""
        if len(query) <= LONGEST_QUERY:
            return query
        if self._query[0] != query:
            half = LONGEST_QUERY // 2
            rest = query[half:-half]
            start = root.find(rest)
            place = f" (characters {start:,} to {start + len(rest):,} of the text)" if start >= 0 else ""
            self._query = (query, f"{query[:half]}\n… {len(rest):,} characters left out{place} …\n{query[-half:]}")
        return self._query[1]

    def touch(self, node: str, how: str, spans: Sequence[Span]) -> None:
        """Spans of the root's text that a node has seen or handed on."""
        if spans:
            merged = Intervals()
            merged.add(spans)
            self.send(SearchTouch(node=node, how=how, spans=tuple(merged)))
