"""What a call of a search did, with links to its text and its sub-calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click
from textual.message import Message

from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.search.tree_nodes import SearchNode
from mahtab_tui.tui.rows.row import RowsView
from mahtab_tui.tui.search.call_rows import CallRows


class CallPane(RowsView, can_focus=True):
    """Shows a call. Tab goes to the next link."""

    ALLOW_SELECT: ClassVar[bool] = True

    bars = True

    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "next_link(1)"),
        ("shift+tab", "next_link(-1)"),
    ]

    @dataclass
    class SpanOpened(Message):
        """The user wants to see a place of the text."""

        span: TextSpan

    @dataclass
    class CallOpened(Message):
        """The user wants to see a sub-call."""

        node: SearchNode

    def __init__(self, node: SearchNode) -> None:
        self._rows = CallRows(node)
        super().__init__(self._rows, id="node-story")
        self._has_scrolled_to_answer = False

    @property
    def marked_row(self) -> int:
        return self.cursor

    def refresh_view(self) -> None:
        """Draw the call as it is now; a view at its end stays there."""
        was_at_end = self.scroll_offset.y >= self.max_scroll_y
        if self._laid_out_for is not None:
            self._rows.update()
        super().refresh_view()
        rows = self._rows.rows
        is_at_link = 0 <= self.cursor < len(rows) and rows[self.cursor].is_link
        if not is_at_link:
            self.cursor = -1
        if was_at_end:
            self._scroll_to_row(max(0, len(rows) - self.size.height))
        if not self._has_scrolled_to_answer and self._laid_out_for is not None:
            self._has_scrolled_to_answer = True
            self._scroll_to_answer()

    def _scroll_to_answer(self) -> None:
        """Show the answer, if there is one: the user most likely looks for it."""
        for index, row in enumerate(self._rows.rows):
            if row.is_answer_heading:
                target = index - self.size.height // 4
                self.call_after_refresh(self._scroll_to_row, target)
                return

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_to(y=row, animate=False, force=True)

    def action_next_link(self, step: int) -> None:
        """Go to the next (1) or previous (-1) link, or focus the next widget."""
        rows = self._rows.rows
        start = self.cursor
        if start < 0:
            # Begin at the visible rows.
            top = self.scroll_offset.y
            start = top - 1 if step > 0 else top + self.size.height
        end = len(rows) if step > 0 else -1
        rows_ahead = range(min(start, len(rows)) + step, end, step)
        self.cursor = next((index for index in rows_ahead if rows[index].is_link), -1)
        if self.cursor >= 0:
            self.show_row(self.cursor)
        elif step > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()
        self.refresh()

    def open_link(self) -> bool:
        """Open what the chosen row leads to; return whether a row is chosen."""
        if self.cursor < 0:
            return False
        row = self._rows.rows[self.cursor]
        if row.span is not None:
            self.post_message(self.SpanOpened(row.span))
        elif row.child is not None:
            self.post_message(self.CallOpened(row.child))
        return True

    def on_click(self, event: Click) -> None:
        index = self.row_at(event.y)
        if self.text_selection is not None:  # by dragging, which ends with a click, too
            return
        if index is not None and self._rows.rows[index].is_link:
            self.cursor = index
            self.open_link()
