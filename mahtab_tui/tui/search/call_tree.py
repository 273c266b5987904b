"""Which lines of all searches are visible, and which of them is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.tree_nodes import FanOut, SearchNode
from mahtab_tui.search.trees import Trees
from mahtab_tui.tui.rows.row import Row, RowsView, Span, focus_words
from mahtab_tui.tui.search.call_lines import COLUMN_HEADINGS, CallDrawing, CallLine, LineKey
from mahtab_tui.tui.theme import BOLD, Palette

MAX_SEPARATE_PARTS = 12
"""A fan-out with more parts is drawn as one line."""
_MIN_WIDTH = 10


class TreeBranchMarks(NamedTuple):
    """How the tree's structure is drawn before a line."""

    own: str
    """What stands before the line itself."""
    below: str
    """What stands before the lines of the calls below it."""


_BRANCH = TreeBranchMarks("├ ", "│ ")
_LAST_BRANCH = TreeBranchMarks("└ ", "  ")


class CallTree:
    """The visible lines of all trees, and the cursor.

    Nodes that have ended are collapsed, unless the user has expanded them.
    """

    drawing: CallDrawing
    """Set by `lay_out`, before anything is drawn."""

    def __init__(self, trees: Trees, clock: Callable[[], float]) -> None:
        """
        Args:
            trees: The searches, the newest first.
            clock: Returns the time in seconds since the epoch.
        """
        self.lines: list[CallLine] = []
        self.focused = False
        self._trees = trees
        self._clock = clock
        self._arranged_version = -1
        """The version of the trees' structure for which the lines were made."""
        self._cursor: LineKey | None = None
        """The chosen line; None if the user has chosen none."""
        self._rows_by_key: dict[LineKey, int] = {}
        """The indexes of the lines that can be chosen."""
        self._open_by_key: dict[LineKey, bool] = {}
        """Whether lines that the user has expanded or collapsed are open. Others have a default."""

    def lay_out(self, width: int, palette: Palette) -> None:
        """Set the width of the pane in columns, and its colours."""
        line_width = max(_MIN_WIDTH, width - 2 * RowsView.margin)
        self.drawing = CallDrawing(line_width, palette)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Row:
        return Row(self.drawing.spans(self.lines[index], self._clock()))

    def title(self) -> Row:
        """Draw the title of the pane, with the headings of the columns if there are lines."""
        palette = self.drawing.palette
        style = palette.person + BOLD if self.focused else palette.muted
        spans: list[Span] = [(f"RECURSION{focus_words(self.focused)}", style)]
        if len(self._trees) > 1:
            spans.append((f"  {len(self._trees):,} searches", palette.muted))
        headings = self.drawing.columns(COLUMN_HEADINGS)
        remaining_width = self.drawing.width - sum(len(text) for text, _ in spans)
        if self.lines and remaining_width > len(headings):
            spans.append((headings.rjust(remaining_width), palette.muted))
        return Row(spans)

    @property
    def outdated(self) -> bool:
        """Whether the trees have changed so that `arrange` would make other lines."""
        return self._trees.structure_version != self._arranged_version

    def arrange(self) -> None:
        """Make the lines. If the chosen line is gone, choose the nearest one."""
        old_cursor = self.cursor
        self._arranged_version = self._trees.structure_version
        self.lines = self._make_lines()
        self._rows_by_key = {}
        for row, line in enumerate(self.lines):
            if line.can_be_chosen:
                self._rows_by_key[line.key] = row
        if self._cursor is not None and self._cursor not in self._rows_by_key:
            self.go_near(old_cursor)

    def set_open(self, line: CallLine, open: bool) -> None:
        """Choose a line, and expand or collapse it if it can be. `arrange` makes the lines then."""
        self._cursor = line.key
        if line.open is not None:
            self._open_by_key[line.key] = open

    def _make_lines(self) -> list[CallLine]:
        """Return the lines of all trees, with gaps between trees that are open."""
        lines: list[CallLine] = []
        for index, tree in enumerate(self._trees):
            if tree.root is None:
                continue
            # Collapsed trees follow each other without a gap.
            if lines and lines[-1].kind != "root":
                lines.append(CallLine("gap", tree, tree.root))
            is_newest = index == 0
            lines += self._tree_lines(tree, tree.root, is_newest=is_newest)
        return lines

    def _tree_lines(
        self, tree: SearchTree, root: SearchNode, *, is_newest: bool
    ) -> Iterator[CallLine]:
        """Yield the lines of a tree. The newest tree is open, and so are those that go on."""
        is_open = self._open_by_key.get((tree.id, root.id), is_newest or not tree.finished)
        yield CallLine("root", tree, root, open=is_open)
        if not is_open:
            return
        yield CallLine("totals", tree, root)
        if root.finished:
            yield CallLine("answer", tree, root)
        yield from self._lines_below(tree, root, "")
        for additional_root in tree.roots[1:]:
            yield from self._node_lines(tree, additional_root, "", is_last=True)

    def _lines_below(self, tree: SearchTree, node: SearchNode, prefix: str) -> Iterator[CallLine]:
        """Yield the lines of the calls that a node has made.

        Args:
            tree: The tree of the node.
            node: The node.
            prefix: What is drawn before these lines of the tree's structure.
        """
        # One line stands for a large fan-out, where its first part would be.
        items: dict[str, SearchNode | FanOut] = {}
        for child in node.children:
            fan_out = child.fan_out
            if fan_out is None or fan_out.part_count <= MAX_SEPARATE_PARTS:
                items[child.id] = child
            else:
                items.setdefault(f"/{fan_out.id}", fan_out)
        # A fan-out that waits for the user has no children yet.
        for fan_out in node.fan_outs.values():
            if fan_out.is_waiting and not fan_out.nodes_by_part:
                items[f"/{fan_out.id}"] = fan_out

        last_index = len(items) - 1
        for index, item in enumerate(items.values()):
            is_last = index == last_index
            if isinstance(item, SearchNode):
                yield from self._node_lines(tree, item, prefix, is_last=is_last)
            else:
                yield from self._fan_out_lines(tree, node, item, prefix, is_last=is_last)

    def _node_lines(
        self, tree: SearchTree, node: SearchNode, prefix: str, *, is_last: bool
    ) -> Iterator[CallLine]:
        """Yield the line of a node, and the lines below it if it is open."""
        is_open = None
        if node.children or node.fan_outs:
            is_at_work = not node.finished or bool(node.running_descendants)
            is_open = self._open_by_key.get((tree.id, node.id), is_at_work)
        branch = _LAST_BRANCH if is_last else _BRANCH
        yield CallLine("node", tree, node, prefix + branch.own, open=is_open)
        if is_open:
            yield from self._lines_below(tree, node, prefix + branch.below)

    def _fan_out_lines(
        self, tree: SearchTree, node: SearchNode, fan_out: FanOut, prefix: str, *, is_last: bool
    ) -> Iterator[CallLine]:
        """Yield the line of a fan-out, and those of its parts if it is open."""
        is_open = None
        if fan_out.nodes_by_part:
            is_open = self._open_by_key.get((tree.id, f"{node.id}/{fan_out.id}"), False)
        branch = _LAST_BRANCH if is_last else _BRANCH
        yield CallLine("fan_out", tree, node, prefix + branch.own, fan_out, open=is_open)
        if not is_open:
            return
        last_part = max(fan_out.nodes_by_part)
        for part, part_node in sorted(fan_out.nodes_by_part.items()):
            below = prefix + branch.below
            yield from self._node_lines(tree, part_node, below, is_last=part == last_part)

    @property
    def cursor(self) -> int:
        """The index of the chosen line; 0 if none is chosen."""
        if self._cursor is None:
            return 0
        return self._rows_by_key.get(self._cursor, 0)

    @property
    def line(self) -> CallLine | None:
        """The line at the cursor; None if there are no lines."""
        if self.lines:
            return self.lines[self.cursor]
        return None

    def choose(self, key: LineKey) -> None:
        """Choose the line with this key, as soon as there is one."""
        self._cursor = key

    def step(self, step: int) -> None:
        """Choose the next line (1) or the previous one (-1), if there is one that can be chosen."""
        end = len(self.lines) if step > 0 else -1
        for row in range(self.cursor + step, end, step):
            if self.lines[row].can_be_chosen:
                self._cursor = self.lines[row].key
                return

    def go_near(self, target_row: int) -> None:
        """Choose the line that is nearest to a row."""
        if self._rows_by_key:
            row = min(self._rows_by_key.values(), key=lambda row: abs(row - target_row))
            self._cursor = self.lines[row].key

    def go_to_parent(self) -> None:
        """Choose the node above the chosen line.

        For a part of a fan-out, choose the line of the fan-out, if it has one.
        """
        line = self.line
        if line is None:
            return
        if line.kind == "fan_out":
            self.choose((line.tree.id, line.node.id))
            return
        parent = line.node.parent
        if parent is None:
            return

        parent_key = (line.tree.id, parent.id)
        fan_out = line.node.fan_out
        if fan_out is not None:
            fan_out_key = (line.tree.id, f"{parent.id}/{fan_out.id}")
            if fan_out_key in self._rows_by_key:
                parent_key = fan_out_key
        self.choose(parent_key)
