"""The base of our applications: themes, terminal output, and workarounds for Textual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from textual.app import App, ScreenError
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, InputEvent, MouseDown
from textual.filter import LineFilter
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import Widget

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.output_filter import TextOnly
from mahtab_tui.tui.stdio_redirect import StdioRedirect
from mahtab_tui.tui.terminal_driver import TerminalDriver
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, role_variables

if TYPE_CHECKING:
    from mahtab_tui.tui.crash import Crash

T = TypeVar("T")

RIGHT_BUTTON = 3
"""The `button` of a click with the right mouse button."""


class TerminalApp(App[T]):
    """Draws text only, reads keys through `TerminalDriver`, and keeps the traceback of an error
    that ends it."""

    ENABLE_COMMAND_PALETTE = False  # Textual would bind a second command to the palette's key

    def __init__(
        self, *, theme: str = "", guard: StdioRedirect | None = None, **options: Any
    ) -> None:
        """theme: a name; our own dark theme if there is none of that name. guard: keeps other
        output off the screen. options: of `App`."""
        super().__init__(**options)
        for each in (MAHTAB, MAHTAB_DAY):
            self.register_theme(each)
        self.theme = theme if theme in self.available_themes else MAHTAB.name
        self.guard = guard
        self.crash: Crash | None = None
        """The error that ended it."""
        self.saves_crash = True
        """Whether its traceback is saved."""
        self.next_session = ""
        """The id of the session to open in its place; empty for none."""
        self.leaves_kernel = False
        """Whether the kernel goes on without the screen."""
        self._text_only = TextOnly()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def action_dark_light(self) -> None:
        self.theme = MAHTAB_DAY.name if self.current_theme.dark else MAHTAB.name

    def mask(self, text: str) -> str:
        """Mask the secrets in a report of an error."""
        return text

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_only]

    def notify(self, message: str, *, title: str = "", **kwargs: Any) -> None:
        super().notify(plain(message), title=plain(title), **kwargs)

    def tell(self, message: str, severity: SeverityLevel = "information") -> None:
        """Show a short notification, whose text is never read as markup."""
        self.notify(message, severity=severity, markup=False, timeout=3)

    @property
    def is_ending(self) -> bool:
        return self._exit

    @property
    def terminal(self) -> TerminalDriver | None:
        """The terminal, if it can draw graphics and be asked about it."""
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def leave_by_code(self) -> None:
        self.exit()

    async def on_event(self, event: Event) -> None:
        """Drop keys once there is no screen, and mouse presses on a removed widget that is still
        drawn, whose parent Textual would select in."""
        if isinstance(event, InputEvent) and not self.screen_stack:
            return
        if not (isinstance(event, MouseDown) and _is_gone(self.screen, event)):
            await super().on_event(event)

    async def _on_message(self, message: Message) -> None:
        """Drop messages of widgets once there is no screen."""
        if isinstance(message._sender, Widget) and not self.screen_stack:
            return
        await super()._on_message(message)

    def _handle_exception(self, error: Exception) -> None:
        if self._exit and isinstance(
            getattr(error, "error", error), NoMatches | ScreenError
        ):  # `WorkerFailed` has an `error`
            return  # while the application ends, a widget may handle an event when others are gone
        if self.crash is None:
            from mahtab_tui.tui.crash import kept

            self.crash = kept(error, self.mask, saves=self.saves_crash)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Print nothing: Textual would print the values of variables, which may be secrets."""
        self._close_messages_no_wait()


def _is_gone(screen: Screen[object], event: MouseDown) -> bool:
    widget, _ = screen.get_widget_and_offset_at(event.x, event.y)
    return widget is not None and not isinstance(widget, Screen) and widget.parent is None


def cell_size(app: App[Any]) -> tuple[int, int]:
    """Width and height of a cell in pixels; if the terminal does not tell, their usual
    proportion."""
    terminal = app.terminal if isinstance(app, TerminalApp) else None
    return (terminal and terminal.cell_size) or (1, 2)
