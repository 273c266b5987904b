"""Shows code that waits for approval, and knows whether the user has seen its end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from textual.geometry import Size
from textual.message import Message

from mahtab_tui.bus.search_tools import MAX_CODE_CHARS
from mahtab_tui.tui.rows.row import Row, RowsView
from mahtab_tui.tui.theme import Palette

RESERVED_LINES = 9
"""Lines of the screen besides the code: header, question, answers, input and keys."""


class WaitingCodeRows(list[Row]):
    """The rows of highlighted code."""

    code = ""
    """What `lay_out` draws."""
    lines: Sequence[int] = ()
    """The number of each row's line, from 1; rows of a wrapped line have the same."""

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import PYTHON, code_rows

        self[:] = code_rows(PYTHON, self.code, max(1, width), palette, palette.model)
        self.lines = list(accumulate(int(not row.soft) for row in self))


class WaitingCode(RowsView):
    """Shows the code, and notes whether its end was visible."""

    ALLOW_SELECT: ClassVar[bool] = True

    margin = 0

    class Scrolled(Message):
        """The user scrolled to other lines."""

    def __init__(self) -> None:
        self._code = WaitingCodeRows()
        super().__init__(self._code, id="waiting")
        self.end_seen = False
        """Whether the user has seen the end of the code."""
        self._line_count = 0
        """The lines of the code, also of what is not shown of it."""
        self._is_cut = False
        """Whether only the beginning is shown, because the code is too long."""

    def show(self, code: str) -> None:
        """Show code from its first line on."""
        self._line_count = code.count("\n") + 1
        self._code.code = code[:MAX_CODE_CHARS]
        self._is_cut = len(code) > MAX_CODE_CHARS
        self.end_seen = False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.reload()
        self.refresh(layout=True)

    def refresh_view(self) -> None:
        super().refresh_view()
        self._update_end_seen()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines of the code, but at most half of the screen, so that the answers stay
        visible."""
        max_height = max(1, min(viewport.height // 2, viewport.height - RESERVED_LINES))
        # Only the beginning is counted: more cannot be visible.
        max_chars = max_height * max(1, width)
        lines = self._code.code[:max_chars].split("\n", max_height)
        height = sum(1 + len(line) // max(1, width) for line in lines)
        return max(1, min(height, max_height))

    @property
    def visible_lines(self) -> str:
        """Which lines are visible, such as ``lines 1–14 of 60``; empty if none are."""
        lines = self._code.lines
        first_row = self.scroll_offset.y
        end_row = min(first_row + self.size.height, len(lines))
        if first_row >= end_row:
            return ""
        visible = f"lines {lines[first_row]:,}–{lines[end_row - 1]:,} of {self._line_count:,}"
        if self._is_cut:
            visible += f", too long: only the first {MAX_CODE_CHARS:,} characters are shown"
        return visible

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._update_end_seen()

    def _update_end_seen(self) -> None:
        """Note whether the end is visible now, and say that other lines may be."""
        if not (self.display and self._code.lines and self.size):
            return
        is_at_end = self.scroll_offset.y + self.size.height >= len(self._code)
        if is_at_end and not self._is_cut:
            self.end_seen = True
        self.post_message(self.Scrolled())
