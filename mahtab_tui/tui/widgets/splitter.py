"""A line between two panes that the user can drag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.content import Content
from textual.events import MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.widget import Widget


class Splitter(Widget):
    """Reports where it is dragged to; its parent resizes the panes."""

    @dataclass
    class Dragged(Message):
        """The user has dragged it to a position on the screen."""

        splitter: Splitter
        x: int
        y: int

    def __init__(
        self, direction: Literal["vertical", "horizontal"], *, id: str | None = None
    ) -> None:
        super().__init__(id=id, classes=f"-{direction}")
        self._line = "│" if direction == "vertical" else "─"

    def render(self) -> Content:
        if self._line == "─":
            return Content("─" * self.size.width)
        return Content("\n".join("│" * self.size.height))

    def on_mouse_down(self, event: MouseDown) -> None:
        event.stop()
        self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        if self.app.mouse_captured is self:
            event.stop()
            self.post_message(self.Dragged(self, event.screen_x, event.screen_y))

    def on_mouse_up(self, event: MouseUp) -> None:
        self.release_mouse()
