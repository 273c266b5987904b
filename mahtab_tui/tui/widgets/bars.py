"""The header line, the line of keys at the bottom, and the splitters between panes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import ActiveBinding
from textual.content import Content
from textual.events import Click, MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Kernel, Record, Window
    from mahtab_tui.tui.transcript.fold import Activities, PendingRequests

NARROW = 100
TRANSCRIPT_TAB_TEXT = "transcript    "

FULL = 0.8
"""Share of the model's window from which to warn."""

_STATES = {
    "starting": ("◌", "$moon"),
    "idle": ("●", "$good"),
    "busy": ("●", "$moon"),
    "dead": ("✗", "$bad"),
}
_APPROVAL = {
    "ask": "ask first",
    "review": "review changes",
    "auto": "auto-run",
    "plan": "plans only",
}


def short_number(number: float) -> str:
    """Format ``980``, ``12.4k``, ``3.1M``."""
    if number >= 999_950:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.1f}k" if number >= 1_000 else str(int(number))


def environment_name(executable: str) -> str:
    folder = PurePath(executable).parent
    name = folder.parent.name
    return name if folder.name == "bin" and (name.startswith(".") or "venv" in name) else ""


def _shorten(names: Sequence[Content], by: int) -> list[Content]:
    """Shorten the longest names, so that approval and costs stay visible."""
    lengths = [name.cell_length for name in names]
    room = max(0, sum(lengths) - by)
    most = max(room // len(names), room - sum(lengths) + max(lengths))
    return [name.truncate(most, ellipsis=True) for name in names]


class HeaderBar(Widget):
    session_name: reactive[str] = reactive("")
    model: reactive[str] = reactive("")
    approval: reactive[str] = reactive("ask")
    tokens: reactive[int] = reactive(0)
    cost: reactive[float | None] = reactive(None)
    unpriced: reactive[bool] = reactive(False)
    window: reactive[Window | None] = reactive(None)
    """The use of the model's window; None if unknown."""
    waits: reactive[bool] = reactive(False)
    kernel: reactive[Kernel | None] = reactive(None, always_update=True)

    def __init__(self, langsmith: str = "", *, id: str | None = None) -> None:
        """langsmith: the variable that sends everything there."""
        super().__init__(id=id)
        self._langsmith = langsmith
        self._busy_since = 0.0
        self._since = time.time()
        self._following: tuple[Activities, PendingRequests] | None = None

    def fold(self, records: Sequence[Record]) -> None:
        from mahtab_tui.bus.records import Kernel, Session, Usage, Window

        before = self._activity()
        if self._following is None:
            from mahtab_tui.tui.transcript.fold import Activities, PendingRequests

            self._following = Activities(self._since), PendingRequests()
        activities, waiting = self._following
        for record in records:
            activities.fold(record)
            waiting.fold(record)
            if isinstance(record, Session):
                if one_line(record.model) != self.model:  # another model has another window
                    self.window = None
                texts = record.name, record.model, record.approval
                self.session_name, self.model, self.approval = map(one_line, texts)
            elif isinstance(record, Usage):
                self.tokens += record.input_tokens + record.output_tokens
                if record.cost is None:
                    self.unpriced = True
                else:
                    self.cost = (self.cost or 0.0) + record.cost
            elif isinstance(record, Window):
                self.window = record if record.size > 0 else None
            elif isinstance(record, Kernel):
                if record.state == "busy" and self._state != "busy":
                    self._busy_since = record.since or record.time
                self.kernel = record
        self.waits = waiting.since is not None
        if self._activity() != before:
            self.refresh()
        is_trying = self.kernel is not None and self.kernel.next_try is not None
        interval = 0.1 if is_trying or self._activity()[1] is not None else None
        if interval != self.auto_refresh:
            self.auto_refresh = interval

    @property
    def _state(self) -> str:
        return "starting" if self.kernel is None else self.kernel.state or "starting"

    def _activity(self) -> tuple[str, float | None]:
        """Return what is most urgent, and since when, if that is shown."""
        if self._following is None:
            return "starting", None
        activities, waiting = self._following
        state, activity = self._state, activities.current
        if state == "dead":
            return state, None
        if (since := waiting.since) is not None:
            return "waiting for you", since
        if state == "busy":
            return state, self._busy_since
        if activity is not None:
            return activity.brief, activity.since
        return ("thinking" if activities.turn_running else state), None

    def render(self) -> Content:
        narrow = self.size.width < NARROW
        names = [] if narrow else [Content(self.session_name)]
        names.append(Content(self.model).stylize("$model"))
        right = self._kernel(narrow)
        width = self.size.width - right.cell_length
        left = self._left(narrow, names)
        if left.cell_length + 1 > width:
            left = self._left(narrow, _shorten(names, left.cell_length + 1 - width))
            left = left.truncate(max(0, width - 1), ellipsis=True)
        return Content.assemble(left, " " * max(1, width - left.cell_length), right)

    def _left(self, narrow: bool, names: Sequence[Content]) -> Content:
        approval_style = "$good" if self.approval == "ask" else "$moon"
        parts: list[Content | tuple[str, str]] = [("◐ mahtab", "bold $moon"), *names]
        parts.append((_APPROVAL.get(self.approval, self.approval), approval_style))
        if self._langsmith:
            parts.append(("to LangSmith", "$moon"))
        if (window := self.window) is not None:
            share = window.tokens / window.size
            text = f"{share:.0%}" if narrow else f"window {share:.0%}"
            parts.append((text, "$bad" if share >= FULL else "$muted"))
        spent = [f"{short_number(self.tokens)} tok"] if self.tokens and not narrow else []
        if self.cost is not None:
            spent.append(f"${self.cost:.2f}{'+' if self.unpriced and self.cost else ''}")
        if spent:
            parts.append(("  ".join(spent), "$muted"))
        return Content("  ").join(
            part if isinstance(part, Content) else Content.styled(*part) for part in parts
        )

    def _kernel(self, narrow: bool) -> Content:
        state, kernel = self._state, self.kernel
        glyph, colour = _STATES.get(state, ("?", "$muted"))
        name = f"{glyph} kernel"
        if kernel is not None:
            words: list[str] = []
            if kernel.python and not narrow:
                words = [".".join(kernel.python.split(".")[:2])]
                words.append(environment_name(kernel.executable or ""))
            if kernel.host:
                words.append(f"on {kernel.host}")
            name = " ".join([name, *(one_line(word) for word in words if word)])
            if kernel.next_try is not None:
                left = max(0, round(kernel.next_try - time.time()))
                again = f" ({left} s)" if left else ""
                return Content.styled(f"{name}  disconnected, trying again{again}", "$bad")
        activity, since = self._activity()
        if since is not None:
            elapsed = max(0.0, time.time() - since)
            activity += f" {elapsed:6.1f} s" if state == "busy" else f" {int(elapsed):4} s"
            colour = "$moon"
        return Content.assemble((name, colour), "  ", (activity, colour))


class Key(NamedTuple):
    key: str
    shown: str
    description: str
    enabled: bool

    @property
    def parts(self) -> tuple[str, str]:
        return f" {self.shown} ", f"{self.description} "


class KeyLine(Widget):
    """Shows the keys that do something now, like Textual's `Footer`, which creates a widget per key
    again and again."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--description"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        &:hover { pointer: pointer; }
    }
    KeyLine > .key-line--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
    KeyLine > .key-line--description { color: $footer-description-foreground; background: $footer-description-background; }
    """

    keys: tuple[Key, ...] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._find_keys)

    def _find_keys(self, screen: Screen[object]) -> None:
        if not self.app.app_focus:  # the focused widget comes back with it
            return
        first: dict[str, ActiveBinding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show:
                first.setdefault(active.binding.action, active)
        keys = tuple(
            Key(each.key, self.app.get_key_display(each), each.description, enabled)
            for _, each, enabled, _ in first.values()
        )
        if keys != self.keys:
            self.keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:
        key_style, text_style = (
            self.get_component_rich_style(f"key-line--{name}") for name in ("key", "description")
        )
        segments: list[Segment] = []
        for key in self.keys:
            more = Style() if key.enabled else Style(dim=True)
            shown, description = key.parts
            segments += [Segment(shown, key_style + more), Segment(description, text_style + more)]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def on_mouse_down(self, event: MouseDown) -> None:
        ends = accumulate(cell_len("".join(key.parts)) for key in self.keys)
        found = (key for key, end in zip(self.keys, ends, strict=True) if event.x < end)
        if (key := next(found, None)) is not None and key.enabled:
            self.app.simulate_key(key.key)


class PaneTabs(Widget):
    """On a narrow screen, the line above the side panes that leads back to the transcript."""

    ALLOW_SELECT: ClassVar[bool] = False

    class TranscriptChosen(Message):
        """Posted when the tab of the transcript is clicked."""

    def render(self) -> Content:
        return Content.assemble(
            (TRANSCRIPT_TAB_TEXT, "$muted"),
            ("namespace · recursion", "bold $person"),
            ("    F3 back", "$muted"),
        )

    def on_click(self, event: Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.x < len(TRANSCRIPT_TAB_TEXT):
            self.post_message(self.TranscriptChosen())


class Splitter(Widget):
    """Reports where it is dragged to; its parent resizes the panes."""

    @dataclass
    class Dragged(Message):
        splitter: Splitter
        x: int
        y: int

    def __init__(
        self, direction: Literal["vertical", "horizontal"], *, id: str | None = None
    ) -> None:
        super().__init__(id=id, classes=f"-{direction}")
        self._line = "│" if direction == "vertical" else "─"

    def render(self) -> Content:
        if self._line == "─":
            return Content("─" * self.size.width)
        return Content("\n".join("│" * self.size.height))

    def on_mouse_down(self, event: MouseDown) -> None:
        event.stop()
        self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        if self.app.mouse_captured is self:
            event.stop()
            self.post_message(self.Dragged(self, event.screen_x, event.screen_y))

    def on_mouse_up(self, event: MouseUp) -> None:
        self.release_mouse()
