"""Delivers keys in the order in which they were pressed."""

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

_BURST_MESSAGES = 16
"""With more waiting messages, typed characters are joined."""
_MAX_WAITS = 10
"""How often a key may wait for the focused widget, which may get messages forever."""


class KeyOrder:
    """Delivers a key only after all earlier keys have been handled."""

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[Event], Awaitable[None]],
        intercept: Callable[[Key | Paste], bool],
    ) -> None:
        """
        Args:
            deliver: Textual's own handling.
            intercept: Called when it is a key's turn; True drops it.
        """
        self._app = app
        self._deliver = deliver
        self._intercept = intercept
        self._queue: deque[Key | Paste] = deque()

    async def enqueue(self, event: Key | Paste) -> None:
        is_burst = self._app.message_queue_size >= _BURST_MESSAGES
        if is_burst and isinstance(event, Key):
            event = self._join_waiting(event)
        self._queue.append(event)
        if len(self._queue) == 1:
            await self._deliver_keys()

    def replace(self, *keys: Key) -> None:
        """Deliver these keys after the one that is intercepted, which must be dropped."""
        key = self._queue.popleft()
        self._queue.extendleft(reversed((key, *keys)))

    def _join_waiting(self, key: Key) -> Key:
        """Join a character with those queued behind it, so that a text field is laid out once."""
        if not isinstance(self._app.focused, Input | TextArea) or not _is_letter(key):
            return key
        text = [key.character or ""]
        with suppress(MessagePumpClosed):
            while isinstance(next_key := self._app._peek_message(), Key) and _is_letter(next_key):
                text.append(next_key.character or "")
                self._app._pending_message = None
                self._app._message_queue.task_done()
        if len(text) == 1:
            return key
        return Key("typed", "".join(text))

    async def _deliver_keys(self, wait_count: int = 0) -> None:
        while self._queue:
            event = self._queue[0]
            # Let the widget that gets the key handle its earlier messages first.
            busy = self._busy_receiver(event)
            can_wait = wait_count < _MAX_WAITS
            if busy and can_wait and busy.call_later(self._deliver_keys, wait_count + 1):
                return
            wait_count = 0
            if self._intercept(event):
                self._queue.popleft()
                continue

            focused = self._app.focused
            is_typed = focused is not None and (
                isinstance(event, Paste) or focused.check_consume_key(event.key, event.character)
            )
            await self._deliver(event)
            # A typed character acts at once; another key is followed to its last receiver.
            follow = self._follow_bubbling
            if focused is None or is_typed or not focused.call_later(follow, focused, focused):
                self._queue.popleft()
            else:
                return

    async def _follow_bubbling(self, widget: DOMNode, focused: DOMNode, again: bool = True) -> None:
        """Follow a key through the focused widget's parents to the application. again: once more,
        for the messages caused by the key."""
        parent = widget.parent
        follow = self._follow_bubbling
        if parent is not None and parent.call_later(follow, parent, focused, again):
            return
        if not again or not focused.call_later(follow, focused, focused, False):
            self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._queue.popleft()
        await self._deliver_keys()

    def _busy_receiver(self, event: Key | Paste) -> MessagePump | None:
        focused = self._app.focused
        screen = self._app.screen
        if focused is None:
            is_ready = screen.is_mounted and not screen.message_queue_size
            return None if is_ready else screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        # Only a binding with priority would act before messages that the widget already has.
        active = screen.active_bindings.get(event.key)
        has_priority = active is not None and active.binding.priority
        return focused if has_priority else None


def _is_letter(key: Key) -> bool:
    return key.is_printable and key.character != "`" and not key.is_forwarded
