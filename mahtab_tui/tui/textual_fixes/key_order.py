"""Keys act in the order in which they were pressed, also where they come in a bunch: over a slow line, or on a busy machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key, Paste
from textual.message_pump import MessagePump, MessagePumpClosed
from textual.widgets import Input, TextArea

_BURST = 16
"""Keys that wait at once where nobody types them: a program does, or a terminal without bracketed paste pastes."""
_MOST_WAITS = 10
"""How often a key waits for what has the focus: that may be told new things without end."""


class KeyOrder:
    """Hands an application its keys, each when those before it have done all that they do.

    Textual runs a command's key at once, while letters before it still wait at what has the focus; and letters after it go nowhere
    while the screen that it opens is being made, or act as keys of the pane that had the focus before it opened a line.
    """

    def __init__(self, app: App[Any], deliver: Callable[[Event], Awaitable[None]], before: Callable[[Key | Paste], bool]) -> None:
        """deliver: Textual's own way of a key. before: called when it is a key's turn; where it returns True the key is not delivered."""
        self._app = app
        self._deliver = deliver
        self._before = before
        self._typed: deque[Key | Paste] = deque()
        """Keys that wait for their turn."""

    async def take(self, event: Key | Paste) -> None:
        """A key has come from the terminal."""
        burst = self._app.message_queue_size >= _BURST
        self._typed.append(self._with_those_behind(event) if burst and isinstance(event, Key) else event)
        if len(self._typed) == 1:
            await self._take_keys()

    def _with_those_behind(self, key: Key) -> Key:
        """A character with all that wait behind it, as one key: a text field takes them in at once, instead of being laid out for each."""
        if not isinstance(self._app.focused, Input | TextArea) or not _is_letter(key):
            return key
        text = [key.character or ""]
        with suppress(MessagePumpClosed):
            while isinstance(behind := self._app._peek_message(), Key) and _is_letter(behind):
                text.append(behind.character or "")
                self._app._pending_message = None
                self._app._message_queue.task_done()
        return key if len(text) == 1 else Key("typed", "".join(text))

    async def _take_keys(self, waited: int = 0) -> None:
        """waited: how often the first of them has waited already. One call is under way as long as there are any: a key is taken off when
        all that it does is done."""
        while self._typed:
            event = self._typed[0]
            first = self._first_to_act(event)
            if first is not None and waited < _MOST_WAITS and first.call_later(self._take_keys, waited + 1):
                return
            waited = 0
            if self._before(event):
                self._typed.popleft()
                continue
            focused = self._app.focused
            typed = focused is not None and (isinstance(event, Paste) or focused.check_consume_key(event.key, event.character))
            try:
                await self._deliver(event)
            except BaseException:
                self._typed.popleft()
                raise
            if focused is None or typed or not focused.call_later(self._done_by, focused, focused):
                self._typed.popleft()
            else:
                return

    async def _done_by(self, widget: DOMNode, focused: DOMNode, again: bool = True) -> None:
        """A widget has done its part of a key, which goes on to what holds the widget, and at last to the application.

        again: what the key has brought about goes the same way, from what had the focus.
        """
        if widget.parent is not None and widget.parent.call_later(self._done_by, widget.parent, focused, again):
            return
        if not again or not focused.call_later(self._done_by, focused, focused, False):
            self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._typed.popleft()
        await self._take_keys()

    def _first_to_act(self, event: Key | Paste) -> MessagePump | None:
        """What has to do something of its own before a key can have its turn."""
        focused, screen = self._app.focused, self._app.screen
        if focused is None:
            return None if screen.is_mounted and not screen.message_queue_size else screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        active = screen.active_bindings.get(event.key)
        return focused if active is not None and active.binding.priority else None


def _is_letter(key: Key) -> bool:
    """Whether a key puts one character into a text and does nothing else, whatever is before it. (A backtick may change the mode.)"""
    return key.is_printable and key.character != "`" and not key.is_forwarded
