"""Widgets that receive events while they are being removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from textual.events import Event, InputEvent, Mount, Resize, Timer
from textual.widget import Widget

W = TypeVar("W", bound=Widget)


def is_leaving(widget: Widget) -> bool:
    """Whether a widget is being removed, or its application is ending."""
    return widget._pruning or widget._closing or widget.app._exit


def removable(widget_class: type[W]) -> type[W]:
    """Decorate a widget class so that its instances ignore events and refreshes once they are being
    removed.

    Textual still mounts, resizes and ticks such a widget, although its children may be gone or may
    never have been mounted.
    """
    on_event, call_after_refresh = widget_class.on_event, widget_class.call_after_refresh

    async def guarded_on_event(self: W, event: Event) -> None:
        if not (is_leaving(self) and isinstance(event, Mount | Resize | Timer | InputEvent)):
            await on_event(self, event)

    def guarded_call_after_refresh(
        self: W, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        def call() -> Any:
            return None if is_leaving(self) else callback(*args, **kwargs)

        return call_after_refresh(self, call)

    widget_class.on_event = guarded_on_event  # type: ignore[method-assign, assignment]
    widget_class.call_after_refresh = guarded_call_after_refresh  # type: ignore[method-assign, assignment]
    return widget_class
