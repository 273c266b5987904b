"""Delivers keys and pastes in the order in which they were pressed.

Works around Textual (8.2.8), which hands each key to the focused widget's queue of messages, and
does not wait until it is handled there. When keys arrive in a burst, from a slow line, a macro or a
busy machine:

- A binding with priority acts before letters that were typed earlier.
- Letters typed after a key that opens a screen, or moves the focus, are lost or go to the old
  widget.

Issue 1009 of Textual describes this, and was closed without a queue for keys.
`tests/tui/test_textual_fixes.py` tries it on the installed version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeGuard

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.message_pump import MessagePump, MessagePumpClosed
from textual.widgets import Input, TextArea

_BURST_MESSAGES = 16
"""When more messages wait for the application, typed characters are joined."""
_MAX_WAITS = 10
"""How often a key waits for the focused widget, which may get messages forever."""
_BUBBLING_ROUNDS = 2
"""How often the way of a key is followed: once for the key itself, and once for the messages that it has
caused."""


class KeyOrder:
    """Delivers a key only after all earlier keys have been handled. Main thread only."""

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[Event], Awaitable[None]],
        intercept: Callable[[Key | Paste], bool],
        on_handled: Callable[[], object],
    ) -> None:
        """
        Args:
            app: The application whose keys these are.
            deliver: Textual's own handling of an event, `App.on_event`.
            intercept: Called when it is a key's turn. Returns True if the key needs no delivery.
            on_handled: Called when a key has been handled.
        """
        self._app = app
        self._deliver = deliver
        self._intercept = intercept
        self._on_handled = on_handled
        self._queue: deque[Key | Paste] = deque()
        """The first one is being handled."""

    async def enqueue(self, event: Key | Paste) -> None:
        """Deliver a key or a paste when it is its turn. For the application's `on_event`."""
        is_burst = self._app.message_queue_size >= _BURST_MESSAGES
        if is_burst and isinstance(event, Key):
            event = self._join_waiting_letters(event)
        self._queue.append(event)
        if len(self._queue) == 1:
            await self._deliver_queue()

    def replace(self, *keys: Key) -> None:
        """Deliver these keys instead of the intercepted one, for which `intercept` must return
        True."""
        for position, key in enumerate(keys, start=1):
            self._queue.insert(position, key)

    def _join_waiting_letters(self, key: Key) -> Key:
        """Join a letter with those behind it, so that a text field is laid out once for all.

        Returns a key whose character is the whole text, or the same key.
        """
        if not isinstance(self._app.focused, Input | TextArea) or not _is_letter(key):
            return key
        letters = [key.character or ""]
        with suppress(MessagePumpClosed):
            while _is_letter(next_key := self._app._peek_message()):
                letters.append(next_key.character or "")
                # Take the message that was peeked at.
                self._app._pending_message = None
                self._app._message_queue.task_done()
        if len(letters) == 1:
            return key
        return Key("typed", "".join(letters))

    async def _deliver_queue(self, wait_count: int = 0) -> None:
        """Deliver keys until one of them must be waited for; the rest is delivered after that.

        Args:
            wait_count: How often the first key has waited for its receiver.
        """
        while self._queue:
            event = self._queue[0]
            # Let the widget that gets the key handle its earlier messages first.
            receiver = self._busy_receiver(event)
            if receiver is not None and wait_count < _MAX_WAITS:
                is_waiting = receiver.call_later(self._deliver_queue, wait_count + 1)
                if is_waiting:
                    return
            wait_count = 0

            is_followed = not self._intercept(event) and await self._deliver_and_follow(event)
            if is_followed:
                return
            self._finish_key()

    async def _deliver_and_follow(self, event: Key | Paste) -> bool:
        """Deliver a key, and follow it to its last receiver, after which the next one is delivered.

        Return False if it needs not be followed: typed text acts at once, and so does a key that no
        widget gets.
        """
        # The key may move the focus.
        focused = self._app.focused
        is_typed = self._is_typed_text(event)
        await self._deliver(event)
        if focused is None or is_typed:
            return False
        return focused.call_later(self._follow_bubbling, focused, focused, _BUBBLING_ROUNDS)

    def _finish_key(self) -> None:
        """Remove the key that has been handled from the queue."""
        self._queue.popleft()
        self._on_handled()

    def _busy_receiver(self, event: Key | Paste) -> MessagePump | None:
        """Return who must handle earlier messages before it gets a key.

        None if the key can be delivered.
        """
        focused = self._app.focused
        if focused is None:
            screen = self._app.screen
            if screen.is_mounted and not screen.message_queue_size:
                return None
            return screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        # Other keys join the messages that the widget already has; only a binding with priority would
        # act before them.
        active = self._app.screen.active_bindings.get(event.key)
        if active is not None and active.binding.priority:
            return focused
        return None

    def _is_typed_text(self, event: Key | Paste) -> bool:
        """Return whether the focused widget inserts the key or the paste as text."""
        focused = self._app.focused
        if focused is None:
            return False
        return isinstance(event, Paste) or focused.check_consume_key(event.key, event.character)

    async def _follow_bubbling(self, widget: DOMNode, focused: DOMNode, rounds: int) -> None:
        """Follow a key through the queues of the focused widget and its parents to the application's.

        When a call of this method reaches a queue, all that the key has put there has been handled. At
        the end it is the turn of the next key.

        Args:
            widget: The widget whose queue has been reached.
            focused: The widget at which the key started.
            rounds: How often to go the whole way, this time included.
        """
        parent = widget.parent
        if parent is not None and parent.call_later(self._follow_bubbling, parent, focused, rounds):
            return
        if rounds > 1 and focused.call_later(self._follow_bubbling, focused, focused, rounds - 1):
            return
        self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        """End the key that was followed, and deliver those behind it."""
        self._finish_key()
        await self._deliver_queue()


def _is_letter(message: Message | None) -> TypeGuard[Key]:
    """Return whether a message types a character.

    A backtick does not always: it changes the editor's mode.
    """
    return (
        isinstance(message, Key)
        and message.is_printable
        and message.character != "`"
        and not message.is_forwarded
    )
