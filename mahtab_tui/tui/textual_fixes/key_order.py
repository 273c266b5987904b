"""Lets keys act in the order in which they were pressed, even if many arrive at once from a slow
line or on a busy machine."""

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
"""So many waiting keys were not typed: they come from a program, or from a paste without bracketed
paste."""
_MOST_WAITS = 10
"""How often a key waits for the focused widget, which may get new messages without end."""


class KeyOrder:
    """Delivers each key to an application once the keys before it have done all their work.

    Textual runs a command's key at once, while letters before it still wait at the focused widget.
    Letters after it are lost while the screen that it opens is composed, or act as keys of the pane
    that had the focus before.
    """

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[Event], Awaitable[None]],
        before: Callable[[Key | Paste], bool],
    ) -> None:
        """deliver: Textual's own handling of a key. before: called when it is a key's turn; if it
        returns True the key is not delivered."""
        self._app = app
        self._deliver = deliver
        self._before = before
        self._typed: deque[Key | Paste] = deque()
        """The keys that wait for their turn."""

    async def take(self, event: Key | Paste) -> None:
        """Take in a key from the terminal."""
        burst = self._app.message_queue_size >= _BURST
        self._typed.append(self._joined(event) if burst and isinstance(event, Key) else event)
        if len(self._typed) == 1:
            await self._take_keys()

    def _joined(self, key: Key) -> Key:
        """Join a character and those that wait behind it into one key, so that a text field is laid
        out once."""
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
        """Deliver keys until one of them has to be waited for. waited: how often the first key has
        waited.

        As long as there are keys, one call is under way. A key is removed when all its work is
        done.
        """
        while self._typed:
            event = self._typed[0]
            first = self._first_to_act(event)
            if (
                first is not None
                and waited < _MOST_WAITS
                and first.call_later(self._take_keys, waited + 1)
            ):
                return
            waited = 0
            if self._before(event):
                self._typed.popleft()
                continue
            focused = self._app.focused
            typed = focused is not None and (
                isinstance(event, Paste) or focused.check_consume_key(event.key, event.character)
            )
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
        """Follow a key from the focused widget through its parents to the application, whose
        message queue it leaves last.

        again: follow once more the same way, for the messages that the key has caused.
        """
        if widget.parent is not None and widget.parent.call_later(
            self._done_by, widget.parent, focused, again
        ):
            return
        if not again or not focused.call_later(self._done_by, focused, focused, False):
            self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._typed.popleft()
        await self._take_keys()

    def _first_to_act(self, event: Key | Paste) -> MessagePump | None:
        """The widget or screen whose messages have to be handled before it is a key's turn; None if
        the key can be delivered."""
        focused, screen = self._app.focused, self._app.screen
        if focused is None:
            return None if screen.is_mounted and not screen.message_queue_size else screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        active = screen.active_bindings.get(event.key)
        return focused if active is not None and active.binding.priority else None


def _is_letter(key: Key) -> bool:
    """Whether a key only inserts a character. (A backtick may change the mode.)"""
    return key.is_printable and key.character != "`" and not key.is_forwarded
