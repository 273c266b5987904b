"""The list of the frames of a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, fitted
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS, RowsView

MOST_LINES = 8
"""Lines of the screen that the frames take at most."""


class FrameRows:
    """A `RowSource`: a row for each frame."""

    def __init__(self, frames: Sequence[TracebackFrame], chosen: int) -> None:
        self.frames = frames
        self.chosen = chosen

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = width, palette

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> Row:
        width, palette = self._width, self._palette
        frame, chosen = self.frames[index], index == self.chosen
        function = f"in {one_line(frame.function)}" if frame.function else "does not compile"
        room = max(10, width - 5 - min(cell_len(function), width // 3))
        place = _end_of(f"{one_line(frame.file)}:{frame.line or '?'}", room)
        name = palette.person + BOLD if chosen else palette.text
        return Row(
            [
                ("▸ " if chosen else "  ", palette.moon),
                (place, name),
                ("  ", name),
                (fitted(function, width), palette.muted),
            ]
        )


class FrameList(RowsView, can_focus=True):
    """Lists frames in the order of the traceback: the last one raised the error."""

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    class FrameChanged(Message):
        """The cursor is on another frame."""

    def __init__(self, frames: Sequence[TracebackFrame], at: int) -> None:
        self._frames = FrameRows(frames, at)
        super().__init__(self._frames)
        self.set_reactive(FrameList.cursor, at)
        self.styles.height = min(MOST_LINES, len(frames))

    @property
    def at(self) -> int:
        return self._frames.chosen

    @property
    def frame(self) -> TracebackFrame:
        return self._frames.frames[self.at]

    def on_mount(self) -> None:
        self.call_after_refresh(self.show_row, self.at)

    def on_click(self, event: Click) -> None:
        if (row := self.row_at(event.y)) is not None:
            self.go_to(row)

    def watch_cursor(self, cursor: int) -> None:
        self._frames.chosen = cursor
        self.post_message(self.FrameChanged())


def _end_of(text: str, width: int) -> str:
    """Cut the beginning of a text that has more cells, because its end says more."""
    if cell_len(text) <= width:
        return text
    text = text[-width:]
    while cell_len(text) >= width:
        text = text[1:]
    return f"…{text}"
