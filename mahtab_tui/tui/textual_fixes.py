"""Workarounds for Textual: the list of all, and those that belong to no widget of ours.

All are needed with Textual 8.2.8. Those marked with * are tried without our code by
`tests/tui/test_textual_fixes.py`: when a new version of Textual makes a test fail there, Textual
has it repaired, and the workaround can go.

What Textual does, where it is reported, and what works around it:

- * Types sequences that it does not know, and reads no key after an impossible number. Issues 3742
  (closed, repaired in part) and 6573 (open); `key_parser.KeyParser`.
- * Lets a key with priority overtake letters. Issue 1009 (closed); `key_order.KeyOrder`.
- * Lets letters overtake Backspace in a text field. Issue 6605 and pull request 6631 (open);
  `run_own_binding`.
- * Mounts and resizes a widget that is being removed. Not reported; `ignores_removed`.
- * Raises for a click on an option that was removed, and for a page key in a list without space.
  Not reported; `Options` in `widgets/options.py`.
- * Closes the screen below, or raises, when a screen is dismissed twice. Issue 4884 (open);
  `Dialog.dismiss` in `dialog.py`.
- Raises for a key without a screen, and for a press on a removed widget. Not reported;
  `TerminalApp.on_event` and `_on_message` in `terminal_app.py`.
- Highlights all lines at each edit (pull request 5642, open), never frees the tree of a document,
  and others; the end of `CodeArea` in `editor/code_area.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from textual.events import Event, InputEvent, Key, Mount, Resize, Timer
from textual.widget import Widget

W = TypeVar("W", bound=Widget)


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run the widget's own binding of a key at once; for the `on_key` of a text field.

    Textual handles a letter at once, but hands Backspace on to the application, which runs its
    binding after the letters that were typed later.
    """
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


def is_being_removed(widget: Widget) -> bool:
    """Return whether a widget is about to leave the screen, alone or with the whole application."""
    return widget._pruning or widget._closing or widget.app._exit


def ignores_removed(widget_class: type[W]) -> type[W]:
    """Make a widget class ignore events and refreshes while it is being removed.

    Textual still hands it those that were on their way. Its handlers would look for children that
    are gone, or have never been there.
    """
    on_event = widget_class.on_event
    call_after_refresh = widget_class.call_after_refresh

    async def on_event_if_present(self: W, event: Event) -> None:
        needs_children = isinstance(event, Mount | Resize | Timer | InputEvent)
        if not (needs_children and is_being_removed(self)):
            await on_event(self, event)

    def call_after_refresh_if_present(
        self: W, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        def call() -> Any:
            if is_being_removed(self):
                return None
            return callback(*args, **kwargs)

        return call_after_refresh(self, call)

    widget_class.on_event = on_event_if_present  # type: ignore[method-assign, assignment]
    widget_class.call_after_refresh = call_after_refresh_if_present  # type: ignore[method-assign, assignment]
    return widget_class
