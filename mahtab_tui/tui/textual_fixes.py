"""Workarounds for Textual 8.2 (its issues 6605 and 6631).

Others are methods of `CodeArea`, `Dialog`, `TerminalApp` and `TerminalDriver`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from textual.events import Event, InputEvent, Key, Mount, Resize, Timer
from textual.widget import Widget

W = TypeVar("W", bound=Widget)


def is_being_removed(widget: Widget) -> bool:
    return widget._pruning or widget._closing or widget.app._exit


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run the widget's own binding of a key before later letters are inserted; for `on_key`."""
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


def ignores_removed(widget_class: type[W]) -> type[W]:
    """Make a widget class ignore events and refreshes while it is being removed."""
    on_event = widget_class.on_event
    call_after_refresh = widget_class.call_after_refresh

    async def guarded_on_event(self: W, event: Event) -> None:
        if not (is_being_removed(self) and isinstance(event, Mount | Resize | Timer | InputEvent)):
            await on_event(self, event)

    def guarded_call_after_refresh(
        self: W, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        def call() -> Any:
            if is_being_removed(self):
                return None
            return callback(*args, **kwargs)

        return call_after_refresh(self, call)

    widget_class.on_event = guarded_on_event  # type: ignore[method-assign, assignment]
    widget_class.call_after_refresh = guarded_call_after_refresh  # type: ignore[method-assign, assignment]
    return widget_class
