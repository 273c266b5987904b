"""Which lines there are: the trees, as far as they are unfolded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.search.node import FanOut, SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.calls.field import Field

GROUP = 12
"""Parts of a fan-out that stand one by one; more of them are one line and a field of cells."""
KEPT = 20_000
"""Nodes whose lines are kept for the next time."""

Kind = Literal["gap", "root", "totals", "left", "answer", "bar", "legend", "node", "batch", "field"]
Key = tuple[str, str]
"""Of a node: tree and node. Of a fan-out: tree and its node and batch."""


class Line(NamedTuple):
    """One line of the pane."""

    kind: Kind
    tree: Tree
    node: SearchNode
    prefix: str = ""
    """The lines that lead to it from above."""
    batch: FanOut | None = None
    row: int = 0
    """Which line of a field."""
    open: bool | None = None
    """None: there is nothing to unfold."""

    @property
    def key(self) -> Key:
        """By which a cursor finds it again."""
        name = self.node.id if self.batch is None else f"{self.node.id}/{self.batch.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        return self.kind in ("root", "node", "batch")


class _Kept(NamedTuple):
    """The lines of a node and what is below it, as they were made."""

    shape: int
    place: tuple[str, bool, int]
    """Prefix, whether it is the last one, width."""
    lines: list[Line]


class Outline:
    """Knows what a user has folded and unfolded; the rest follows from the state: what is finished is folded.

    Where nothing came or ended, the lines of before are given again.
    """

    def __init__(self) -> None:
        self._chosen: dict[Key, bool] = {}
        self._kept: dict[Key, _Kept] = {}

    def set_open(self, line: Line, open: bool) -> None:
        """Fold or unfold a line for good."""
        if line.open is not None:
            self._chosen[line.key] = open
            self._kept.clear()

    def unfold_to(self, tree: Tree, node: SearchNode) -> None:
        """Unfold for good what a node stands in."""
        while (above := node.parent) is not None:
            if node.batch is not None:
                self._chosen[tree.id, f"{above.id}/{node.batch.id}"] = True
            self._chosen[tree.id, above.id] = True
            node = above
        if tree.root is not None:
            self._chosen[tree.id, tree.root.id] = True
        self._kept.clear()

    def lines(self, trees: Sequence[Tree], width: int) -> list[Line]:
        """All lines at a width, of the newest tree first."""
        if len(self._kept) > KEPT:
            self._kept.clear()
        lines: list[Line] = []
        for number, tree in enumerate(trees):
            root = tree.root
            if root is None:
                continue
            if lines and lines[-1].kind != "root":
                lines.append(Line("gap", tree, root))
            lines += self._tree(tree, root, width, newest=number == 0)
        return lines

    def _tree(self, tree: Tree, root: SearchNode, width: int, *, newest: bool) -> Iterator[Line]:
        open = self._chosen.get((tree.id, root.id), newest or not tree.finished)
        yield Line("root", tree, root, open=open)
        if not open:
            return
        yield Line("totals", tree, root)
        if root.finished:
            yield Line("answer", tree, root)
        elif tree.has_budget:
            yield Line("left", tree, root)
        if tree.coverage.chars:
            yield Line("bar", tree, root)
            yield Line("legend", tree, root)
        yield from self._below(tree, root, "", width)
        for again in _again(root):
            yield from self._node(tree, again, "", width, last=True)
        for other in tree.roots[1:]:
            yield from self._node(tree, other, "", width, last=True)

    def _below(self, tree: Tree, node: SearchNode, prefix: str, width: int) -> Iterator[Line]:
        """The children of a node; a large fan-out where its first part would stand."""
        told: set[str] = set()
        items: list[SearchNode | FanOut] = []
        for child in node.children:
            batch = child.batch
            if batch is None or batch.of <= GROUP:
                items += [child, *_again(child)]
            elif batch.id not in told:
                told.add(batch.id)
                items.append(batch)
        items += [batch for batch in node.batches.values() if batch.asks and not batch.slots]
        for item in items:
            last = item is items[-1]
            if isinstance(item, SearchNode):
                yield from self._node(tree, item, prefix, width, last=last)
            else:
                yield from self._batch(tree, node, item, prefix, width, last=last)

    def _node(self, tree: Tree, node: SearchNode, prefix: str, width: int, *, last: bool) -> Sequence[Line]:
        lead = prefix + ("└ " if last else "├ ")
        if not node.children and not node.batches:
            return (Line("node", tree, node, lead),)
        key, place = (tree.id, node.id), (prefix, last, width)
        kept = self._kept.get(key)
        if kept is None or kept.shape != node.shape or kept.place != place:
            open = self._chosen.get(key, not node.finished or bool(node.alive))
            lines = [Line("node", tree, node, lead, open=open)]
            if open:
                lines += self._below(tree, node, prefix + ("  " if last else "│ "), width)
            kept = self._kept[key] = _Kept(node.shape, place, lines)
        return kept.lines

    def _batch(self, tree: Tree, node: SearchNode, batch: FanOut, prefix: str, width: int, *, last: bool) -> Iterator[Line]:
        open = self._chosen.get((tree.id, f"{node.id}/{batch.id}"), False) if batch.slots else None
        yield Line("batch", tree, node, prefix + ("└ " if last else "├ "), batch, open=open)
        below = prefix + ("  " if last else "│ ")
        if open:
            parts = [batch.slots[index] for index in sorted(batch.slots)]
            for part in parts:
                yield from self._node(tree, part, below, width, last=part is parts[-1])
        elif batch.slots:
            for row in range(Field(batch, width - len(below) - 2).rows):
                yield Line("field", tree, node, below + "  ", batch, row)


def _again(node: SearchNode) -> Iterator[SearchNode]:
    """The nodes as which it was run again."""
    for each in node.again:
        yield each
        yield from _again(each)
