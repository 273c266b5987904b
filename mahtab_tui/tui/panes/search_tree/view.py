"""The lines that there are, and a cursor that stays on its node while they come and go."""

from __future__ import annotations

from collections.abc import Iterable

from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.calls.outline import CallLine, Key, Outline


class View:
    """What the pane shows of the trees, without a screen."""

    def __init__(self, trees: Trees) -> None:
        self.lines: list[CallLine] = []
        self.following = False
        """The cursor stays with the newest node."""
        self._trees = trees
        self._outline = Outline()
        self._structure = -1
        """The trees' structure that the lines are of."""
        self._cursor: Key | None = None
        """None until something was chosen: then it is the first line."""
        self._places: dict[Key, int] | None = None
        """Where lines that can be chosen stand, once somebody has asked."""

    @property
    def outdated(self) -> bool:
        """Nodes have come, ended or been asked about since."""
        return self._trees.structure != self._structure

    def arrange(self, width: int) -> None:
        """Lay the lines out at a width. A cursor whose line is not there any more goes to the one that it would stand under."""
        self._structure = self._trees.structure
        self.lines = self._outline.lines(list(self._trees), width)
        self._places = None
        if self.following:
            self._cursor = self._newest()
        elif self._cursor is not None:
            self._cursor = self._shown(self._cursor)

    def set_open(self, line: CallLine, open: bool) -> None:
        """Fold or unfold a line; `arrange` then lays out what there is."""
        self._cursor = line.key
        self._outline.set_open(line, open)

    def reveal(self, tree: Tree, node: SearchNode, width: int) -> None:
        """Unfold what a node stands in, and go to it."""
        self._outline.expand_to(tree, node)
        self.following = False
        self.arrange(width)
        self.choose_node(tree.id, node.id)

    # The cursor

    @property
    def place(self) -> int:
        """The line of the cursor."""
        return 0 if self._cursor is None else self._found.get(self._cursor, 0)

    @property
    def line(self) -> CallLine | None:
        return self.lines[self.place] if self.lines else None

    def choose(self, line: CallLine) -> None:
        """Go to a line."""
        self.following = False
        self._cursor = line.key

    def choose_node(self, tree: str, node: str) -> None:
        """Go to a node, or to what it is folded away in."""
        self.following = False
        self._cursor = self._shown((tree, node))

    def step(self, step: int) -> None:
        """Go to the next line that can be chosen, or to the one before."""
        places = range(self.place + step, len(self.lines) if step > 0 else -1, step)
        self._go(place for place in places if self.lines[place].can_be_chosen)

    def go_near(self, wanted: int) -> None:
        """Go to the line that is nearest to a place and can be chosen."""
        self._go(sorted(self._found.values(), key=lambda place: abs(place - wanted)))

    def go_above(self) -> None:
        """Go to the line that the chosen one stands under."""
        line = self.line
        if line is None:
            return
        if line.kind == "batch":
            self.choose_node(line.tree.id, line.node.id)
        elif (parent := line.node.parent) is not None:
            group = (line.tree.id, f"{parent.id}/{line.node.batch.id}") if line.node.batch else None
            self.following = False
            self._cursor = group if group in self._found else self._shown((line.tree.id, parent.id))

    def follow(self, following: bool) -> None:
        """Stay with the newest node from now on, or no longer."""
        self.following = following
        if following:
            self._cursor = self._newest()

    @property
    def _found(self) -> dict[Key, int]:
        if self._places is None:
            self._places = {line.key: place for place, line in enumerate(self.lines) if line.can_be_chosen}
        return self._places

    def _go(self, places: Iterable[int]) -> None:
        self.following = False
        if (place := next(iter(places), None)) is not None:
            self._cursor = self.lines[place].key

    def _newest(self) -> Key | None:
        tree = next(iter(self._trees), None)
        return self._shown((tree.id, tree.newest.id)) if tree is not None and tree.newest is not None else None

    def _shown(self, key: Key) -> Key | None:
        """A line that is there, or the one that it is folded away in."""
        if key in self._found:
            return key
        tree = next((tree for tree in self._trees if tree.id == key[0]), None)
        node = tree.nodes.get(key[1].partition("/")[0]) if tree is not None else None
        while node is not None:
            above = node.parent
            names = [f"{above.id}/{node.batch.id}", node.id] if above is not None and node.batch is not None else [node.id]
            for name in names:
                if (key[0], name) in self._found:
                    return key[0], name
            node = above
        return None
