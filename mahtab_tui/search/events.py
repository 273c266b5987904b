"""Sends the events of a search."""

from __future__ import annotations

import time
from collections.abc import Callable

from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord, Usage

Emit = Callable[[Record], None]
"""Logs a record."""


class Events:
    """Sends the events of one search, numbered in order."""

    def __init__(self, tree: str, emit: Emit) -> None:
        """
        Args:
            tree: The id of the search.
        """
        self.tree = tree
        self._emit = emit
        self._seq = 0
        """The number of the next event."""

    def send(self, event: SearchRecord | Usage) -> None:
        """Send an event, whose number and time are set."""
        self._emit(event.changed(tree=self.tree, seq=self._seq, time=time.time()))
        self._seq += 1

    def stream(self, node: str, turn: int, text: str | None) -> None:
        """Send a piece of an answer, without a number; None when the answer starts again."""
        piece = SearchChatStream(text or "", tree=self.tree, node=node, turn=turn)
        self._emit(piece.changed(fresh=text is None, time=time.time()))
