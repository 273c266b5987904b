"""A read-only view of Markdown."""

from __future__ import annotations

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.rows_view import RowsView
from mahtab_tui.tui.rows.strips import EDGE, RIGHT

LONGEST = 20_000
"""Characters that are drawn; the preview says how many more there are."""


class MarkdownRows:
    """A `RowSource`: the rows of one text."""

    def __init__(self) -> None:
        self.source = ""
        self._rows: list[Row] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._rows = Markdown(palette).document(plain(self.source), max(8, width - EDGE - RIGHT))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]


class MarkdownPreview(RowsView, can_focus=True):
    """Draws Markdown as the transcript draws answers."""

    bars = True

    def __init__(self, *, id: str | None = None) -> None:
        self.rows = MarkdownRows()
        super().__init__(self.rows, id=id)

    def show(self, source: str) -> None:
        if len(source) > LONGEST:
            source = f"{source[:LONGEST]}\n\n*… {len(source) - LONGEST:,} characters more: open it in the editor.*"
        if source != self.rows.source:
            self.rows.source = source
            self.scroll_to(y=0, animate=False, force=True)
            self.reload()
