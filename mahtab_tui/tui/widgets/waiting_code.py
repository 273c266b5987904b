"""Code that waits for the person's answer, scrolled where it is longer than its room."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.redrawn import Redrawn

if TYPE_CHECKING:
    from mahtab_tui.tui.rows.code import CodeRows


LEAST = 3
"""Rows that are seen on the lowest of screens."""


class WaitingCode(Redrawn):
    """All of a piece of code, and whether its end has been on the screen."""

    class Seen(Message):
        """Other lines are seen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._code = ""
        self._rows: CodeRows | None = None
        self._lines: list[int] = []
        """The number of the line that each row belongs to, from 1."""
        self._fill = Style()
        self.end_seen = False

    def show(self, code: str) -> None:
        """Show other code from its beginning, and nothing of it as seen."""
        self._code, self._rows, self.end_seen = code, None, False
        self.scroll_to(y=0, animate=False, immediate=True)
        if self.is_attached and self.size:
            self._look_anew()
        self.refresh(layout=True)

    def look_anew(self, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import CodeRows

        self._rows, self._fill = CodeRows(max(1, self.scrollable_content_region.width), palette, palette.model, whole=True), palette.surface
        self._rows.update(self._code)
        self._lines = list(accumulate(int(not self._rows[number].soft) for number in range(len(self._rows))))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self._look()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """About as many rows as there are, within half of the screen."""
        rows = sum(1 + len(line) // max(1, width) for line in self._code.split("\n"))
        return max(LEAST, min(rows, viewport.height // 2))

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style + self._fill
        row = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if self._rows is None or row >= len(self._rows):
            return Strip.blank(width, base)
        return Strip([Segment(text, base + style) for text, style in self._rows[row].spans]).adjust_cell_length(width, base)

    @property
    def seen(self) -> str:
        """Which lines are seen, as ``lines 1–14 of 60``."""
        first = self.scroll_offset.y
        last = min(first + self.size.height, len(self._lines))
        if not first < last:
            return ""
        return f"lines {self._lines[first]:,}–{self._lines[last - 1]:,} of {self._lines[-1]:,}"

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look()

    def _look(self) -> None:
        if self.display and self._lines and self.size:
            self.end_seen = self.end_seen or self.scroll_offset.y + self.size.height >= len(self._lines)
            self.post_message(self.Seen())
