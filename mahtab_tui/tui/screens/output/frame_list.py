"""The frames of a traceback in lines, one of which is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.tui.rows.fitting import fitted
from mahtab_tui.tui.rows.lines_view import CURSOR_KEYS, LinesView
from mahtab_tui.tui.rows.palette import BOLD, Palette

MOST_LINES = 8
"""Lines of the screen that the frames take."""


class FrameList(LinesView, can_focus=True):
    """In the order of the traceback: the last is where the error was raised."""

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    cursor: reactive[int] = reactive(0)

    class Chosen(Message):
        """Another frame is to be seen."""

    def __init__(self, frames: Sequence[TracebackFrame], at: int) -> None:
        super().__init__()
        self._frames = frames
        self.set_reactive(FrameList.cursor, at)
        self.virtual_size = Size(1, len(frames))
        self.styles.height = min(MOST_LINES, len(frames))

    @property
    def frame(self) -> TracebackFrame:
        return self._frames[self.cursor]

    def on_mount(self) -> None:
        self.call_after_refresh(self._show_cursor)

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.visual_style.rich_style
        index = self.scroll_offset.y + y
        if index >= len(self._frames):
            return Strip.blank(width, base)
        palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        frame, chosen = self._frames[index], index == self.cursor
        function = f"in {one_line(frame.function)}" if frame.function else "does not compile"
        room = max(10, width - 5 - min(cell_len(function), width // 3))
        place = _end_of(f"{one_line(frame.file)}:{frame.line or '?'}", room)
        name = palette.person + BOLD if chosen else palette.text
        style = base + palette.panel if chosen and self.has_focus else base
        return self.strip(
            [("▸ " if chosen else "  ", palette.moon), (place, name), ("  ", name), (fitted(function, width), palette.muted)], width, style
        )

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y
        if index < len(self._frames):
            self.cursor = index

    def action_move(self, step: int) -> None:
        self.cursor = max(0, min(len(self._frames) - 1, self.cursor + step))

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 1))

    def action_move_to(self, place: int) -> None:
        self.cursor = place % len(self._frames)

    def watch_cursor(self) -> None:
        self._show_cursor()
        self.refresh()
        self.post_message(self.Chosen())

    def _show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)


def _end_of(text: str, width: int) -> str:
    """A text in at most so many cells: its end says more than its beginning."""
    if cell_len(text) <= width:
        return text
    text = text[-width:]
    while cell_len(text) >= width:
        text = text[1:]
    return f"…{text}"
