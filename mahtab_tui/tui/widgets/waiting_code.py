"""Code that waits for approval, in a view that scrolls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from textual.geometry import Size
from textual.message import Message

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.rows_view import RowsView

OTHERS = 9
"""Rows that a low screen needs for everything but the code: header, question, answers, input and
keys."""
LINES, CHARACTERS = 20_000, 300_000
"""How much of the code is shown; of longer code the beginning."""
COLOURED = 40_000
"""Characters of code that are coloured; the lexer takes a second for a few times as many."""


class WaitingCodeRows(list[Row]):
    """A `RowSource` of all rows of the code."""

    code = ""
    """The code, as far as it is shown."""
    lines: Sequence[int] = ()
    """The line number of each row, from 1."""

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import PLAIN, PYTHON, code_rows

        lexer = PYTHON if len(self.code) <= COLOURED else PLAIN
        self[:] = code_rows(lexer, self.code, max(1, width), palette, palette.model)
        self.lines = list(accumulate(int(not row.soft) for row in self))


class WaitingCode(RowsView):
    """Shows the code, and notes whether its end was visible."""

    margin = 0

    class Scrolled(Message):
        """Other lines are visible."""

    def __init__(self, *, id: str | None = None) -> None:
        self._code = WaitingCodeRows()
        super().__init__(self._code, id=id)
        self.end_seen = False
        self._count = 0
        """The number of lines, shown or not."""
        self._is_cut = False
        """Whether only the beginning is shown."""

    def show(self, code: str) -> None:
        """Show other code from its beginning."""
        self._count = code.count("\n") + 1
        shown = code[:CHARACTERS]
        if shown.count("\n") >= LINES:
            shown = "\n".join(shown.split("\n", LINES)[:LINES])
        self._code.code, self._is_cut, self.end_seen = shown, len(shown) < len(code), False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.reload()
        self.refresh(layout=True)

    def look(self) -> None:
        super().look()
        self._note_seen()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """About as many rows as the code has, but at most half of the screen, so that its answers
        are visible."""
        most = max(1, min(viewport.height // 2, viewport.height - OTHERS))
        beginning = self._code.code[: most * max(1, width)].split("\n", most)
        return max(1, min(sum(1 + len(line) // max(1, width) for line in beginning), most))

    @property
    def seen(self) -> str:
        """The visible lines, as in ``lines 1–14 of 60``, and how much is shown at all."""
        lines, first = self._code.lines, self.scroll_offset.y
        last = min(first + self.size.height, len(lines))
        if first >= last:
            return ""
        cut = (
            f", too long: only the first {len(self._code.code):,} characters are shown"
            if self._is_cut
            else ""
        )
        return f"lines {lines[first]:,}–{lines[last - 1]:,} of {self._count:,}{cut}"

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._note_seen()

    def _note_seen(self) -> None:
        if self.display and self._code.lines and self.size:
            at_end = self.scroll_offset.y + self.size.height >= len(self._code)
            self.end_seen = self.end_seen or (at_end and not self._is_cut)
            self.post_message(self.Scrolled())
