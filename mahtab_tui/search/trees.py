"""All searches of a session, one tree each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record, SearchRecord, Usage
from mahtab_tui.search.node import FINISHED
from mahtab_tui.search.tree import Tree

KEPT = 50
"""Trees that are kept; of more, the oldest finished ones are dropped."""


class SearchProgress(NamedTuple):
    """How far the running searches are, all together."""

    begun: float
    """When the first of them began, in seconds since the epoch."""
    calls: int
    """Model calls so far."""
    finished: int
    """Parts of their texts that have an answer."""
    parts: int
    """0 as long as no text was divided."""


class Trees:
    """Folds the bus's records of searches into trees."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._gone = 0

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        """Iterate from the newest to the oldest."""
        return reversed(self._trees.values())

    def __getitem__(self, id: str) -> Tree:
        return self._trees[id]

    @property
    def structure(self) -> int:
        """Grows when a node of any tree starts, ends or asks for consent."""
        return self._gone + sum(tree.structure for tree in self._trees.values())

    @property
    def progress(self) -> SearchProgress | None:
        """How far the running searches are; None if none runs."""
        running = [tree for tree in self._trees.values() if tree.roots and not tree.finished]
        if not running:
            return None
        batches = [
            batch for tree in running for root in tree.roots for batch in root.batches.values()
        ]
        finished = sum(batch.count(state) for batch in batches for state in FINISHED)
        begun = min(tree.roots[0].begun for tree in running)
        return SearchProgress(
            begun,
            sum(tree.used.calls for tree in running),
            finished,
            sum(batch.of for batch in batches),
        )

    def fold(self, records: Sequence[Record]) -> bool:
        """Fold records; returns whether any belongs to a search."""
        found = False
        for record in records:
            if not (isinstance(record, SearchRecord | Usage) and record.tree):
                continue
            found = True
            if record.tree not in self._trees:
                if record.tag != tags.RLM_CALL:
                    continue
                self._trees[record.tree] = Tree(record.tree)
                self._forget()
            self._trees[record.tree].fold(record)
        return found

    def _forget(self) -> None:
        for tree in [tree for tree in self._trees.values() if tree.finished][
            : max(0, len(self._trees) - KEPT)
        ]:
            self._gone += tree.structure + 1
            del self._trees[tree.id]
