"""What a line's picture depends on, besides time."""

from __future__ import annotations

from mahtab_tui.search.node import SearchNode
from mahtab_tui.tui.panes.search_tree.outline import Line


def look_of(line: Line, chosen: SearchNode | None) -> tuple[object, ...]:
    """Equal for as long as the line need not be drawn again."""
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
