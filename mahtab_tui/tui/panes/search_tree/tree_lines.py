"""The visible lines of the search tree, with a cursor that stays on its node while lines come and
go."""

from __future__ import annotations

from collections.abc import Iterable

from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.calls.outline import CallLine, Key, Outline


class TreeLines:
    """The visible lines of all trees and the cursor, without a screen."""

    def __init__(self, trees: Trees) -> None:
        self.lines: list[CallLine] = []
        self.following = False
        """Whether the cursor stays on the newest node."""
        self._trees = trees
        self._outline = Outline()
        self._structure = -1
        """The version of the trees for which `lines` were made."""
        self._cursor: Key | None = None
        """None for the first line, until a line is chosen."""
        self._places: dict[Key, int] | None = None
        """Positions of the lines that can be chosen; computed on demand."""

    @property
    def outdated(self) -> bool:
        """Whether the trees have changed since `arrange`."""
        return self._trees.structure != self._structure

    def arrange(self, width: int) -> None:
        """Make the lines for a width. If the cursor's line is gone, the cursor moves to its nearest
        visible ancestor."""
        self._structure = self._trees.structure
        self.lines = self._outline.lines(list(self._trees), width)
        self._places = None
        if self.following:
            self._cursor = self._newest()
        elif self._cursor is not None:
            self._cursor = self._shown(self._cursor)

    def set_open(self, line: CallLine, open: bool) -> None:
        """Expand or collapse a line; call `arrange` afterwards."""
        self._cursor = line.key
        self._outline.set_open(line, open)

    def reveal(self, tree: Tree, node: SearchNode, width: int) -> None:
        """Expand the ancestors of a node, and go to it."""
        self._outline.expand_to(tree, node)
        self.following = False
        self.arrange(width)
        self.choose_node(tree.id, node.id)

    # The cursor

    @property
    def place(self) -> int:
        return 0 if self._cursor is None else self._found.get(self._cursor, 0)

    @property
    def line(self) -> CallLine | None:
        return self.lines[self.place] if self.lines else None

    def choose(self, line: CallLine) -> None:
        self.following = False
        self._cursor = line.key

    def choose_node(self, tree: str, node: str) -> None:
        """Go to a node, or to its nearest visible ancestor."""
        self.following = False
        self._cursor = self._shown((tree, node))

    def step(self, step: int) -> None:
        """Go to the next line that can be chosen (1), or the previous one (-1)."""
        places = range(self.place + step, len(self.lines) if step > 0 else -1, step)
        self._go(place for place in places if self.lines[place].can_be_chosen)

    def go_near(self, wanted: int) -> None:
        """Go to the line nearest to a position that can be chosen."""
        self._go(sorted(self._found.values(), key=lambda place: abs(place - wanted)))

    def go_above(self) -> None:
        line = self.line
        if line is None:
            return
        if line.kind == "batch":
            self.choose_node(line.tree.id, line.node.id)
        elif (parent := line.node.parent) is not None:
            group = (line.tree.id, f"{parent.id}/{line.node.batch.id}") if line.node.batch else None
            self.following = False
            self._cursor = group if group in self._found else self._shown((line.tree.id, parent.id))

    def toggle_follow(self) -> None:
        """Keep the cursor on the newest node, or stop doing so."""
        self.following = not self.following
        if self.following:
            self._cursor = self._newest()

    @property
    def _found(self) -> dict[Key, int]:
        if self._places is None:
            self._places = {
                line.key: place for place, line in enumerate(self.lines) if line.can_be_chosen
            }
        return self._places

    def _go(self, places: Iterable[int]) -> None:
        self.following = False
        if (place := next(iter(places), None)) is not None:
            self._cursor = self.lines[place].key

    def _newest(self) -> Key | None:
        tree = next(iter(self._trees), None)
        return (
            self._shown((tree.id, tree.newest.id))
            if tree is not None and tree.newest is not None
            else None
        )

    def _shown(self, key: Key) -> Key | None:
        """Return the key of a line if it is visible, or of its nearest visible ancestor."""
        if key in self._found:
            return key
        tree = next((tree for tree in self._trees if tree.id == key[0]), None)
        node = tree.nodes.get(key[1].partition("/")[0]) if tree is not None else None
        while node is not None:
            above = node.parent
            names = (
                [f"{above.id}/{node.batch.id}", node.id]
                if above is not None and node.batch is not None
                else [node.id]
            )
            for name in names:
                if (key[0], name) in self._found:
                    return key[0], name
            node = above
        return None
