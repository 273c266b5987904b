"""Keys that act in the order in which they were pressed."""

from __future__ import annotations

from textual.events import Key
from textual.widget import Widget


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run what the widget itself has bound to a key, for its `on_key`.

    Textual runs a binding when its key, which no widget wanted, has travelled up to the application. Letters that came after it are typed by
    then: where keys come in a bunch, over a slow line or on a busy machine, Backspace would take the wrong letter.
    """
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return
