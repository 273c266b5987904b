"""The story of a call, which scrolls along while the call runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.rows.rows_view import RowsView
from mahtab_tui.tui.screens.node.story import Story, StoryRow


class StoryPane(RowsView, can_focus=True):
    """Tab goes to the next row that links to a place or a call; Enter or a click opens it."""

    bars = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_link(1)", "Next place or call", show=False),
        Binding("shift+tab", "next_link(-1)", "Previous place or call", show=False),
    ]

    @dataclass
    class PlaceOpened(Message):
        """The user opens a place of the text."""

        span: TextSpan

    @dataclass
    class CallOpened(Message):
        """The user opens another call."""

        node: SearchNode

    def __init__(
        self, tree: Tree, node: SearchNode, clock: Callable[[], float], *, id: str | None = None
    ) -> None:
        self._story = Story(tree, node, clock)
        super().__init__(self._story, id=id)
        self.following = not node.finished
        self._placed = False

    @property
    def marked_row(self) -> int:
        return self.cursor

    def look(self) -> None:
        if self._laid_out is not None:
            self._story.update()
        super().look()
        if self.cursor >= 0 and (
            self.cursor >= len(self._story) or not self._story.rows[self.cursor].leads
        ):
            self.cursor = -1
        if self.following:
            self.scroll_to(y=max(0, len(self._story) - self.size.height), animate=False, force=True)
        if not self._placed and self._laid_out is not None:
            self._placed = True
            self._go_to_answer()

    def _go_to_answer(self) -> None:
        """Scroll so that the answer, which the user most likely looks for, is near the top."""
        head = next((place for place, found in enumerate(self._story.rows) if found.head), None)
        if head is not None:
            self.call_after_refresh(
                self.scroll_to, y=head - self.size.height // 4, animate=False, force=True
            )

    # Actions

    def action_next_link(self, step: int) -> None:
        """Go to the next link (1) or the previous one (-1); after the last link, focus the next
        widget."""
        rows = self._story.rows
        start = (
            self.cursor
            if self.cursor >= 0
            else self.scroll_offset.y - 1
            if step > 0
            else self.scroll_offset.y + self.size.height
        )
        start = min(start, len(rows))
        places = range(start + step, len(rows) if step > 0 else -1, step)
        self.cursor = next((place for place in places if rows[place].leads), -1)
        if self.cursor < 0:
            self.screen.focus_next() if step > 0 else self.screen.focus_previous()
        else:
            self.following = False
            self.show_row(self.cursor)
        self.refresh()

    def open_link(self) -> bool:
        """Open the chosen row; returns False if none is chosen."""
        if self.cursor >= 0:
            self._open(self._story.rows[self.cursor])
        return self.cursor >= 0

    def _open(self, row: StoryRow) -> None:
        if row.place is not None:
            self.post_message(self.PlaceOpened(row.place))
        elif row.child is not None:
            self.post_message(self.CallOpened(row.child))

    def on_click(self, event: Click) -> None:
        index = self.row_at(event.y)
        if index is not None and self._story.rows[index].leads:
            self.cursor = index
            self._open(self._story.rows[index])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y:
            self.following = False
