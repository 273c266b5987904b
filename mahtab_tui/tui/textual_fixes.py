"""Workarounds for Textual 8.2 (its issues 3742, 4884, 6605 and 6631).

Others are methods of `CodeArea`, `Dialog`, `TerminalApp` and `TerminalDriver`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.dom import DOMNode
from textual.events import Click, Event, InputEvent, Key, Mount, Paste, Resize, Timer
from textual.keys import _character_to_key
from textual.message import Message
from textual.message_pump import MessagePump, MessagePumpClosed
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, TextArea

from mahtab_tui.tui.theme import get_palette

LONGEST_SEQUENCE = 32
LONGEST_PENDING = 256
MAX_SILENCES = 10
"""After so many calls of `flush_pending` without input, the rest of a sequence is no longer
expected."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[[IO])+(?=\x1b\[[IO])"  # only the last of several reports of the focus counts
    r"|\x1b\[(?:<[-+.;\da-ln-zA-LN-Z]{0,32}[Mm]"  # the mouse, also with malformed numbers
    r"|[0-?]*[ -/]*(?:(?P<final>[@-~])|(?=\x1b|\Z)))"  # CSI
    r"|\x1b(?:\][\dlLI]|[PX^_])[^\x00-\x1f\x7f\x9c]*(?:\x1b\\|[\x07\x9c])"  # OSC, DCS, SOS, PM, APC
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[(?:<[-+.;\da-ln-zA-LN-Z]{0,32}|[0-?]*[ -/]*)|O|(?:\]|[PX^_])[^\x00-\x1f\x7f\x9c]*\x1b?)?\Z"
)
_AFTER_ESCAPE = re.compile(
    r"\[(?:<\d[\d;]*(?:[Mm]|\Z)|20[01]~|[\d;]*[~ABCDEFHIOPQRSZu])|O[A-DFHM-S]\Z"
)
"""The rest of a sequence whose escape character was already read as the Escape key. It is not typed:
it arrives at once, and typed characters arrive one by one."""
_REPLY_START = re.compile(r"\x1b(?:\[|O\Z|\]\d+;|P[\d>!+$|]|_G)")
"""The beginning of what only a terminal sends; Alt and a letter begin differently."""
_LATE_KEYS = frozenset(("\x1b[", "\x1bO"))
"""Keys with Alt that may also be the beginning of another key, or of a mouse report, whose rest a
slow line brings later."""
_ALT_SIGN = re.compile(r"(?<!\x1b)\x1b([ -/:-@\\`{|}~0-9\x7f])")
"""Alt with a character with which no sequence begins."""
_MOUSE = re.compile(r"\x1b\[<\d+;-?\d+;-?\d+[Mm]")
_FINALS = {keys[-1] for keys in ANSI_SEQUENCES_KEYS if keys.startswith("\x1b[")} | set(
    "u~ABCDEFHPQRSIOty["
)
_SIZE = re.compile(r"\x1b\[48(?:;0*[1-9]\d{0,3}){4}t")
"""A possible size of the terminal."""
_LONE_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[\d;:]*[u~]")


class KeyParser(XTermParser):
    """Drops unreadable sequences and impossible sizes, and takes a paste as a whole."""

    def __init__(
        self, debug: bool = False, take_reply: Callable[[str], bool] = lambda sequence: False
    ) -> None:
        """take_reply: gets each whole sequence, and returns True if it was a reply to a query."""
        super().__init__(debug)
        self._take_reply = take_reply
        self._pending = ""
        self._pasted: list[str] | None = None
        self._silent = False
        self._silences = 0
        """Calls of `flush_pending` since the last input."""
        self._sent_escape = False
        """Whether the last input was an escape character, which has been read as the Escape key."""

    def feed(self, data: str) -> Iterable[Message]:
        if self._pasted is not None and self._silent and _LONE_KEY.fullmatch(data):
            data = BRACKETED_PASTE_END + data  # the end of the paste was lost
        # The rest of a sequence has come late: its escape character was read as the Escape key.
        if self._sent_escape and self._silences <= MAX_SILENCES and _AFTER_ESCAPE.match(data):
            data = "\x1b" + data
        self._sent_escape = False
        self._silences = 0
        data = self._pending + data
        self._pending = ""
        self._silent = False
        while data:
            if self._pasted is None:
                typed, mark, data = data.partition(BRACKETED_PASTE_START)
                yield from self._feed_typed(typed, is_last=not mark)
                if mark:
                    self._pasted = []
            else:
                text, mark, data = data.partition(BRACKETED_PASTE_END)
                self._pasted.append(text if mark else self._hold_back_mark(text))
                if mark:
                    pasted = "".join(self._pasted)
                    self._pasted = None
                    yield Paste(pasted.replace("\x00", ""))

    def _feed_typed(self, typed: str, *, is_last: bool) -> Iterable[Message]:
        """Read keys. The start of a sequence at the end of the last input waits for its rest."""
        if is_last and (unfinished := _UNFINISHED.search(typed)):
            typed = typed[: unfinished.start()]
            self._pending = unfinished[0][:LONGEST_PENDING]
        if typed := _SEQUENCE.sub(self._readable, typed):
            yield from self._feed_keys(typed)

    def _hold_back_mark(self, text: str) -> str:
        """Return a pasted text without what may be the start of the mark that ends the paste."""
        for length in range(len(BRACKETED_PASTE_END) - 1, 0, -1):
            if text.endswith(BRACKETED_PASTE_END[:length]):
                self._pending = text[-length:]
                return text[:-length]
        return text

    def _feed_keys(self, typed: str) -> Iterable[Message]:
        """Read keys. Textual would read Alt with a sign as the sign, and Alt+Backspace as Ctrl+W."""
        for index, piece in enumerate(_ALT_SIGN.split(typed)):
            if index % 2:
                name = "backspace" if piece == "\x7f" else _character_to_key(piece)
                yield Key(f"alt+{name}", None)
            elif piece:  # an empty text would end the parser
                yield from super().feed(piece)

    def flush_pending(self) -> Iterable[Message]:
        """Read a pending escape character as the Escape key, and drop a sequence whose rest does not
        come. Call it after every tenth of a second without input."""
        self._silent = True
        self._silences += 1
        if self._pasted is None:
            yield from self._flush_unfinished()
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        yield from self.tick()

    def _flush_unfinished(self) -> Iterable[Message]:
        """Read the pending characters as keys, unless the rest of a terminal's reply may come."""
        pending = self._pending
        if not pending:
            return
        is_late = self._silences >= MAX_SILENCES
        is_key = pending in ANSI_SEQUENCES_KEYS or (pending in _LATE_KEYS and is_late)
        if not is_key and _REPLY_START.match(pending):
            if is_late or len(pending) >= LONGEST_PENDING:
                self._pending = ""
            return
        self._pending = ""
        self._sent_escape = pending == "\x1b"
        if len(pending) <= LONGEST_SEQUENCE:
            yield from super().feed(pending)

    def _readable(self, found: re.Match[str]) -> str:
        sequence, final = found[0], found["final"]
        if self._take_reply(sequence):
            return ""
        readable = final in _FINALS and len(sequence) <= LONGEST_SEQUENCE
        if final == "t" and sequence.startswith("\x1b[48;") and not _SIZE.fullmatch(sequence):
            return ""
        return sequence if readable or _MOUSE.fullmatch(sequence) else ""

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        def take(token: Message) -> None:
            if isinstance(token, Key) and token.key.startswith("alt+"):
                token.character = None  # otherwise an unknown key would type its letter
            character = token.character if isinstance(token, Key) else None
            if not character or not "\ud800" <= character <= "\udfff":
                token_callback(token)

        while not self.is_eof:
            # The next character starts a key.
            with suppress(ArithmeticError, ValueError):
                yield from super().parse(take)


_BURST = 16
_MOST_WAITS = 10
"""How often a key may wait for the focused widget, which may get messages forever."""


class KeyOrder:
    """Delivers a key only after all earlier keys have been handled."""

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[Event], Awaitable[None]],
        intercept: Callable[[Key | Paste], bool],
    ) -> None:
        """deliver: Textual's own handling. intercept: called when it is a key's turn; True drops
        it."""
        self._app = app
        self._deliver = deliver
        self._intercept = intercept
        self._queue: deque[Key | Paste] = deque()

    async def enqueue(self, event: Key | Paste) -> None:
        burst = self._app.message_queue_size >= _BURST
        self._queue.append(self._join_waiting(event) if burst and isinstance(event, Key) else event)
        if len(self._queue) == 1:
            await self._deliver_keys()

    def _join_waiting(self, key: Key) -> Key:
        """Join a character with those queued behind it, so that a text field is laid out once."""
        if not isinstance(self._app.focused, Input | TextArea) or not _is_letter(key):
            return key
        text = [key.character or ""]
        with suppress(MessagePumpClosed):
            while isinstance(behind := self._app._peek_message(), Key) and _is_letter(behind):
                text.append(behind.character or "")
                self._app._pending_message = None
                self._app._message_queue.task_done()
        return key if len(text) == 1 else Key("typed", "".join(text))

    async def _deliver_keys(self, waited: int = 0) -> None:
        while self._queue:
            event = self._queue[0]
            first = self._busy_receiver(event)
            if (
                first is not None
                and waited < _MOST_WAITS
                and first.call_later(self._deliver_keys, waited + 1)
            ):
                return
            waited = 0
            if self._intercept(event):
                self._queue.popleft()
                continue
            focused = self._app.focused
            typed = focused is not None and (
                isinstance(event, Paste) or focused.check_consume_key(event.key, event.character)
            )
            await self._deliver(event)
            follow = self._follow_bubbling
            if focused is None or typed or not focused.call_later(follow, focused, focused):
                self._queue.popleft()
            else:
                return

    async def _follow_bubbling(self, widget: DOMNode, focused: DOMNode, again: bool = True) -> None:
        """Follow a key through the focused widget's parents to the application. again: once more,
        for the messages caused by the key."""
        parent, follow = widget.parent, self._follow_bubbling
        if parent is not None and parent.call_later(follow, parent, focused, again):
            return
        if not again or not focused.call_later(follow, focused, focused, False):
            self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._queue.popleft()
        await self._deliver_keys()

    def _busy_receiver(self, event: Key | Paste) -> MessagePump | None:
        focused, screen = self._app.focused, self._app.screen
        if focused is None:
            return None if screen.is_mounted and not screen.message_queue_size else screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        active = screen.active_bindings.get(event.key)
        return focused if active is not None and active.binding.priority else None


def _is_letter(key: Key) -> bool:
    return key.is_printable and key.character != "`" and not key.is_forwarded


def is_being_removed(widget: Widget) -> bool:
    return widget._pruning or widget._closing or widget.app._exit


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run the widget's own binding of a key before later letters are inserted; for `on_key`."""
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


class Options(OptionList):
    """One line for each option. Ignores clicks on a removed option that is still drawn."""

    DEFAULT_CSS = "Options { text-wrap: nowrap; text-overflow: ellipsis; }"

    async def _on_click(self, event: Click) -> None:
        option = event.style.meta.get("option")
        if option is not None and option >= self.option_count:
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        lines, at = self._lines, self.scroll_offset.y + y
        if not 0 <= at < len(lines) or lines[at][0] != self.highlighted:
            return strip
        muted = get_palette(self.app).muted.color
        plain = Style(color=self.get_component_rich_style("option-list--option-highlighted").color)
        segments = []
        for text, style, _ in strip:
            quiet = style is not None and style.color == muted
            segments.append(Segment(text, style + plain if style and quiet else style))
        return Strip(segments, strip.cell_length)


W = TypeVar("W", bound=Widget)


def ignores_removed(widget_class: type[W]) -> type[W]:
    """Make a widget class ignore events and refreshes while it is being removed."""
    on_event, call_after_refresh = widget_class.on_event, widget_class.call_after_refresh

    async def guarded_on_event(self: W, event: Event) -> None:
        if not (is_being_removed(self) and isinstance(event, Mount | Resize | Timer | InputEvent)):
            await on_event(self, event)

    def guarded_call_after_refresh(
        self: W, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        def call() -> Any:
            return None if is_being_removed(self) else callback(*args, **kwargs)

        return call_after_refresh(self, call)

    widget_class.on_event = guarded_on_event  # type: ignore[method-assign, assignment]
    widget_class.call_after_refresh = guarded_call_after_refresh  # type: ignore[method-assign, assignment]
    return widget_class
