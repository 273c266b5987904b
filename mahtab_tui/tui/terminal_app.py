"""What each of our applications does that takes over a terminal, and where Textual's own would break."""

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
from mahtab_tui.tui.gate import TextOnly
from mahtab_tui.tui.guard import ScreenGuard
from mahtab_tui.tui.typed_ahead import TypedAheadDriver

if TYPE_CHECKING:
    from mahtab_tui.tui.crash import Crash
    from mahtab_tui.tui.graphics.answers import Terminal

T = TypeVar("T")

RIGHT_BUTTON = 3
"""What a click with the right button of the mouse has as its `button`."""


class TerminalApp(App[T]):
    """Draws text only, reads keys by `TypedAheadDriver`, and keeps the traceback of an error that ends it."""

    def __init__(self, *args: Any, guard: ScreenGuard | None = None, **kwargs: Any) -> None:
        """guard: what keeps other output off the screen."""
        super().__init__(*args, **kwargs)
        self.guard = guard
        self.crash: Crash | None = None
        """The error that has ended it."""
        self._text_only = TextOnly()

    def mask(self, text: str) -> str:
        """A text without what no report may hold."""
        return text

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return TypedAheadDriver if driver is LinuxDriver else driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._text_only]

    def notify(self, message: str, *, title: str = "", **kwargs: Any) -> None:
        super().notify(plain(message), title=plain(title), **kwargs)

    def tell(self, message: str, severity: SeverityLevel = "information") -> None:
        """Show a short notification, whose text is never read as markup."""
        self.notify(message, severity=severity, markup=False, timeout=3)

    @property
    def is_ending(self) -> bool:
        """Whether it is being left."""
        return self._exit

    @property
    def terminal(self) -> Terminal | None:
        """What draws graphics; None: a terminal that cannot be asked."""
        return self._driver if isinstance(self._driver, TypedAheadDriver) else None

    def leave_by_code(self) -> None:
        """A cell called `exit()`."""
        self.exit()

    async def on_event(self, event: Event) -> None:
        """Drops keys at the very end, when there is no screen any more, and presses on a widget that is still drawn and already gone:
        Textual would begin a selection in its parent, which it has not."""
        if isinstance(event, InputEvent) and not self.screen_stack:
            return
        if not (isinstance(event, MouseDown) and _is_gone(self.screen, event)):
            await super().on_event(event)

    async def _on_message(self, message: Message) -> None:
        """Drops what widgets say at the very end."""
        if isinstance(message._sender, Widget) and not self.screen_stack:
            return
        await super()._on_message(message)

    def _handle_exception(self, error: Exception) -> None:
        if self._exit and isinstance(getattr(error, "error", error), NoMatches | ScreenError):  # also one that a `WorkerFailed` is about
            return  # while it is left its parts go, and what still came to one finds the others gone
        if self.crash is None:
            from mahtab_tui.tui.crash import kept

            self.crash = kept(error, self.mask)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Nothing is printed yet: Textual would print the values of variables, and keys may be among them."""
        self._close_messages_no_wait()


def _is_gone(screen: Screen[object], event: MouseDown) -> bool:
    widget, _ = screen.get_widget_and_offset_at(event.x, event.y)
    return widget is not None and not isinstance(widget, Screen) and widget.parent is None


def cell_size(app: App[Any]) -> tuple[int, int]:
    """Pixels of a cell, width and height; where the terminal does not say, about their proportion."""
    terminal = app.terminal if isinstance(app, TerminalApp) else None
    return (terminal and terminal.cell_size) or (1, 2)
