"""Sends the events of a tree as records, which are defined in `bus.records.search`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord, SearchTouch, Usage
from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.search.coverage import Intervals

Emit = Callable[[Record], None]

LONGEST_QUERY = 4_000
"""Characters of a query in its event."""

_SEARCHED = 50
"""Long queries that are looked for in the text, which takes time."""


class Events:
    """Numbers and sends the events of one tree. Lives in one loop."""

    def __init__(self, tree: str, emit: Emit) -> None:
        self.tree = tree
        self._emit = emit
        self._seq = 0
        self._searched = 0
        self._query = ("", "")
        """The last long query and its shortened form, which all parts of a fan-out share."""

    def send(self, event: SearchRecord | Usage) -> None:
        """Send an event with the next number."""
        self._emit(event.changed(tree=self.tree, seq=self._seq, time=time.time()))
        self._seq += 1

    def stream(self, node: str, turn: int, text: str | None) -> None:
        """Send a piece of an answer, or None when the answer starts again. It has no number, since
        the complete answer follows."""
        self._emit(
            SearchChatStream(
                text or "",
                tree=self.tree,
                node=node,
                turn=turn,
                fresh=text is None,
                time=time.time(),
            )
        )

    def query(self, query: str, root: str) -> str:
        """Return a query for its event: of a long one both ends, and where the rest is in the
        root's text, if it was found."""
        if len(query) <= LONGEST_QUERY:
            return query
        if self._query[0] != query:
            half = LONGEST_QUERY // 2
            rest = query[half:-half]
            self._searched += 1
            start = root.find(rest) if self._searched <= _SEARCHED else -1
            place = (
                f" (characters {start:,} to {start + len(rest):,} of the text)"
                if start >= 0
                else ""
            )
            self._query = (
                query,
                f"{query[:half]}\n… {len(rest):,} characters left out{place} …\n{query[-half:]}",
            )
        return self._query[1]

    def touch(self, node: str, how: str, spans: Sequence[TextSpan]) -> None:
        """Report spans of the root's text that a node has read or handed on."""
        if spans:
            merged = Intervals()
            merged.add(spans)
            self.send(SearchTouch(node=node, how=how, spans=tuple(merged)))
