"""A long text, of which only what is seen is laid out."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual.events import Resize
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


class TextView(ScrollView, can_focus=True):
    """Plain text that scrolls; wraps lines at the width, or scrolls sideways."""

    text: reactive[str] = reactive("")
    wrapped: reactive[bool] = reactive(True)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[str] = []

    def on_resize(self, event: Resize) -> None:
        if self.wrapped:
            self._lay_out()

    def watch_text(self) -> None:
        self._lay_out()

    def watch_wrapped(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(10, self.scrollable_content_region.width)
        lines = [line.expandtabs(4) for line in self.text.split("\n")]
        if self.wrapped:
            lines = [piece for line in lines for piece in (chop_cells(line, width) if len(line) * 2 > width else [line])]
        self._lines = lines
        widest = width if self.wrapped else max(map(cell_len, lines), default=0)
        self.virtual_size = Size(widest, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        x, top = self.scroll_offset
        width = self.scrollable_content_region.width
        style = self.visual_style.rich_style
        index = top + y
        line = self._lines[index] if index < len(self._lines) else ""
        return Strip([Segment(line, style)]).crop_extend(x, x + width, style)
