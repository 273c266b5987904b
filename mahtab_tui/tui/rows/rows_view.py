"""A scrolling view over a source of rows, with a cursor. Only visible rows are drawn."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual.binding import Binding
from textual.events import Resize
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.tui.rows.palette import Palette, palette_of
from mahtab_tui.tui.rows.row import Row, Rows
from mahtab_tui.tui.rows.strips import plain_strip, strip_of

CURSOR_KEYS: tuple[Binding, ...] = (
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "move_page(-1)", "Page up", show=False),
    Binding("pagedown", "move_page(1)", "Page down", show=False),
    Binding("home", "move_to(0)", "First", show=False),
    Binding("end", "move_to(-1)", "Last", show=False),
)
"""The keys of a view with a cursor. Other views have Textual's keys, which scroll."""


class RowSource(Rows, Protocol):
    """Supplies the rows of a `RowsView`."""

    def lay_out(self, width: int, palette: Palette) -> None:
        """Make rows for this width in cells, in these colours, from now on."""


class RowsView(ScrollView, can_focus=True):
    """A scrolling view over rows. With a cursor, add `CURSOR_KEYS`; with a title, override `head`
    and `head_row`."""

    bars: ClassVar[bool] = False
    """Whether rows have a bar at their left, as in the transcript."""
    margin: ClassVar[int] = 1
    """Cells left of rows without bars."""

    cursor: reactive[int] = reactive(-1)
    """The chosen row; -1 for none."""

    def __init__(self, source: RowSource, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        self._laid_out: tuple[int, Palette] | None = None

    # Layout

    @property
    def head(self) -> int:
        """The number of rows at the top that do not scroll."""
        return 0

    def head_row(self, y: int) -> Row:
        """Return a row at the top that does not scroll."""
        raise NotImplementedError

    @property
    def page(self) -> int:
        """The number of visible rows."""
        return max(1, self.size.height - self.head)

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    def look(self) -> None:
        """Lay out and draw again, after rows or the size have changed."""
        if self.is_attached and self.size:
            self.lay_out()
            self.set_row_count(self.head + len(self._source))
            self.refresh()

    def lay_out(self) -> None:
        """Tell the source the current width and colours, if they have changed."""
        layout = self.width, palette_of(self.app)
        if layout != self._laid_out:
            self._laid_out = layout
            self._source.lay_out(*layout)

    def reload(self) -> None:
        """Let the source make all rows again, and draw them."""
        self._laid_out = None
        self.look()

    def set_row_count(self, rows: int) -> None:
        """Set the number of rows to scroll over, including those at the top."""
        size = Size(self.width, rows)
        stays = (
            self.show_vertical_scrollbar
            and size.width == self.virtual_size.width
            and rows > self.scroll_offset.y + self.size.height
        )
        if stays or self.styles.overflow_y == "scroll":
            # Only the scrollbar depends on it, but a plain assignment would lay out the whole
            # screen.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = rows
        else:
            self.virtual_size = size

    def on_resize(self, event: Resize) -> None:
        self.look()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if (
            self._laid_out is not None
            and self.is_attached
            and self._laid_out != (self.width, palette_of(self.app))
        ):
            self.look()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width, base = self.width, self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < self.head:
            return plain_strip(self.head_row(y), self.margin, width, base)
        index = self.scroll_offset.y + y - self.head
        if index >= len(self._source):
            return Strip.blank(width, base)
        row = self._source[index]
        if index == self.marked_row:
            row = row._replace(fill=self._laid_out[1].panel)
        return (
            strip_of(row, index, width, base, None, base)
            if self.bars
            else plain_strip(row, self.margin, width, base)
        )

    @property
    def marked_row(self) -> int:
        """The highlighted row, -1 for none: the cursor's while the view has the focus."""
        return self.cursor if self.has_focus else -1

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    # The cursor

    def row_at(self, y: int) -> int | None:
        """Return the row at a line of the view; None at the title and below the last row."""
        index = self.scroll_offset.y + y - self.head
        return index if y >= self.head and index < len(self._source) else None

    def go_to(self, row: int) -> None:
        """Move the cursor to a row, or the nearest one, and scroll to it."""
        self.cursor = max(0, min(len(self._source) - 1, row))
        self.show_row(self.cursor)

    def show_row(self, row: int) -> None:
        """Scroll as little as possible to make a row visible."""
        self.scroll_to_region(Region(0, row, 1, self.head + 1), animate=False, force=True)
        self.refresh()

    def action_move(self, step: int) -> None:
        """Move the cursor down by `step` rows, or up if it is negative."""
        self.go_to(self.cursor + step)

    def action_move_page(self, direction: int) -> None:
        """Move the cursor a page down (1) or up (-1)."""
        self.action_move(direction * max(1, self.page - 1))

    def action_move_to(self, place: int) -> None:
        """Move the cursor to the first row (0) or the last one (-1)."""
        self.go_to(0 if place == 0 else len(self._source) - 1)
