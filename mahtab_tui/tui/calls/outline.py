"""Lists the visible lines of the trees: those that are expanded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.search.node import FanOut, SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.calls.fan_out_grid import FanOutGrid

GROUP = 12
"""A fan-out with more parts is one line and a field of cells; otherwise each part has a line."""
KEPT = 20_000
"""Number of nodes whose lines are cached."""

Kind = Literal["gap", "root", "totals", "left", "answer", "bar", "legend", "node", "batch", "field"]
Key = tuple[str, str]
"""Identifies a node (tree, node) or a fan-out (tree, node/batch)."""


class CallLine(NamedTuple):
    kind: Kind
    tree: Tree
    node: SearchNode
    prefix: str = ""
    """The guide lines of the tree."""
    batch: FanOut | None = None
    row: int = 0
    """The number of the line within a field."""
    open: bool | None = None
    """Whether the line is expanded; None if there is nothing to expand."""

    @property
    def key(self) -> Key:
        """Identifies the line, so that the cursor can find it again."""
        name = self.node.id if self.batch is None else f"{self.node.id}/{self.batch.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        return self.kind in ("root", "node", "batch")


class Outline:
    """Remembers what the user has expanded and collapsed; by default, finished nodes are collapsed.
    Lines of unchanged nodes are cached."""

    def __init__(self) -> None:
        self._chosen: dict[Key, bool] = {}
        self._kept: dict[Key, tuple[tuple[object, ...], list[CallLine]]] = {}
        """The lines of a node and its descendants, after what they depend on."""

    def set_open(self, line: CallLine, open: bool) -> None:
        """Expand or collapse a line for good."""
        if line.open is not None:
            self._chosen[line.key] = open
            self._kept.clear()

    def expand_to(self, tree: Tree, node: SearchNode) -> None:
        """Expand all ancestors of a node for good."""
        while (above := node.parent) is not None:
            if node.batch is not None:
                self._chosen[tree.id, f"{above.id}/{node.batch.id}"] = True
            self._chosen[tree.id, above.id] = True
            node = above
        if tree.root is not None:
            self._chosen[tree.id, tree.root.id] = True
        self._kept.clear()

    def lines(self, trees: Sequence[Tree], width: int) -> list[CallLine]:
        """Return all lines for a width, newest tree first."""
        if len(self._kept) > KEPT:
            self._kept.clear()
        lines: list[CallLine] = []
        for number, tree in enumerate(trees):
            root = tree.root
            if root is None:
                continue
            if lines and lines[-1].kind != "root":
                lines.append(CallLine("gap", tree, root))
            lines += self._tree(tree, root, width, newest=number == 0)
        return lines

    def _tree(
        self, tree: Tree, root: SearchNode, width: int, *, newest: bool
    ) -> Iterator[CallLine]:
        open = self._chosen.get((tree.id, root.id), newest or not tree.finished)
        yield CallLine("root", tree, root, open=open)
        if not open:
            return
        yield CallLine("totals", tree, root)
        if root.finished:
            yield CallLine("answer", tree, root)
        elif tree.has_budget:
            yield CallLine("left", tree, root)
        if tree.coverage.chars:
            yield CallLine("bar", tree, root)
            yield CallLine("legend", tree, root)
        yield from self._below(tree, root, "", width)
        for again in _again(root):
            yield from self._node(tree, again, "", width, last=True)
        for other in tree.roots[1:]:
            yield from self._node(tree, other, "", width, last=True)

    def _below(self, tree: Tree, node: SearchNode, prefix: str, width: int) -> Iterator[CallLine]:
        """Yield the lines of a node's children; a large fan-out takes the place of its first
        part."""
        grouped: set[str] = set()
        items: list[SearchNode | FanOut] = []
        for child in node.children:
            batch = child.batch
            if batch is None or batch.of <= GROUP:
                items += [child, *_again(child)]
            elif batch.id not in grouped:
                grouped.add(batch.id)
                items.append(batch)
        items += [batch for batch in node.batches.values() if batch.asks and not batch.slots]
        for item in items:
            last = item is items[-1]
            if isinstance(item, SearchNode):
                yield from self._node(tree, item, prefix, width, last=last)
            else:
                yield from self._batch(tree, node, item, prefix, width, last=last)

    def _node(
        self, tree: Tree, node: SearchNode, prefix: str, width: int, *, last: bool
    ) -> Sequence[CallLine]:
        lead = prefix + ("└ " if last else "├ ")
        if not node.children and not node.batches:
            return (CallLine("node", tree, node, lead),)
        key, place = (tree.id, node.id), (node.shape, prefix, last, width)
        kept, lines = self._kept.get(key, ((), []))
        if kept != place:
            open = self._chosen.get(key, not node.finished or bool(node.alive))
            lines = [CallLine("node", tree, node, lead, open=open)]
            if open:
                lines += self._below(tree, node, prefix + ("  " if last else "│ "), width)
            self._kept[key] = place, lines
        return lines

    def _batch(
        self, tree: Tree, node: SearchNode, batch: FanOut, prefix: str, width: int, *, last: bool
    ) -> Iterator[CallLine]:
        open = self._chosen.get((tree.id, f"{node.id}/{batch.id}"), False) if batch.slots else None
        yield CallLine("batch", tree, node, prefix + ("└ " if last else "├ "), batch, open=open)
        below = prefix + ("  " if last else "│ ")
        if open:
            parts = [batch.slots[index] for index in sorted(batch.slots)]
            for part in parts:
                yield from self._node(tree, part, below, width, last=part is parts[-1])
        elif batch.slots:
            for row in range(FanOutGrid(batch, width - len(below) - 2).rows):
                yield CallLine("field", tree, node, below + "  ", batch, row)


def _again(node: SearchNode) -> Iterator[SearchNode]:
    """Yield the reruns of a node, and theirs."""
    for each in node.again:
        yield each
        yield from _again(each)
