"""The lines of a tree as rows: name, type, summary."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import Child
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, fitted
from mahtab_tui.tui.screens.inspector.outline import Branch, TreeLine, line_at

_LABEL, _TYPE = 44, 20
"""Cells of a label and a type at most."""


class TreeRows:
    """A `RowSource` of the lines that were fetched."""

    def __init__(self, root: Branch, empty: str) -> None:
        """empty: the sentence for an object with nothing inside."""
        self.root = root
        self.come = False
        """Whether the kernel has answered."""
        self.problem = ""
        """Why there is no tree."""
        self._empty = empty
        self._label = 8
        self._type = 4

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, self.root.lines)

    def __getitem__(self, index: int) -> Row:
        line = line_at(self.root, index)
        if line is None or (self.problem and not index):
            return Row([(self.problem or (self._empty if self.come else ""), self._palette.muted)])
        return Row(self._spans(line, line.child))

    def take(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        branch.take(page, count, children)
        self.come = True
        for child in children:
            self._label = min(
                _LABEL, max(self._label, cell_len(one_line(child.label)) + 2 * branch.depth + 2)
            )
            self._type = min(_TYPE, max(self._type, len(child.type)))

    def _spans(self, line: TreeLine, child: Child | None) -> list[Span]:
        palette, indent = self._palette, "  " * line.branch.depth
        if child is None:
            return [(f"{indent}·", palette.hairline)]
        cycle, kind = child.state == "cycle", child.state == "property"
        mark = "▾ " if line.unfolded else "▸ " if child.count else "↺ " if cycle else "  "
        return [
            (indent, Style.null()),
            (mark, palette.moon if cycle else palette.muted),
            (
                fitted(one_line(child.label), max(4, self._label - len(indent) - 2)),
                palette.muted if kind or child.kind == "function" else palette.text + BOLD,
            ),
            ("  ", Style.null()),
            (fitted(plain(child.type), self._type), palette.muted),
            ("  ", Style.null()),
            (
                "the object that contains it" if cycle else plain(child.summary),
                palette.model if kind else palette.moon if cycle else palette.text,
            ),
        ]
