"""Bindings that run in the order in which their keys were pressed."""

from __future__ import annotations

from textual.events import Key
from textual.widget import Widget


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run the widget's own binding of a key at once; call it from `on_key`.

    Textual runs a binding only after its key has bubbled up to the application. If many keys arrive
    together, later letters are typed by then, and Backspace would delete the wrong one.
    """
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return
