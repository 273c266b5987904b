"""Code that waits for approval, in a view that scrolls."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.message import Message

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.rows_view import RowsView

if TYPE_CHECKING:
    from mahtab_tui.tui.rows.code import CodeRows


LEAST = 3
"""Rows that are visible on the smallest screen."""


class WaitingCodeRows:
    """A `RowSource` of all rows of the code."""

    def __init__(self) -> None:
        self.code = ""
        self.lines: list[int] = []
        """The line number of each row, from 1."""
        self._rows: CodeRows | None = None

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import CodeRows

        self._rows = CodeRows(max(1, width), palette, palette.model, whole=True)
        self._rows.update(self.code)
        self.lines = list(accumulate(int(not self._rows[number].soft) for number in range(len(self._rows))))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Row:
        assert self._rows is not None
        return self._rows[index]


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
