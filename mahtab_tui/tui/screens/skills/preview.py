"""Markdown that is only read: a window over its rows."""

from __future__ import annotations

from textual.geometry import Size
from textual.strip import Strip

from mahtab_tui.tui.panes.transcript.entries import Words
from mahtab_tui.tui.panes.transcript.layout.words import WordsRows
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.redrawn import Redrawn
from mahtab_tui.tui.rows.strips import EDGE, RIGHT, strip_of

LONGEST = 20_000
"""Characters that are drawn; of more it is said how many there are."""


class Preview(Redrawn, can_focus=True):
    """Drawn as the model's words are."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = ""
        self._rows: WordsRows | None = None

    def show(self, source: str) -> None:
        """Show a text from its beginning."""
        if len(source) > LONGEST:
            source = f"{source[:LONGEST]}\n\n*… {len(source) - LONGEST:,} characters more: open it in the editor.*"
        if source != self._source:
            self._source = source
            self.scroll_to(y=0, animate=False, force=True)
            if self.size:
                self._look_anew()

    def look_anew(self, palette: Palette) -> None:
        width = self.scrollable_content_region.width
        self._rows = WordsRows(Words(party="", source=self._source, named=False), max(8, width - EDGE - RIGHT), palette)
        self._rows.update()
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        index = self.scroll_offset.y + y
        if self._rows is None or index >= len(self._rows):
            return Strip.blank(width, base)
        return strip_of(self._rows[index]._replace(bar=None), index, width, base, None, base)
