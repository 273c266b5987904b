"""Finds calls in all searches."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.patterns import Pattern


class CallFinder:
    """Implements `widgets.find_row.Findable`: finds calls by query and answer, even collapsed ones, in the order in which they started."""

    def __init__(self, trees: Trees, show: Callable[[Tree, SearchNode], None], end: Callable[[], object]) -> None:
        """show: expands the ancestors of a call and goes to it."""
        self._trees = trees
        self._show = show
        self._end = end
        self._at: SearchNode | None = None
        """The call that was found last."""

    def begin_find(self) -> str:
        self._at = None
        return ""

    def find(self, words: str, step: int, *, regex: bool) -> str:
        if not words:
            return ""
        nodes = [(tree, node) for tree in self._trees for node in list(tree.nodes.values())]
        texts = (text for _, node in nodes for text in (node.query, node.answer))
        matches = Pattern(words, regex=regex, any_case=True).spans_of_all(texts)
        found = [each for each, in_query, in_answer in zip(nodes, matches, matches, strict=True) if in_query or in_answer]
        if not found:
            return "nothing found"
        at = next((place for place, (_, node) in enumerate(found) if node is self._at), None)
        at = 0 if at is None else (at + step) % len(found)
        tree, self._at = found[at]
        self._show(tree, self._at)
        return f"{at + 1:,} of {len(found):,}"

    def end_find(self) -> None:
        self._end()
