"""Which nodes that have ended can still be run again."""

from __future__ import annotations

import sys
from collections import deque

from mahtab_tui.sandbox.text import Text
from mahtab_tui.search.live import LiveNode, Source

MOST = 16 * 2**20
"""Bytes that they hold together, of one tree; the oldest go first."""
_NODE = 2_000
"""Bytes that a node takes beside its texts."""


class EndedNodes:
    """The ended nodes of one tree, by what they hold: texts that code has made on the way, queries, answers."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._nodes: deque[tuple[LiveNode, int]] = deque()
        self._held = 0

    def add(self, node: LiveNode, size: int) -> list[LiveNode]:
        """Take in a node that holds so many bytes. Returns the nodes that had to let go of their texts for it, itself among them where it is too large."""
        self._nodes.append((node, size + _NODE))
        self._held += size + _NODE
        forgotten = []
        while self._held > self._most:
            oldest, held = self._nodes.popleft()
            self._held -= held
            oldest.query, oldest.source = "", Source(Text(""))  # others of its fan-out may still know it
            forgotten.append(oldest)
        return forgotten


def size_of(text: str) -> int:
    """Bytes of memory that a text takes: up to four for a character."""
    return sys.getsizeof(text)
