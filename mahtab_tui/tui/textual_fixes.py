"""Workarounds for Textual 8.2. Each can be removed once Textual is fixed.

| class | what Textual does | upstream |
| --- | --- | --- |
| `KeyOrder` | runs a priority binding while earlier letters still wait | - |
| `run_own_binding` | runs Backspace after letters that were typed later | 6605, 6631 |
| `KeySequences` | types unknown sequences; raises on impossible numbers; slow pastes | 3742 |
| `VisibleHighlights` | asks tree-sitter for all lines at each edit | 5642 |
| `LayoutEvents` | does not report a layout after a region was looked up | 5024 |
| `SafeCommandPalette`, `ignores_removed` | fail while they are being removed | 4884 |

Others are methods of the classes that need them: `CodeArea`, `Dialog.dismiss`, `TerminalApp` and
`TerminalDriver`."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._compositor import Compositor, ReflowResult
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.events import Click, Event, InputEvent, Key, Mount, Paste, Resize, Timer
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import MessagePump, MessagePumpClosed
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, TextArea

from mahtab_tui.tui.theme import get_palette

if TYPE_CHECKING:
    from tree_sitter import Language, Query


LONGEST_SEQUENCE = 32
LONGEST_TYPED = 256
LARGEST = 10_000
"""Maximum columns or lines of a terminal."""

_SEQUENCE = re.compile(
    r"(?P<focus>(?:\x1b\[[IO])+(?=\x1b\[[IO]))"
    r"|(?P<mouse>\x1b\[<[-+.;\w]{0,32}?)(?:(?P<button>[Mm])|\Z)"  # also with malformed numbers
    r"|(?P<no_numbers>\x1b\[[=>?]?(?:[-+.:;\d]*(?:NaN|Infinity|null|undefined))+[-+.:;\d]*[@-~])"
    r"|(?P<control>\x1b\[[0-?]*[ -/]*)(?P<final>[@-~])?"  # CSI
    r"|(?P<string>\x1b(?:\][\dlLI]|[PX^_])[^\x00-\x1f\x7f\x9c]*)(?:(?P<end>\x1b\\|[\x07\x9c])|\x1b\Z)?"  # OSC, DCS, SOS, PM, APC
    r"|(?P<escape>\x1b)\Z"
)
_MOUSE = re.compile(r"\x1b\[<\d+;-?\d+;-?\d+[Mm]")
_FINALS = {keys[-1] for keys in ANSI_SEQUENCES_KEYS if keys.startswith("\x1b[")} | set(
    "u~ABCDEFHPQRSMmIOty["
)
"""Final characters of sequences for keys, the mouse, the focus, sizes and modes."""
_PASTED_ESCAPE = "\ufdd0"
"""Replaces Escape within a paste; no valid text contains this character."""
_LONE_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[\d;:]*[u~]")


class KeySequences:
    """Passes on key, mouse and paste sequences, even if they are split over several reads."""

    def __init__(self) -> None:
        self._pending = ""
        self._pasting = False
        self._silent = False

    def filter_input(self, typed: str) -> str:
        if (
            self._pasting
            and self._silent
            and typed != BRACKETED_PASTE_END
            and _LONE_KEY.fullmatch(typed)
        ):
            # The end of the paste was lost, and the user pressed a key.
            typed = BRACKETED_PASTE_END + typed
        if self._silent and len(typed) == 1 and self._exceeds_typed_length():
            self._pending = ""  # the end of the sequence was lost, and the user pressed a key
        typed, self._pending, self._silent = self._pending + typed, "", False
        passed = []
        while typed:
            if self._pasting:
                text, mark, typed = typed.partition(BRACKETED_PASTE_END)
                if not mark:
                    text, self._pending = _split_incomplete(text, BRACKETED_PASTE_END)
                text = text.replace("\x1b", _PASTED_ESCAPE)
            else:
                text, mark, typed = typed.partition(BRACKETED_PASTE_START)
                text = self._drop_unreadable(text, last=not mark)
            self._pasting ^= bool(mark)
            passed += [text, mark]
        return "".join(passed)

    def flush_pending(self) -> str:
        """Return the pending input if it may be a key, because nothing followed."""
        self._silent = True
        if self._pasting or self._exceeds_typed_length():  # the rest may still come
            return ""
        pending, self._pending = self._pending, ""
        return pending

    def _exceeds_typed_length(self) -> bool:
        return len(self._pending) > (
            LONGEST_SEQUENCE if self._pending.startswith("\x1b[") else LONGEST_TYPED
        )

    def _drop_unreadable(self, text: str, *, last: bool) -> str:
        """Drop everything that is not a key. last: whether this is the end of the input."""

        def readable(found: re.Match[str]) -> str:
            goes_on = last and found.end() == len(text)
            whole, passes = found[0], False
            if found["focus"] or found["no_numbers"]:
                pass  # only the last of several reports of the focus counts
            elif found["button"]:
                passes = _MOUSE.fullmatch(whole) is not None
            elif found["mouse"]:
                self._pending = whole if last else ""
            elif found["escape"] and last:  # the Escape key, or the start of a sequence
                self._pending = whole
            elif found["string"]:
                return self._string(whole, ended=bool(found["end"]), goes_on=goes_on)
            elif found["final"]:
                passes = len(whole) <= LONGEST_SEQUENCE and found["final"] in _FINALS
            elif goes_on:
                self._pending = whole[: LONGEST_SEQUENCE + 1]
            else:
                following = text[found.end() : found.end() + 1]
                passes = len(whole) <= LONGEST_SEQUENCE and following not in ("", "\x1b")
            return whole if passes else ""

        return _SEQUENCE.sub(readable, text)

    def _string(self, sequence: str, *, ended: bool, goes_on: bool) -> str:
        """Drop a reply of the terminal. A short one without an end is Alt and a letter, then
        text."""
        if not ended and len(sequence) <= LONGEST_TYPED:
            if not goes_on or len(sequence) <= LONGEST_SEQUENCE:
                return sequence
            self._pending = sequence  # a reply that comes in several reads, unless nothing follows
            return ""
        if not ended and goes_on:
            self._pending = sequence[:LONGEST_TYPED] + sequence[-1]
        return ""


def _split_incomplete(text: str, mark: str) -> tuple[str, str]:
    """Split off the end of a text if it may be the start of a mark."""
    lengths = range(len(mark) - 1, 0, -1)
    cut = len(text) - next((each for each in lengths if text.endswith(mark[:each])), 0)
    return text[:cut], text[cut:]


class KeyParser(XTermParser):
    """Textual's parser; it survives unreadable sequences, takes a paste as a whole, and ignores
    impossible sizes. Feed it with the output of `KeySequences`."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        """The paste so far; None outside a paste."""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                typed, mark, data = data.partition(BRACKETED_PASTE_START)
                if typed:
                    yield from super().feed(typed)
                if mark:
                    self._pasted = []
            else:
                text, mark, data = data.partition(BRACKETED_PASTE_END)
                self._pasted.append(text)
                if mark:
                    whole, self._pasted = "".join(self._pasted), None
                    yield Paste(whole.replace(_PASTED_ESCAPE, "\x1b").replace("\x00", ""))

    def flush_pending(self) -> Iterable[Message]:
        """Treat the start of a sequence as a key, because nothing followed."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        return self.tick()

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        believed = self.terminal_size, self.terminal_pixel_size, self.mouse_pixels

        def take(token: Message) -> None:
            nonlocal believed
            if isinstance(token, Resize):
                if not _is_possible(token):
                    self.terminal_size, self.terminal_pixel_size, self.mouse_pixels = believed
                    return
                believed = self.terminal_size, self.terminal_pixel_size, self.mouse_pixels
            character = token.character if isinstance(token, Key) else None
            if not character or not "\ud800" <= character <= "\udfff":
                token_callback(token)

        while not self.is_eof:
            # The next character starts a key.
            with contextlib.suppress(ArithmeticError, ValueError):
                yield from super().parse(take)


def _is_possible(size: Resize) -> bool:
    width, height, pixels = size.size.width, size.size.height, size.pixel_size
    possible = 0 < width <= LARGEST and 0 < height <= LARGEST
    return possible and (pixels is None or (pixels.width > 0 and pixels.height > 0))


_BURST = 16
"""Queue length that nobody types: the keys come from a program, or a plain paste."""
_MOST_WAITS = 10
"""How often a key may wait for the focused widget, which may get new messages forever."""


class KeyOrder:
    """Delivers a key only after all earlier keys have been handled.

    Textual runs a command's key at once, while letters before it still wait at the focused
    widget. Letters after it are lost while the screen that it opens is composed.
    """

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[Event], Awaitable[None]],
        intercept: Callable[[Key | Paste], bool],
    ) -> None:
        """deliver: Textual's own handling of a key. intercept: called when it is a key's turn;
        returns True to drop the key."""
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
        """Deliver keys until one of them has to wait. waited: how often the first has waited.

        A key leaves the queue when it is completely handled.
        """
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
            try:
                await self._deliver(event)
            except BaseException:
                self._queue.popleft()
                raise
            if (
                focused is None
                or typed
                or not focused.call_later(self._follow_bubbling, focused, focused)
            ):
                self._queue.popleft()
            else:
                return

    async def _follow_bubbling(self, widget: DOMNode, focused: DOMNode, again: bool = True) -> None:
        """Follow a key from the focused widget through its parents to the application. again:
        repeat this once, for the messages caused by the key."""
        if widget.parent is not None and widget.parent.call_later(
            self._follow_bubbling, widget.parent, focused, again
        ):
            return
        if not again or not focused.call_later(self._follow_bubbling, focused, focused, False):
            self._app.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._queue.popleft()
        await self._deliver_keys()

    def _busy_receiver(self, event: Key | Paste) -> MessagePump | None:
        """Return the widget or screen whose messages must be handled before a key, if any."""
        focused, screen = self._app.focused, self._app.screen
        if focused is None:
            return None if screen.is_mounted and not screen.message_queue_size else screen
        if isinstance(event, Paste) or not focused.message_queue_size:
            return None
        active = screen.active_bindings.get(event.key)
        return focused if active is not None and active.binding.priority else None


def _is_letter(key: Key) -> bool:
    return key.is_printable and key.character != "`" and not key.is_forwarded


class LayoutEvents(Compositor):
    """A compositor that reports new and resized widgets. Textual misses a widget that was
    mounted before another widget's `region` was looked up: it stays blank."""

    def __init__(self) -> None:
        super().__init__()
        self._reported: dict[Widget, Size] = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        hidden = super().reflow(parent, size).hidden
        before = self._reported
        self._reported = {widget: each.region.size for widget, each in self._full_map.items()}
        shown = self._reported.keys() - before.keys()
        changed = {widget for widget, _ in self._reported.items() - before.items()}
        return ReflowResult(hidden, shown, changed - shown)


def is_being_removed(widget: Widget) -> bool:
    """Return whether a widget is being removed, or the application is ending."""
    return widget._pruning or widget._closing or widget.app._exit


async def run_own_binding(widget: Widget, event: Key) -> None:
    """Run the widget's own binding of a key at once; call it from `on_key`. Textual runs it only
    after later letters are inserted, so that Backspace deletes the wrong one."""
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return


LONGEST_LINE = 5_000
"""Characters of a line from which visible lines are not highlighted."""

_SIGN = re.compile(
    r"^\s*(?:[^\W\d][\w.]*\s*=\s*)?(!(?!=)|%%?[^\W\d]\w*)|^\s*(\?\??)|^\s*[^\W\d][\w.]*(?:\[[^\]]*\])*(\?\??)\s*$"
)
"""The prefixes and suffixes of IPython syntax: ``!command``, ``%magic``, ``object?``."""


@cache
def _query(language: Language) -> Query:
    """Compile Textual's highlighting query for Python once (18 ms)."""
    from tree_sitter import Query

    return Query(language, TextArea._get_builtin_highlight_query("python"))


class VisibleHighlights:
    """Queries tree-sitter for the visible lines when they are drawn: with 1,000 lines an edit
    takes 0.6 ms instead of 20 ms."""

    def __init__(self, area: TextArea) -> None:
        self._area = area
        self._rows = range(0)

    def clear(self) -> None:
        self._area._line_cache.clear()
        self._area._highlights.clear()
        self._rows = range(0)

    def update(self) -> None:
        area = self._area
        top = area.scroll_offset.y
        seen = area.wrapped_document._offset_to_line_info[top : top + area.size.height]
        if seen and (rows := range(seen[0][0], seen[-1][0] + 1)) != self._rows:
            self._highlight(rows)

    def _highlight(self, rows: range) -> None:
        self.clear()
        self._rows = rows
        document, highlights = self._area.document, self._area._highlights
        longest = max(len(document.get_line(row)) for row in rows)
        if not isinstance(document, SyntaxAwareDocument) or not 0 < longest <= LONGEST_LINE:
            return
        captures = document.query_syntax_tree(
            _query(document.language), (rows.start, 0), (rows.stop, 0)
        )
        for name, nodes in captures.items():
            for node in nodes:
                (first, start), (last, end) = node.start_point, node.end_point
                for row in range(max(first, rows.start), min(last + 1, rows.stop)):
                    span = start if row == first else 0, end if row == last else None
                    highlights[row].append((*span, name))
        for row in rows:
            if sign := _SIGN.search(document.get_line(row)):
                group = next(number for number in (1, 2, 3) if sign.start(number) >= 0)
                start, end = (len(sign.string[:offset].encode()) for offset in sign.span(group))
                highlights[row].append((start, end, "keyword"))


class Options(OptionList):
    """Ignores clicks on a removed option that is still drawn."""

    async def _on_click(self, event: Click) -> None:
        option = event.style.meta.get("option")
        if option is not None and option >= self.option_count:
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        """Draw muted text of the row at the cursor in the row's colour."""
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


class SafeCommandPalette(CommandPalette):
    """Closes only once, and ignores keys and clicks that arrive afterwards."""

    asks: ClassVar[bool] = True
    """See `Dialog.asks`."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def _on_click(self, event: Click) -> None:  # type: ignore[override]
        event.prevent_default()  # Textual's own handler is called below
        with suppress(NoWidget):  # the click is outside a screen that just became smaller
            super()._on_click(event)

    def _action_command_list(self, action: str) -> None:
        if action.startswith("page") and not self.query_one(CommandList).size:
            return  # Textual raises for a list that has no size
        super()._action_command_list(action)

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    async def _watch__show_busy(self) -> None:
        if self.query(CommandList):
            await super()._watch__show_busy()


W = TypeVar("W", bound=Widget)


def ignores_removed(widget_class: type[W]) -> type[W]:
    """Make a widget class ignore events and refreshes while its instances are being removed: its
    children may be gone, or may never have been mounted."""
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
