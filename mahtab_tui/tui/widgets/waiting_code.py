"""Code that waits for approval, in a view that scrolls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from textual.geometry import Size
from textual.message import Message

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.rows_view import RowsView

LEAST = 3
"""Rows that are visible on the smallest screen."""


class WaitingCodeRows(list[Row]):
    """A `RowSource` of all rows of the code."""

    code = ""
    lines: Sequence[int] = ()
    """The line number of each row, from 1."""

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import PYTHON, code_rows

        self[:] = code_rows(PYTHON, self.code, max(1, width), palette, palette.model)
        self.lines = list(accumulate(int(not row.soft) for row in self))


class WaitingCode(RowsView):
    """Shows all of the code, and notes whether its end was visible."""

    margin = 0

    class Scrolled(Message):
        """Other lines are visible."""

    def __init__(self, *, id: str | None = None) -> None:
        self._code = WaitingCodeRows()
        super().__init__(self._code, id=id)
        self.end_seen = False

    def show(self, code: str) -> None:
        """Show other code from its beginning."""
        self._code.code, self.end_seen = code, False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.reload()
        self.refresh(layout=True)

    def look(self) -> None:
        super().look()
        self._note_seen()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """About as many rows as the code has, but at most half of the screen."""
        rows = sum(1 + len(line) // max(1, width) for line in self._code.code.split("\n"))
        return max(LEAST, min(rows, viewport.height // 2))

    @property
    def seen(self) -> str:
        """The visible lines, as in ``lines 1–14 of 60``."""
        lines, first = self._code.lines, self.scroll_offset.y
        last = min(first + self.size.height, len(lines))
        return f"lines {lines[first]:,}–{lines[last - 1]:,} of {lines[-1]:,}" if first < last else ""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._note_seen()

    def _note_seen(self) -> None:
        if self.display and self._code.lines and self.size:
            self.end_seen = self.end_seen or self.scroll_offset.y + self.size.height >= len(self._code)
            self.post_message(self.Scrolled())
