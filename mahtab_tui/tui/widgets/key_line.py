"""The line of keys at the bottom, and the splitters between panes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.binding import ActiveBinding
from textual.content import Content
from textual.events import (
    Leave,
    MouseDown,
    MouseMove,
    MouseScrollDown,
    MouseScrollLeft,
    MouseScrollRight,
    MouseScrollUp,
    MouseUp,
)
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

_STEP = 8


class Key(NamedTuple):
    """A key in the line. A click presses it."""

    key: str
    shown: str
    description: str
    enabled: bool
    tooltip: str

    @property
    def parts(self) -> tuple[str, str]:
        return f" {self.shown} ", f"{self.description} "


class KeyLine(Widget):
    """Shows the keys that currently do something, each with its effect. It looks like Textual's
    `Footer`.

    That creates a widget per key, and recreates them whenever the focus moves; this one draws a
    line.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "key-line--key",
        "key-line--description",
        "key-line--hover",
    }
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        &:hover { pointer: pointer; }
    }
    KeyLine > .key-line--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
    KeyLine > .key-line--description { color: $footer-description-foreground; background: $footer-description-background; }
    KeyLine > .key-line--hover { background: $block-hover-background; }
    """

    keys: tuple[Key, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        self._hovered: Key | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._find_keys)

    def _find_keys(self, screen: Screen[object]) -> None:
        if not self.app.app_focus:  # the focused widget comes back with it
            return
        first: dict[str, ActiveBinding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show:
                first.setdefault(active.binding.action, active)
        keys = tuple(
            Key(each.key, self.app.get_key_display(each), each.description, enabled, tooltip)
            for _, each, enabled, tooltip in first.values()
        )
        if keys != self.keys:
            self.keys = keys
            self._scroll(0)

    def render_line(self, y: int) -> Strip:
        key_style, text_style, hover_style = (
            self.get_component_rich_style(f"key-line--{name}")
            for name in ("key", "description", "hover")
        )
        segments: list[Segment] = []
        for key in self.keys:
            more = Style() if key.enabled else Style(dim=True)
            if key is self._hovered:
                more = Style(bgcolor=hover_style.bgcolor)
            shown, description = key.parts
            segments += [Segment(shown, key_style + more), Segment(description, text_style + more)]
        return Strip(segments).crop_extend(
            self._left, self._left + self.size.width, self.rich_style
        )

    def _widths(self) -> list[int]:
        return [cell_len("".join(key.parts)) for key in self.keys]

    def _at(self, x: int) -> Key | None:
        for key, end in zip(self.keys, accumulate(self._widths()), strict=True):
            if x + self._left < end:
                return key
        return None

    def _scroll(self, columns: int) -> None:
        self._left = max(0, min(self._left + columns, sum(self._widths()) - self.size.width))
        self.refresh()

    def on_mouse_down(self, event: MouseDown) -> None:
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: MouseMove) -> None:
        self._hover(self._at(event.x))

    def on_leave(self, event: Leave) -> None:
        self._hover(None)

    def _hover(self, key: Key | None) -> None:
        if key is not self._hovered:
            self._hovered = key
            self.tooltip = (key.tooltip or None) if key is not None else None
            self.refresh()

    @on(MouseScrollDown)
    @on(MouseScrollRight)
    def _scroll_right(self) -> None:
        self._scroll(_STEP)

    @on(MouseScrollUp)
    @on(MouseScrollLeft)
    def _scroll_left(self) -> None:
        self._scroll(-_STEP)


class Splitter(Widget):
    """Reports where it is dragged to; its parent resizes the panes."""

    @dataclass
    class Dragged(Message):
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
