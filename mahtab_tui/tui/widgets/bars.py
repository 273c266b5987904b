"""The header line, the line of keys at the bottom, and the splitters between panes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
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
    from mahtab_tui.bus.records import KernelRecord, Record, Window
    from mahtab_tui.tui.transcript.activities import Activities, PendingRequests

NARROW_HEADER_WIDTH = 100
"""In a narrower header, the session's name and details are left out."""
HELP_ID = "help"
"""The id of the command whose key is always shown."""
TRANSCRIPT_TAB_TEXT = "transcript    "
"""The first tab of a narrow screen, with the blanks that a click may also hit."""
TIME_INTERVAL_S = 0.1
"""The header is drawn again after this many seconds while it shows a time that goes on."""
WINDOW_WARNING_SHARE = 0.8
"""The header warns when at least this share of the model's window is used."""

_STATES = {
    "starting": ("◌", "$highlight"),
    "idle": ("●", "$good"),
    "busy": ("●", "$highlight"),
    "dead": ("✗", "$bad"),
}
"""The sign and the colour of each state of the kernel."""
_APPROVAL_TEXTS = {
    "ask": "ask first",
    "review": "review changes",
    "auto": "auto-run",
    "plan": "plans only",
}
"""How each approval mode is shown."""


def short_number(number: float) -> str:
    """Return a number in few characters: ``980``, ``12.4k`` or ``3.1M``."""
    # From here on, thousands would be rounded to "1000.0k".
    if number >= 999_950:
        return f"{number / 1e6:,.1f}M"
    if number >= 1_000:
        return f"{number / 1e3:.1f}k"
    return str(int(number))


def environment_name(executable: str) -> str:
    """Return the name of a Python's virtual environment; empty if it seems to have none."""
    folder = PurePath(executable).parent
    name = folder.parent.name
    is_environment = folder.name == "bin" and (name.startswith(".") or "venv" in name)
    return name if is_environment else ""


def _shorten(names: Sequence[Content], excess_cells: int) -> list[Content]:
    """Shorten the longest names, so that approval and costs stay visible.

    Args:
        names: The names of the session and of the model, or only that of the model.
        excess_cells: How many cells are missing.
    """
    widths = [name.cell_length for name in names]
    available_cells = max(0, sum(widths) - excess_cells)
    # If shortening the longest one is enough, the others keep their widths.
    shortened_longest = max(widths) - sum(widths) + available_cells
    max_width = max(available_cells // len(names), shortened_longest)
    return [name.truncate(max_width, ellipsis=True) for name in names]


class HeaderFolds(NamedTuple):
    """What the header learns from records by the folds of the transcript."""

    activities: Activities
    pending: PendingRequests


class HeaderActivity(NamedTuple):
    """What the kernel, the model or the user is doing."""

    text: str
    since: float | None
    """When it began, in seconds since the epoch; None if no time is shown."""


class HeaderBar(Widget):
    """Shows the model, approval, costs, and what the kernel and the model do.

    Records are its only source: `fold` takes them, and a field that has changed draws the header again.
    """

    session_name: reactive[str] = reactive("")
    model: reactive[str] = reactive("")
    approval: reactive[str] = reactive("ask")
    tokens: reactive[int] = reactive(0)
    """Tokens that the session's models have read and written."""
    cost: reactive[float | None] = reactive(None)
    """US dollars; None if no price is known."""
    unpriced: reactive[bool] = reactive(False)
    """Whether the cost lacks calls whose price is unknown."""
    window: reactive[Window | None] = reactive(None)
    """How full the model's window is; None if unknown."""
    waits: reactive[bool] = reactive(False)
    """Whether something waits for the user."""
    kernel: reactive[KernelRecord | None] = reactive(None, always_update=True)

    def __init__(self, langsmith: str = "", *, id: str | None = None) -> None:
        """
        Args:
            langsmith: The environment variable that sends everything to LangSmith; empty if none is
                set.
            id: The id of the widget.
        """
        super().__init__(id=id)
        self._langsmith = langsmith
        self._busy_since = 0.0
        """When the kernel began what it does, in seconds since the epoch."""
        self._created = time.time()
        self._folds: HeaderFolds | None = None
        """None before the first records, because importing the folds takes time that the first
        picture would wait for."""

    def fold(self, records: Sequence[Record]) -> None:
        """Take records, and draw the header again if something in it has changed."""
        old_activity = self._activity()
        if self._folds is None:
            from mahtab_tui.tui.transcript.activities import Activities, PendingRequests

            self._folds = HeaderFolds(Activities(self._created), PendingRequests())
        for record in records:
            self._folds.activities.fold(record)
            self._folds.pending.fold(record)
            self._fold_record(record)
        self.waits = self._folds.pending.since is not None

        activity = self._activity()
        if activity != old_activity:
            self.refresh()
        # While a time is shown, it goes on.
        is_retrying = self.kernel is not None and self.kernel.next_try is not None
        has_time = is_retrying or activity.since is not None
        interval = TIME_INTERVAL_S if has_time else None
        if interval != self.auto_refresh:
            self.auto_refresh = interval

    def _fold_record(self, record: Record) -> None:
        """Take one record; reactive fields draw what changes."""
        from mahtab_tui.bus.records import KernelRecord, SessionRecord, Usage, Window

        if isinstance(record, SessionRecord):
            model = one_line(record.model)
            if model != self.model:
                # Another model has another window.
                self.window = None
            self.session_name = one_line(record.name)
            self.model = model
            self.approval = one_line(record.approval)
        elif isinstance(record, Usage):
            self.tokens += record.input_tokens + record.output_tokens
            if record.cost is None:
                self.unpriced = True
            else:
                self.cost = (self.cost or 0.0) + record.cost
        elif isinstance(record, Window):
            self.window = record if record.size > 0 else None
        elif isinstance(record, KernelRecord):
            if record.state == "busy" and self._state != "busy":
                self._busy_since = record.since or record.time
            self.kernel = record

    @property
    def _state(self) -> str:
        """The state of the kernel."""
        if self.kernel is None:
            return "starting"
        return self.kernel.state or "starting"

    def _activity(self) -> HeaderActivity:
        """Return the most urgent of what is done or waits."""
        if self._folds is None:
            return HeaderActivity("starting", None)
        activities, pending = self._folds
        state = self._state
        if state == "dead":
            return HeaderActivity(state, None)
        if pending.since is not None:
            return HeaderActivity("waiting for you", pending.since)
        if state == "busy":
            return HeaderActivity(state, self._busy_since)
        activity = activities.current
        if activity is not None:
            return HeaderActivity(activity.header_text, activity.since)
        if activities.turn_running:
            return HeaderActivity("thinking", None)
        return HeaderActivity(state, None)

    def render(self) -> Content:
        is_narrow = self.size.width < NARROW_HEADER_WIDTH
        names = [] if is_narrow else [Content(self.session_name)]
        names.append(Content(self.model).stylize("$model"))
        right = self._right_side(is_narrow)
        left_width = self.size.width - right.cell_length
        left = self._left_side(is_narrow, names)
        # One cell stays free between both sides.
        excess_cells = left.cell_length + 1 - left_width
        if excess_cells > 0:
            left = self._left_side(is_narrow, _shorten(names, excess_cells))
            left = left.truncate(max(0, left_width - 1), ellipsis=True)
        return Content.assemble(left, " " * max(1, left_width - left.cell_length), right)

    def _left_side(self, is_narrow: bool, names: Sequence[Content]) -> Content:
        """Show the model, the approval, and what the session has used."""
        parts = [Content.styled("◐ mahtab", "bold $highlight"), *names]
        approval = _APPROVAL_TEXTS.get(self.approval, self.approval)
        parts.append(Content.styled(approval, "$good" if self.approval == "ask" else "$highlight"))
        if self._langsmith:
            parts.append(Content.styled("to LangSmith", "$highlight"))
        if self.window is not None:
            share = self.window.tokens / self.window.size
            text = f"{share:.0%}" if is_narrow else f"window {share:.0%}"
            style = "$bad" if share >= WINDOW_WARNING_SHARE else "$muted"
            parts.append(Content.styled(text, style))

        usage = []
        if self.tokens and not is_narrow:
            usage.append(f"{short_number(self.tokens)} tok")
        if self.cost is not None:
            # A plus says that calls without a price come on top.
            is_incomplete = self.unpriced and self.cost
            usage.append(f"${self.cost:,.2f}{'+' if is_incomplete else ''}")
        if usage:
            parts.append(Content.styled("  ".join(usage), "$muted"))
        return Content("  ").join(parts)

    def _right_side(self, is_narrow: bool) -> Content:
        """Show the kernel, and the most urgent activity."""
        state = self._state
        glyph, colour = _STATES.get(state, ("?", "$muted"))
        name = " ".join([f"{glyph} kernel", *self._kernel_details(is_narrow)])
        if self.kernel is not None and self.kernel.next_try is not None:
            wait_s = max(0, round(self.kernel.next_try - time.time()))
            countdown = f" ({wait_s} s)" if wait_s else ""
            return Content.styled(f"{name}  disconnected, trying again{countdown}", "$bad")

        activity, since = self._activity()
        if since is not None:
            elapsed_s = max(0.0, time.time() - since)
            if state == "busy":
                activity += f" {elapsed_s:6.1f} s"
            else:
                activity += f" {int(elapsed_s):4} s"
            colour = "$highlight"
        return Content.assemble((name, colour), "  ", (activity, colour))

    def _kernel_details(self, is_narrow: bool) -> list[str]:
        """Return the version and environment of the kernel's Python, and its machine."""
        kernel = self.kernel
        if kernel is None:
            return []
        details: list[str] = []
        if kernel.python and not is_narrow:
            major_and_minor = kernel.python.split(".")[:2]
            details.append(".".join(major_and_minor))
            details.append(environment_name(kernel.executable or ""))
        if kernel.host:
            details.append(f"on {kernel.host}")
        return [one_line(detail) for detail in details if detail]


class FooterKey(NamedTuple):
    """A key in the line of keys."""

    key: str
    """Textual's name of the key."""
    display: str
    """The key as the user reads it."""
    description: str
    """What it does, in a word or two."""
    enabled: bool
    """Whether it does something now. Otherwise it is drawn dim."""
    is_help: bool
    """Whether it opens the help. This key is never left out."""

    @property
    def texts(self) -> tuple[str, str]:
        """What is drawn: the key, and what it does."""
        return f" {self.display} ", f"{self.description} "

    @property
    def width(self) -> int:
        """The width of its texts, in cells."""
        return cell_len("".join(self.texts))


class KeyLine(Widget):
    """Shows the keys that do something now, and does what a clicked one does.

    Textual's `Footer` shows the same, but creates a widget for each key at each change.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--description"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $background;

        &:hover {
            pointer: pointer;
        }

        & > .key-line--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }

        & > .key-line--description {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
    }
    """

    keys: tuple[FooterKey, ...] = ()
    """The keys that do something now, also those that do not fit."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._find_keys)

    def _find_keys(self, screen: Screen[object]) -> None:
        """Find the keys of the focused widget and those around it, and draw them if they are others."""
        # While the terminal is in the background, no widget has the focus. The keys stay as they were.
        if not self.app.app_focus:
            return
        # If an action has several keys, the first is shown.
        first_by_action: dict[str, ActiveBinding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show:
                first_by_action.setdefault(active.binding.action, active)
        keys = []
        for active in first_by_action.values():
            binding = active.binding
            display = self.app.get_key_display(binding)
            is_help = binding.id == HELP_ID
            keys.append(
                FooterKey(binding.key, display, binding.description, active.enabled, is_help)
            )
        if tuple(keys) != self.keys:
            self.keys = tuple(keys)
            self.refresh()

    @property
    def _fitting_keys(self) -> list[FooterKey]:
        """The keys that fit, from the left, and the key for help, which tells about the others."""
        keys = list(self.keys)
        # The last key ends with a blank, which may be cut off.
        excess_cells = sum(key.width for key in keys) - 1 - self.size.width
        for key in reversed(self.keys):
            if excess_cells > 0 and not key.is_help:
                keys.remove(key)
                excess_cells -= key.width
        return keys

    def render_line(self, y: int) -> Strip:
        key_style = self.get_component_rich_style("key-line--key")
        description_style = self.get_component_rich_style("key-line--description")
        segments: list[Segment] = []
        for key in self._fitting_keys:
            state_style = Style() if key.enabled else Style(dim=True)
            display, description = key.texts
            segments.append(Segment(display, key_style + state_style))
            segments.append(Segment(description, description_style + state_style))
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def on_mouse_down(self, event: MouseDown) -> None:
        """Do what the key under the mouse does."""
        end = 0
        for key in self._fitting_keys:
            end += key.width
            if event.x < end:
                if key.enabled:
                    self.app.simulate_key(key.key)
                return


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
        position = event.get_content_offset(self)
        if position is not None and position.x < len(TRANSCRIPT_TAB_TEXT):
            self.post_message(self.TranscriptChosen())


class Splitter(Widget):
    """Reports where it is dragged to; its parent resizes the panes."""

    DEFAULT_CSS = """
    Splitter {
        color: $hairline;
        background: $background;

        &.-vertical {
            width: 1;
            height: 1fr;
        }

        &.-horizontal {
            height: 1;
            width: 1fr;
        }

        &:hover {
            color: $highlight;
        }
    }
    """

    @dataclass
    class Dragged(Message):
        """Posted when the user drags a splitter to a cell of the screen."""

        splitter: Splitter
        x: int
        """The column of the screen, from 0."""
        y: int
        """The row of the screen, from 0."""

    def __init__(
        self, direction: Literal["vertical", "horizontal"], *, id: str | None = None
    ) -> None:
        """
        Args:
            direction: The direction of its line, which parts what is left and right of it, or above
                and below.
            id: The id of the widget.
        """
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
