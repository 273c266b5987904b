"""All searches of a session, one tree each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record, SearchRecord, Usage
from mahtab_tui.search.tree import Tree

KEPT = 50
"""Trees that are kept; of more, the oldest finished ones are dropped."""


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
        for tree in [tree for tree in self._trees.values() if tree.finished][: max(0, len(self._trees) - KEPT)]:
            self._gone += tree.structure + 1
            del self._trees[tree.id]
