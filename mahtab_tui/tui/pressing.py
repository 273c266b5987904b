"""Presses of the mouse on what is still drawn and already gone."""

from __future__ import annotations

from typing import TypeVar

from textual.events import Event, MouseDown
from textual.screen import Screen

from mahtab_tui.tui.terminal_app import TerminalApp

T = TypeVar("T")


class PressGuard(TerminalApp[T]):
    """Textual would begin a selection in the parent of the widget, and a widget that was taken away has none."""

    async def on_event(self, event: Event) -> None:
        if not (isinstance(event, MouseDown) and self.screen_stack and _is_gone(self.screen, event)):
            await super().on_event(event)


def _is_gone(screen: Screen[object], event: MouseDown) -> bool:
    widget, _ = screen.get_widget_and_offset_at(event.x, event.y)
    return widget is not None and not isinstance(widget, Screen) and widget.parent is None
