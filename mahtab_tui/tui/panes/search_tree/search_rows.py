"""Draws the lines of all searches as rows."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.search.node import SearchNode
from mahtab_tui.tui.calls.drawing import Drawing
from mahtab_tui.tui.calls.outline import CallLine
from mahtab_tui.tui.panes.search_tree.tree_lines import TreeLines
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span
from mahtab_tui.tui.rows.rows_view import RowsView


class SearchRows:
    """The `RowSource` of the search tree."""

    drawing: Drawing

    def __init__(self, view: TreeLines, clock: Callable[[], float]) -> None:
        self.focused = False
        self.width = 10
        """Cells between the margins."""
        self._view = view
        self._clock = clock

    def lay_out(self, width: int, palette: Palette) -> None:
        self.width = max(10, width - 2 * RowsView.margin)
        self.drawing = Drawing(self.width, palette)

    @property
    def marked(self) -> SearchNode | None:
        """The node whose position the bar shows: the chosen one while the pane has the focus."""
        line = self._view.line
        return line.node if line is not None and line.kind == "node" and self.focused else None

    def __len__(self) -> int:
        return len(self._view.lines)

    def __getitem__(self, index: int) -> Row:
        return Row(self.drawing.spans(self._view.lines[index], self._clock(), self.marked))

    def title(self, searches: int) -> Row:
        """Draw the number of searches and the titles of the columns."""
        palette = self.drawing.palette
        spans: list[Span] = [
            ("RECURSION", palette.person + BOLD if self.focused else palette.muted)
        ]
        if searches > 1:
            spans.append((f"  {searches} searches", palette.muted))
        if self._view.following:
            spans.append(("  ·  follows the newest", palette.moon))
        room = self.width - sum(len(text) for text, _ in spans)
        if self._view.lines and room > len(self.drawing.heads):
            spans.append((self.drawing.heads.rjust(room), palette.muted))
        return Row(spans)


def look_of(line: CallLine, chosen: SearchNode | None) -> tuple[object, ...]:
    """Return a key that changes when the line must be drawn again."""
    tree, node, used = line.tree, line.node, line.node.used
    match line.kind:
        case "root" | "node" | "answer":
            return line, node.version, node.alive, used.calls, used.tokens
        case "totals" | "left":
            return line, tree.used.calls, tree.used.tokens, tree.depth
        case "bar" | "legend":
            return line, tree.coverage.version, chosen
        case "batch" | "field":
            return line, None if line.batch is None else line.batch.version
        case "gap":
            return (line,)
