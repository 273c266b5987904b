"""The searches of a session, folded from its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from mahtab_tui.bus.records import Record, SearchBegin, SearchRecord, Usage
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.tree_nodes import FINISHED, FanOut

MAX_TREES = 50
"""Searches that are kept; those that run are never forgotten."""


class SearchControl(Protocol):
    """What the user does to searches.

    Methods may be called from any thread and return at once. Unknown ids are ignored.
    """

    def stop(self, tree: str, node: str) -> None:
        """Stop a node with all that it has started."""

    def make_variable(self, answer: str) -> None:
        """Make a variable of an answer."""

    def text(self, tree: str, start: int, end: int) -> str | None:
        """Return a part of the root's text, or None if it is no longer in memory."""

    def answer(self, request: str, run: bool) -> None:
        """Answer the question before a large fan-out."""


class SearchProgress(NamedTuple):
    """How far the running searches are."""

    begun: float
    """When the first began, in seconds since the epoch."""
    calls: int
    """Model calls so far."""
    finished: int
    """Parts of the roots' fan-outs that have finished."""
    parts: int


class Trees:
    """The newest searches of a session."""

    def __init__(self) -> None:
        self._trees: dict[str, SearchTree] = {}
        self._forgotten_structure = 0
        """The structure of trees that were forgotten, so that the sum never shrinks."""

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[SearchTree]:
        return reversed(self._trees.values())

    def __getitem__(self, id: str) -> SearchTree:
        return self._trees[id]

    @property
    def structure_version(self) -> int:
        """Grows when a node of any tree starts, ends or asks for consent."""
        return self._forgotten_structure + sum(
            tree.structure_version for tree in self._trees.values()
        )

    @property
    def progress(self) -> SearchProgress | None:
        """Progress of the searches that run; None if there is none."""
        running = [tree for tree in self._trees.values() if tree.roots and not tree.finished]
        if not running:
            return None

        fan_outs: list[FanOut] = []
        for tree in running:
            for root in tree.roots:
                fan_outs += root.fan_outs.values()
        return SearchProgress(
            begun=min(tree.roots[0].started_at for tree in running),
            calls=sum(tree.usage.calls for tree in running),
            finished=sum(fan_out.count(state) for fan_out in fan_outs for state in FINISHED),
            parts=sum(fan_out.part_count for fan_out in fan_outs),
        )

    def fold(self, records: Sequence[Record]) -> bool:
        """Fold records; returns whether any of them belongs to a search."""
        has_searches = False
        for record in records:
            if not isinstance(record, SearchRecord | Usage) or not record.tree:
                continue
            has_searches = True
            if record.tree not in self._trees and record.tag == SearchBegin.tag:
                self._trees[record.tree] = SearchTree(record.tree)
                self._forget_oldest()
            if record.tree in self._trees:
                self._trees[record.tree].fold(record)
        return has_searches

    def _forget_oldest(self) -> None:
        """Forget the oldest searches that have ended, if there are too many."""
        finished = [tree for tree in self._trees.values() if tree.finished]
        excess = max(0, len(self._trees) - MAX_TREES)
        for tree in finished[:excess]:
            self._forgotten_structure += tree.structure_version + 1
            del self._trees[tree.id]
