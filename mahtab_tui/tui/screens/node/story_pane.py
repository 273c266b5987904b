"""The story of a call: a window over its rows, which follows what comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from mahtab_tui.sandbox.text import Span
from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.panes.search_tree.drawing import Drawing
from mahtab_tui.tui.panes.search_tree.outline import Line
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.redrawn import Redrawn
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.strips import EDGE, RIGHT, strip_of
from mahtab_tui.tui.screens.node.story import Story, StoryRow


class StoryPane(Redrawn, can_focus=True):
    """Rows that lead somewhere are chosen with Tab, and opened with Enter or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_link(1)", "Next place or call", show=False),
        Binding("shift+tab", "next_link(-1)", "Place or call before", show=False),
    ]

    class PlaceChosen(Message):
        """The person wants to see a place of the text."""

        def __init__(self, span: Span) -> None:
            super().__init__()
            self.span = span

    class CallChosen(Message):
        """The person wants to see another call."""

        def __init__(self, node: SearchNode) -> None:
            super().__init__()
            self.node = node

    def __init__(self, tree: Tree, node: SearchNode, clock: Callable[[], float], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = not node.finished
        self._tree = tree
        self._node = node
        self._clock = clock
        self._story: Story | None = None
        self._rows: list[StoryRow] = []
        self._placed = False
        self._link: int | None = None
        """The row that is chosen."""
        self._drawing: Drawing | None = None
        self._palette: Palette | None = None

    def look(self) -> None:
        """Something may have come."""
        if self._story is None:
            return
        self._rows = self._story.rows()
        if self._link is not None and (self._link >= len(self._rows) or not self._rows[self._link].leads):
            self._link = None
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        if self.following:
            self.scroll_to(y=max(0, len(self._rows) - self.size.height), animate=False, force=True)
        self.refresh()

    def look_anew(self, palette: Palette) -> None:
        self._palette = palette
        width = self.scrollable_content_region.width
        self._story = Story(self._tree, self._node, max(8, width - EDGE - RIGHT), palette)
        self._drawing = Drawing(max(10, width - EDGE - RIGHT), palette)
        self.look()
        if not self._placed:
            self._placed = True
            self._go_to_answer()

    def _go_to_answer(self) -> None:
        """Of a call that has ended, the answer is what one looks for: it stands near the top, its turns above it."""
        head = next((place for place, found in enumerate(self._rows) if found.head), None)
        if head is not None:
            self.call_after_refresh(self.scroll_to, y=head - self.size.height // 4, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        index = self.scroll_offset.y + y
        if index >= len(self._rows) or self._drawing is None or self._palette is None:
            return Strip.blank(width, base)
        found = self._rows[index]
        row = found.row
        if found.child is not None:
            row = Row(self._drawing.spans(Line("node", self._tree, found.child), self._clock(), None))
        fill = self._palette.panel if index == self._link else row.fill
        return strip_of(row._replace(fill=fill), index, width, base, None, base)

    # What the person does

    def action_next_link(self, step: int) -> None:
        """Go to the next row that leads somewhere, or the one before; past the last one, to the next thing on the screen."""
        start = self._link if self._link is not None else self.scroll_offset.y - 1 if step > 0 else self.scroll_offset.y + self.size.height
        start = min(start, len(self._rows))
        places = range(start + step, len(self._rows) if step > 0 else -1, step)
        self._link = next((place for place in places if self._rows[place].leads), None)
        if self._link is None:
            self.screen.focus_next() if step > 0 else self.screen.focus_previous()
        else:
            self.following = False
            self.scroll_to_region(Region(0, self._link, 1, 1), animate=False, force=True)
        self.refresh()

    def open_link(self) -> bool:
        """Go where the chosen row leads; False where none is chosen."""
        if self._link is not None:
            self._open(self._rows[self._link])
        return self._link is not None

    def _open(self, row: StoryRow) -> None:
        if row.place is not None:
            self.post_message(self.PlaceChosen(row.place))
        elif row.child is not None:
            self.post_message(self.CallChosen(row.child))

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y
        if index < len(self._rows) and self._rows[index].leads:
            self._link = index
            self._open(self._rows[index])
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y:
            self.following = False
