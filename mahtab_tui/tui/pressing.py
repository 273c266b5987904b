"""Keys, presses of the mouse and messages for what is still drawn and already gone."""

from __future__ import annotations

from typing import TypeVar

from textual.events import Event, InputEvent, MouseDown
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from mahtab_tui.tui.terminal_app import TerminalApp

T = TypeVar("T")

RIGHT_BUTTON = 3
"""What a click with the right button of the mouse has as its `button`."""


class PressGuard(TerminalApp[T]):
    """Textual would begin a selection in the parent of the widget, and a widget that was taken away has none; at the very end nor is there
    a screen."""

    async def on_event(self, event: Event) -> None:
        if isinstance(event, InputEvent) and not self.screen_stack:
            return
        if not (isinstance(event, MouseDown) and _is_gone(self.screen, event)):
            await super().on_event(event)

    async def _on_message(self, message: Message) -> None:
        if isinstance(message._sender, Widget) and not self.screen_stack:
            return
        await super()._on_message(message)


def _is_gone(screen: Screen[object], event: MouseDown) -> bool:
    widget, _ = screen.get_widget_and_offset_at(event.x, event.y)
    return widget is not None and not isinstance(widget, Screen) and widget.parent is None
