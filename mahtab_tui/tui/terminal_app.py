"""The base class of our applications, and what keeps them quick: keys come before all other work.

`RecordPump` passes records on at most once a frame, `LateImports` loads modules after the first picture,
one at a time, and `Collector` lets garbage be collected while nobody types.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import isawaitable
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from textual.app import App, ScreenError, SuspendNotSupported
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, InputEvent, MouseDown
from textual.filter import LineFilter
from textual.message import Message
from textual.message_pump import MessagePump
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.terminal_driver import (
    StdioRedirect,
    TerminalDriver,
    TextOnly,
    ignore_signal_keys,
)
from mahtab_tui.tui.theme import (
    CONTRAST_THEMES,
    MAHTAB,
    MAHTAB_DAY,
    OUR_THEMES,
    role_variables,
)

if TYPE_CHECKING:
    import logging

    from mahtab_tui.bus.display_handler import DisplayHandler
    from mahtab_tui.bus.records import Record
    from mahtab_tui.session import Session
    from mahtab_tui.session.open_session import Interface
    from mahtab_tui.tui.crash import Crash

_YOUNG_OBJECTS = 5_000
"""New objects before the youngest generation is collected."""
_YOUNG_COLLECTIONS = 3
"""Collections of the youngest generation before the next one is collected. It is small, because all
threads wait meanwhile: about 10 ms."""
FULL_COLLECTION_DUE = 30
"""Collections of the middle generation after which all objects are gone through, which takes 100 ms
and more, once nobody types."""
_FULL_COLLECTION_LATE = 300
"""Collections of the middle generation after which this happens at once."""
IDLE_S = 2.0
"""After this time without a key, nobody types."""
HEAVY_COLLECTION_S = 0.03
"""After a full collection that takes longer, the remaining objects are frozen."""
SWITCH_INTERVAL_S = 0.001
"""After this time, a thread that computes lets another one run. A key needs about ten turns until it
is drawn, and Python's own interval is five times as long."""
FRAME_S = 1 / 30
"""Seconds between two frames."""
MAX_WORK_SHARE = 1 / 4
"""While the main thread has worked for a larger share of the time, records wait."""
MIN_DELAY_S = 0.9 * FRAME_S
"""At least this many seconds pass before records are passed on again."""
MAX_DELAY_S = 0.2
"""After this time records are passed on, however busy the main thread is."""
_SESSION_MODULE_NAMES = """
tui.editor.completion tui.editor.help_card bus.typed_text bus.records bus.logger bus.display_handler kernel.masked kernel.process session.kernel store.resume
export.reading kernel.worker_process store.session_index kernel.inspector_client session.attachments
session.agent session.components kernel.environments tui.transcript.viewport tui.transcript.pane
tui.widgets.approval_row tui.widgets.review_row tui.widgets.fan_out_row tui.widgets.input_row
tui.widgets.queue_row
"""
SESSION_MODULES = tuple(f"mahtab_tui.{name}" for name in _SESSION_MODULE_NAMES.split())
"""Modules that a session needs. They are imported once the screen is drawn, so that it appears sooner."""
TRANSCRIPT_MODULES = (
    "pygments.lexers.python",
    "markdown_it",
    "mahtab_tui.bus.answers",
    "mahtab_tui.tui.transcript.output",
    "mahtab_tui.tui.transcript.layout",
)
"""Modules that draw a transcript. They are imported last."""
T = TypeVar("T")
RIGHT_BUTTON = 3
BRIEF_CHARS = 60
"""A notice with more characters is long."""
BRIEF_NOTICE_S = 3
LONG_NOTICE_S = 5


class Collector:
    """Decides when Python collects garbage, which stops all threads. Main thread only.

    Before the first picture, nothing is collected. The objects of loaded libraries are never gone
    through again. All others are gone through while nobody types.
    """

    def __init__(self) -> None:
        self._collection_started_s = 0.0
        """The processor time of this thread when the last full collection began."""
        self._last_key_s = 0.0
        """When the last key came, in seconds of the monotonic clock."""
        self._is_planned = False
        """Whether a timer waits until nobody types."""
        gc.disable()

    def settle(self) -> None:
        """Begin to collect, after the first picture. The objects of loaded modules are left out."""
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _FULL_COLLECTION_LATE)
        gc.callbacks.append(self._freeze_after_long)
        gc.enable()
        IMPORTS.freezes_modules = True

    def note_key(self) -> None:
        """Note that somebody types."""
        self._last_key_s = monotonic()

    def plan(self, app: App[Any]) -> None:
        """Go through all objects soon, if that is due. Call it when something has happened."""
        if not self._is_planned and gc.get_count()[2] >= FULL_COLLECTION_DUE:
            self._is_planned = True
            app.set_timer(IDLE_S, partial(self._collect, app))

    def _collect(self, app: App[Any]) -> None:
        """Go through all objects, once nobody has typed for a while."""
        remaining_s = self._last_key_s + IDLE_S - monotonic()
        if remaining_s > 0:
            app.set_timer(remaining_s, partial(self._collect, app))
            return
        self._is_planned = False
        gc.collect()

    def _freeze_after_long(self, phase: str, info: Mapping[str, int]) -> None:
        """Leave out the remaining objects from now on, if it takes long to go through all."""
        is_full = info["generation"] == 2
        if is_full and phase == "start":
            self._collection_started_s = thread_time()
        elif is_full and thread_time() - self._collection_started_s >= HEAVY_COLLECTION_S:
            gc.freeze()


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns more often than usual."""
    previous_interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(previous_interval_s)


Fold = Callable[[Sequence["Record"]], None]
"""Takes new records, in order, and draws what they change."""


class RecordPump:
    """Passes new records to the panes, at most once a frame. While there are none, it does nothing."""

    def __init__(self, app: App[Any]) -> None:
        self.folds: list[Fold] = []
        """What gets the records."""
        self._app = app
        self._is_running = False
        """Whether the panes are there."""
        self._handler: DisplayHandler | None = None
        """Collects the records of the session; None until one is followed."""
        self._last_flush_s = 0.0
        """When records were passed on last, in seconds of the monotonic clock."""
        self._last_flush_cpu_s = 0.0
        """The processor time of the main thread then."""

    def install(self, log: logging.Logger) -> None:
        """Take the records of a session from now on."""
        from mahtab_tui.bus.display_handler import DisplayHandler

        self._handler = DisplayHandler(self._wake)
        log.addHandler(self._handler)

    def join(self, session: Session) -> list[Record]:
        """Take the records of a running session from now on, and return the recent ones."""
        from mahtab_tui.bus.display_handler import DisplayHandler

        self._handler = DisplayHandler(self._wake)
        return session.follow(self._handler)

    def uninstall(self, log: logging.Logger) -> None:
        """Take no more records."""
        if self._handler is not None:
            log.removeHandler(self._handler)

    def start(self) -> None:
        """Begin to pass records on, once the panes are there."""
        self._is_running = True
        self.tick()

    def _wake(self) -> None:
        """Pass the records on soon. Any thread may call it."""
        if self._is_running:
            # A `RuntimeError` if the application has just ended.
            with contextlib.suppress(RuntimeError):
                self._app.call_later(self.tick)

    def tick(self) -> None:
        """Pass the records on, now or in a moment. Call it on the main thread only."""
        passed_s = monotonic() - self._last_flush_s
        worked_s = thread_time() - self._last_flush_cpu_s
        # The main thread also needs time for keys.
        is_due = passed_s >= MIN_DELAY_S and worked_s <= passed_s * MAX_WORK_SHARE
        if is_due or passed_s >= MAX_DELAY_S:
            self.flush()
        else:
            self._app.set_timer(FRAME_S, self.tick)

    def flush(self) -> None:
        """Pass all waiting records on now."""
        records = self._handler.pop_records() if self._handler is not None else []
        if not records:
            return
        self._last_flush_s = monotonic()
        self._last_flush_cpu_s = thread_time()
        for fold in self.folds:
            fold(records)


class LateImports:
    """Imports modules one by one while the screen is already there, and keys act in between."""

    def __init__(
        self, app: MessagePump, module_names: Sequence[str], steps: Sequence[Callable[[], object]]
    ) -> None:
        """
        Args:
            app: Handles keys between two modules.
            module_names: What to import first.
            steps: What to call once these modules are imported; may be async. After them, the
                modules that draw a transcript are imported.
        """
        self._app = app
        self._steps: deque[Callable[[], object]] = deque()
        self._steps += [partial(import_module, name) for name in module_names]
        self._steps += steps
        self._steps += [partial(import_module, name) for name in TRANSCRIPT_MODULES]

    def start(self) -> None:
        """Call it when the application is mounted and before threads start."""
        IMPORTS.screen_begins()
        self._app.call_after_refresh(self._step)

    async def _step(self) -> None:
        """Import a module, or do what comes after them; then let keys act."""
        if not self._steps:
            IMPORTS.screen_ends()
            return
        step = self._steps.popleft()
        result = step()
        if isawaitable(result):
            await result
        self._app.call_later(self._step)


class TerminalApp(App[T]):
    """An application with our driver, themes and sanitized output."""

    # Textual would bind a second command to the palette's key.
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, *, theme: str = "", stdio_redirect: StdioRedirect | None = None, **options: Any
    ) -> None:
        """
        Args:
            theme: The name of the theme; ours if there is none of this name.
            stdio_redirect: Keeps what libraries print off the screen; None if nothing does.
            **options: The arguments of Textual's `App`.
        """
        super().__init__(**options)
        for own_theme in OUR_THEMES:
            self.register_theme(own_theme)
        self.set_theme(theme)
        self._stdio_redirect = stdio_redirect
        self.crash: Crash | None = None
        """The failure that has ended the application; None if none has."""
        self.saves_crash = True
        """Whether a failure is written to a file."""
        self.next_session = ""
        """The id of the session to open next; empty for none."""
        self.next_interface: Interface | None = None
        """The interface in which the session goes on; None if it ends."""
        self.leaves_kernel = False
        """Whether the running cell goes on after the end."""
        self._text_only = TextOnly()

    def run(self, *args: Any, **options: Any) -> T | None:
        with short_turns():
            return super().run(*args, **options)

    def set_theme(self, name: str) -> None:
        """Use a theme; our dark one if there is none of this name."""
        self.theme = name if name in self.available_themes else MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of our roles, which other themes do not define."""
        return role_variables(self.current_theme)

    def action_dark_light(self) -> None:
        """Switch between our dark and our light theme, or those with a high contrast."""
        has_contrast = self.current_theme in CONTRAST_THEMES
        dark, light = CONTRAST_THEMES if has_contrast else (MAHTAB, MAHTAB_DAY)
        self.theme = (light if self.current_theme.dark else dark).name

    def mask(self, text: str) -> str:
        """Return a text without secrets; a subclass knows them."""
        return text

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        if driver is LinuxDriver:
            return TerminalDriver
        return driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_only]

    def notify(
        self,
        message: str,
        severity: SeverityLevel = "information",
        *,
        title: str = "",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notice, whose text may come from elsewhere; Textual would read markup in it."""
        if not timeout:
            timeout = BRIEF_NOTICE_S if len(message) <= BRIEF_CHARS else LONG_NOTICE_S
        super().notify(
            plain(message), title=plain(title), severity=severity, timeout=timeout, markup=False
        )

    @property
    def is_ending(self) -> bool:
        """Whether the user has left already."""
        return self._exit

    @property
    def terminal(self) -> TerminalDriver | None:
        """Our driver; None in a test or without a terminal."""
        if isinstance(self._driver, TerminalDriver):
            return self._driver
        return None

    def run_suspended(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program, and return its exit code. Main thread only.

        Args:
            argv: The program and its arguments.
            cwd: The folder in which it runs.

        Raises:
            RuntimeError: The program could not be started; the message is a sentence.
        """
        redirect = self._stdio_redirect
        stdio_suspended = contextlib.nullcontext() if redirect is None else redirect.suspended()
        try:
            with self.suspend(), stdio_suspended, ignore_signal_keys():
                return subprocess.run(list(argv), cwd=cwd, check=False).returncode
        except SuspendNotSupported:
            raise RuntimeError("This terminal cannot be given to another program.") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RuntimeError(f"{argv[0]} could not be started: {reason}.") from None

    async def on_event(self, event: Event) -> None:
        """Drop keys once there is no screen, and mouse presses on a removed widget, for which
        Textual fails."""
        if isinstance(event, InputEvent) and not self.screen_stack:
            return
        if isinstance(event, MouseDown):
            widget, _ = self.screen.get_widget_and_offset_at(event.x, event.y)
            if widget is not None and not isinstance(widget, Screen) and widget.parent is None:
                return
        await super().on_event(event)

    async def _on_message(self, message: Message) -> None:
        """Drop messages of widgets once there is no screen."""
        if isinstance(message._sender, Widget) and not self.screen_stack:
            return
        await super()._on_message(message)

    def _handle_exception(self, error: Exception) -> None:
        """End the application, and note why."""
        # While the application ends, a widget may handle an event after others are gone.
        # `WorkerFailed` has the actual error as `error`.
        if self._exit and isinstance(getattr(error, "error", error), NoMatches | ScreenError):
            return
        if self.crash is None:
            from mahtab_tui.tui.crash import save_crash

            self.crash = save_crash(error, self.mask, saves=self.saves_crash)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Print nothing: Textual would print values of variables, which may be secrets."""
        self._close_messages_no_wait()


def cell_size(app: App[Any]) -> tuple[int, int]:
    """Return the width and height of a cell in pixels, or their ratio if the terminal does not
    report them."""
    terminal = app.terminal if isinstance(app, TerminalApp) else None
    if terminal is None or not terminal.cell_size:
        return (1, 2)
    return terminal.cell_size
