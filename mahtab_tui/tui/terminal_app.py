"""The base class of our applications, and their pace: records, late imports, garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import isawaitable
from itertools import chain
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from textual.app import App, ScreenError
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
from mahtab_tui.tui.terminal_driver import StdioRedirect, TerminalDriver, TextOnly
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, role_variables

if TYPE_CHECKING:
    import logging

    from mahtab_tui.bus.logger import DisplayHandler
    from mahtab_tui.bus.records import Record
    from mahtab_tui.tui.open import Crash

_YOUNG, _OLDER = 5_000, 10
"""New objects, and younger collections, before a generation is collected."""
HEAVY = 0.03
"""Seconds of a full collection above which the remaining objects are frozen."""


class Collector:
    """Collects nothing before the first picture, and goes through loaded libraries only once."""

    def __init__(self) -> None:
        self._began = 0.0
        gc.disable()

    def settle(self) -> None:
        gc.freeze()
        gc.set_threshold(_YOUNG, _OLDER, _OLDER)
        gc.callbacks.append(self._freeze_after_long)
        gc.enable()

    def _freeze_after_long(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] == 2 and phase == "start":
            self._began = thread_time()
        elif info["generation"] == 2 and thread_time() - self._began >= HEAVY:
            gc.freeze()


RATE = 1 / 30
"""Seconds between two frames."""
MAX_WORK_SHARE = 1 / 4
"""While the main thread has worked for a larger share of the time, records wait."""
MIN_DELAY_S = 0.9 * RATE
"""Seconds that must pass before records are passed on again."""
MAX_DELAY_S = 0.2
"""Seconds after which records are passed on, however busy the main thread is."""

Fold = Callable[[Sequence["Record"]], None]


class RecordPump:
    """Passes new records to the panes, at most once a frame. While there are none, it does nothing."""

    def __init__(self, app: App[Any]) -> None:
        self.folds: list[Fold] = []
        self._app = app
        self._is_running = False
        self._handler: DisplayHandler | None = None
        self._last = 0.0
        self._worked = 0.0

    def begin(self, log: logging.Logger) -> None:
        from mahtab_tui.bus.logger import DisplayHandler

        self._handler = DisplayHandler(self._wake)
        log.addHandler(self._handler)

    def start(self) -> None:
        """Begin to pass records on, once the panes are there."""
        self._is_running = True
        self.tick()

    def _wake(self) -> None:
        """Pass the records on soon. Any thread may call it."""
        if self._is_running:
            with suppress(RuntimeError):  # the application has just ended
                self._app.call_later(self.tick)

    def tick(self) -> None:
        """Pass the records on, now or in a moment. Call it on the main thread only."""
        passed_s = monotonic() - self._last
        worked_s = thread_time() - self._worked
        is_due = passed_s >= MIN_DELAY_S and worked_s <= passed_s * MAX_WORK_SHARE
        if is_due or passed_s >= MAX_DELAY_S:
            self.flush()
        else:
            self._app.set_timer(RATE, self.tick)

    def flush(self) -> None:
        if self._handler is not None and (records := self._handler.pop_records()):
            self._last, self._worked = monotonic(), thread_time()
            for fold in self.folds:
                fold(records)


_SESSION = """
tui.editor.pasting bus.records bus.logger kernel.masked kernel.process session.kernel store.resume
export.reading kernel.worker_process store.session_index kernel.inspector_client session.attachments
session.agent session.components kernel.launch tui.transcript.viewport tui.transcript.pane
tui.widgets.approval_row tui.widgets.question_rows
"""
SESSION_MODULES = tuple(f"mahtab_tui.{name}" for name in _SESSION.split())

TRANSCRIPT_MODULES = (
    "pygments.lexers.python",
    "markdown_it",
    "mahtab_tui.bus.answers",
    "mahtab_tui.tui.transcript.output",
    "mahtab_tui.tui.transcript.layout",
)


class LateImports:
    def __init__(
        self, app: MessagePump, first: Sequence[str], steps: Sequence[Callable[[], object]]
    ) -> None:
        def imports(names: Sequence[str]) -> Iterator[Callable[[], object]]:
            return (partial(import_module, name) for name in names)

        self._app = app
        self._steps = chain(imports(first), steps, imports(TRANSCRIPT_MODULES))

    def begin(self) -> None:
        """Call it when the application is mounted and before threads start."""
        IMPORTS.screen_begins()
        self._app.call_after_refresh(self._step)

    async def _step(self) -> None:
        if (step := next(self._steps, None)) is None:
            IMPORTS.screen_ends()
        else:
            if isawaitable(done := step()):
                await done
            self._app.call_later(self._step)


T = TypeVar("T")

RIGHT_BUTTON = 3
BRIEF = 60


class TerminalApp(App[T]):
    ENABLE_COMMAND_PALETTE = False  # Textual would bind a second command to the palette's key

    def __init__(
        self, *, theme: str = "", guard: StdioRedirect | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        for each in (MAHTAB, MAHTAB_DAY):
            self.register_theme(each)
        self.set_theme(theme)
        self.guard = guard
        self.crash: Crash | None = None
        self.saves_crash = True
        self.next_session = ""
        self.leaves_kernel = False
        self._text_only = TextOnly()

    def set_theme(self, name: str) -> None:
        self.theme = name if name in self.available_themes else MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def action_dark_light(self) -> None:
        self.theme = MAHTAB_DAY.name if self.current_theme.dark else MAHTAB.name

    def mask(self, text: str) -> str:
        return text

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

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
        super().notify(
            plain(message),
            title=plain(title),
            severity=severity,
            timeout=timeout or (3 if len(message) <= BRIEF else 5),
            markup=False,
        )

    @property
    def is_ending(self) -> bool:
        return self._exit

    @property
    def terminal(self) -> TerminalDriver | None:
        return self._driver if isinstance(self._driver, TerminalDriver) else None

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
        if isinstance(message._sender, Widget) and not self.screen_stack:
            return
        await super()._on_message(message)

    def _handle_exception(self, error: Exception) -> None:
        # `WorkerFailed` has the actual error as `error`.
        if self._exit and isinstance(getattr(error, "error", error), NoMatches | ScreenError):
            return  # while the application ends, a widget may handle an event after others are gone
        if self.crash is None:
            from mahtab_tui.tui.open import save_crash

            self.crash = save_crash(error, self.mask, saves=self.saves_crash)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Print nothing: Textual would print values of variables, which may be secrets."""
        self._close_messages_no_wait()


def cell_size(app: App[Any]) -> tuple[int, int]:
    terminal = app.terminal if isinstance(app, TerminalApp) else None
    return (terminal and terminal.cell_size) or (1, 2)
